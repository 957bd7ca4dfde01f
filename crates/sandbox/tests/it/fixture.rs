//! A sandbox with a shell, and what came out of it.

use std::fs::{self, File};
use std::io::Read;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stead_sandbox::cgroup::CgroupManager;
use stead_sandbox::plan::{Ids, Limits, Mount, Network, Program, SandboxPlan, SystemBase, TmpfsSize, system_mounts};
use stead_sandbox::{Exit, Handover, LaunchError, Launched, launch};

pub(crate) const LAUNCHER: &str = env!("CARGO_BIN_EXE_stead-sandbox-launcher");
const FIRST_UID: u32 = 1_700_000_000;
const UIDS: u32 = 65_536;
const RUN_ID: u32 = 1000;
static SLOT: AtomicU32 = AtomicU32::new(0);

/// Who this run of the tests is, and so how it makes sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The host's root: a range of ids for each sandbox.
    Root,
    /// An ordinary user: one id for all.
    User,
}

/// Prints the mode, so that a reader of the output knows which of the two runs it is of.
pub(crate) fn mode() -> Mode {
    let (mode, name) = match rustix::process::geteuid() {
        user if user.is_root() => (Mode::Root, "root".to_string()),
        user => (Mode::User, format!("ordinary user {user}")),
    };
    println!("mode: {name}");
    mode
}

/// Says that a test has nothing to try here, which no run that turns skips into failures takes from root.
pub(crate) fn skip(reason: &str) {
    assert!(mode() == Mode::User || std::env::var_os("STEAD_NO_SKIP").is_none(), "{reason}");
    println!("skipped: {reason}");
}

/// Gives a file to the sandbox's user, to whom everything of an ordinary user's belongs already.
fn give(path: impl AsRef<Path>, ids: Ids) {
    if let Some((uid, gid)) = ids.of_run_user(RUN_ID, RUN_ID) {
        chown(path, Some(uid), Some(gid)).unwrap();
    }
}

/// A scratch directory on the host, with a writable workspace and a read-only layer in it.
pub(crate) struct Bench {
    scratch: tempfile::TempDir,
    pub(crate) mode: Mode,
    pub(crate) plan: SandboxPlan,
}

/// A sandbox that ends with the test, also when the test fails.
#[derive(Debug)]
pub(crate) struct Running(Launched);

impl Deref for Running {
    type Target = Launched;

    fn deref(&self) -> &Launched {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait(Duration::from_secs(10));
    }
}

/// What a program in a sandbox left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) output: String,
    pub(crate) exit: Exit,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let mode = mode();
        let ids = match mode {
            Mode::Root => Ids::Range { first: FIRST_UID + SLOT.fetch_add(1, Ordering::Relaxed) * UIDS, count: UIDS },
            Mode::User => Ids::Own,
        };
        let at = |name: &str| scratch.path().join(name);
        for name in ["workspace", "layer", "run"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o700)).unwrap();
        give(at("workspace"), ids);
        fs::create_dir(at("layer/bin")).unwrap();
        fs::write(at("layer/file"), "sealed\n").unwrap();
        fs::write(at("layer/own"), "sealed\n").unwrap();
        give(at("layer/own"), ids);

        let mut mounts = system_mounts(&SystemBase {
            run_uid: RUN_ID,
            run_gid: RUN_ID,
            user_name: "agent",
            home: Path::new("/home/agent"),
            hostname: "probe",
            toolchains: &[],
        })
        .unwrap();
        mounts.extend([
            Mount::Tmpfs { target: "/home/agent".into(), size_bytes: 16 << 20, inodes: 1000, mode: 0o700 },
            Mount::BindWritable { source: at("workspace"), target: "/workspace".into() },
            Mount::BindReadOnly { source: at("layer"), target: "/env/project".into() },
        ]);
        let plan = SandboxPlan {
            hostname: "probe".into(),
            ids,
            run_uid: RUN_ID,
            run_gid: RUN_ID,
            mounts,
            temporary: TmpfsSize { size_bytes: 8 << 20, inodes: 500 },
            shared_memory: TmpfsSize { size_bytes: 8 << 20, inodes: 500 },
            pseudo_terminals: false,
            limits: Limits {
                memory_bytes: 512 << 20,
                processes: 64,
                cpu_millis: 2000,
                open_files: 256,
                file_size: None,
                io_bytes_per_second: None,
            },
            cgroup: None,
            network: Network::Loopback,
            program: Program::Path("/bin/sh".into()),
            arguments: vec!["sh".into()],
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            working_directory: "/workspace".into(),
            listen: None,
        };
        Self { scratch, mode, plan }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Host id of the run user.
    pub(crate) fn run_id(&self) -> u32 {
        self.plan.ids.of_run_user(RUN_ID, RUN_ID).map_or(rustix::process::geteuid().as_raw(), |(uid, _)| uid)
    }

    /// Gives a file of the bench to the sandbox's user.
    pub(crate) fn give(&self, name: &str) {
        give(self.path(name), self.plan.ids);
    }

    /// Starts a shell script; its output goes to the returned file.
    pub(crate) fn start(&mut self, script: &str) -> Result<(Running, File), LaunchError> {
        self.plan.arguments = vec!["sh".into(), "-c".into(), script.into()];
        self.start_plan()
    }

    pub(crate) fn start_plan(&self) -> Result<(Running, File), LaunchError> {
        let (reader, writer) = std::io::pipe().unwrap();
        let handover = Handover { program: None, descriptors: vec![(writer.as_fd(), 1), (writer.as_fd(), 2)] };
        let launched = launch(Path::new(LAUNCHER), &self.plan, &handover)?;
        drop(writer);
        Ok((Running(launched), File::from(std::os::fd::OwnedFd::from(reader))))
    }

    /// Runs a shell script to its end.
    pub(crate) fn run(&mut self, script: &str) -> Ran {
        let (launched, mut reader) = self.start(script).unwrap();
        finish(&launched, &mut reader)
    }

    /// Runs a Python program to its end.
    pub(crate) fn python(&mut self, program: &str) -> Ran {
        self.plan.program = Program::Path("/usr/bin/python3".into());
        self.plan.arguments = vec!["python3".into(), "-c".into(), program.into()];
        let (launched, mut reader) = self.start_plan().unwrap();
        self.plan.program = Program::Path("/bin/sh".into());
        finish(&launched, &mut reader)
    }
}

/// A prefix of its own for every test, so that they can run side by side.
pub(crate) struct Groups {
    pub(crate) manager: CgroupManager,
}

impl Groups {
    pub(crate) fn new(test: &str) -> Self {
        let prefix = format!("stead-test-{test}-{}", std::process::id());
        let manager = CgroupManager::detect(&prefix).unwrap();
        println!("control groups: killed at once: {}, {:?}", manager.kills_at_once(), manager.notes());
        Self { manager }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for name in self.manager.list() {
            let _ = self.manager.kill(&name);
            let _ = self.manager.remove(&name);
        }
        self.manager.retire();
    }
}

pub(crate) fn finish(launched: &Launched, reader: &mut File) -> Ran {
    let mut output = Vec::new();
    reader.read_to_end(&mut output).unwrap();
    let exit = launched.wait(Duration::from_mins(1)).unwrap().expect("the sandbox ended");
    Ran { output: String::from_utf8_lossy(&output).into_owned(), exit }
}
