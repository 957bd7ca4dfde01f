//! One real sandbox, in which this program tries what a session must not be able to do.
//!
//! ```text
//! stead doctor ── launcher ──▶ sandbox: this program again, under the name TRIAL_NAME ── JSON on standard output ──▶ findings
//! ```
//!
//! Every attempt is harmless where it succeeds. The sandbox has the mounts, the filter and the ids that a session has, and
//! nothing of a server: no data directory, no registry, no runtime.

mod inside;

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stead_provider_native::{DEFAULT_UID_BASE, UIDS_PER_SLOT};
use stead_sandbox::cgroup::{CgroupManager, Controller};
use stead_sandbox::plan::{Ids, Limits, Mount, Network, Program, SandboxPlan, SystemBase, TmpfsSize, system_mounts};
use stead_sandbox::{Exit, Handover, launch};

use super::Finding;
pub(crate) use inside::{started_as_trial, trial_main};

/// The name under which this program is the one in the sandbox.
const TRIAL_NAME: &str = "stead-trial";
/// First argument of one that takes memory until it is ended.
const TAKE_MEMORY: &str = "memory";
/// Where the layer appears, and the file in it.
const LAYER: &str = "/env/trial";
const LAYER_FILE: &str = "file";

const RUN_ID: u32 = 1000;
/// Ids below those that servers take, so that no session has them.
const FIRST_UID: u32 = DEFAULT_UID_BASE - 2 * UIDS_PER_SLOT;
const PROCESSES: u64 = 32;
const MEMORY_BYTES: u64 = 96 << 20;
const PATIENCE: Duration = Duration::from_secs(20);
/// More than all attempts have to say.
const MOST_WORDS: u64 = 64 << 10;

/// Something that was tried in the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// What was tried, such as "write to a layer".
    #[serde(rename = "attempt")]
    pub(super) name: String,
    /// Whether it was refused.
    pub(super) refused: bool,
    /// The kernel's answer, or what was reached.
    pub(super) answer: String,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Trial {
    pub(super) fences: Vec<Finding>,
    pub(super) limits: Vec<Finding>,
    pub(super) attempts: Vec<Attempt>,
}

/// Starts the sandbox and judges what it says.
pub(super) fn run(cgroups: &CgroupManager) -> Trial {
    let mut trial = Trial::default();
    match in_sandbox(cgroups) {
        Ok(attempts) => {
            trial.fences = judge(&attempts);
            trial.attempts = attempts;
        }
        Err(error) => {
            let text = format!("a sandbox cannot be started: {error}");
            trial.fences.push(Finding::missing("trial", true, text, None));
            return trial;
        }
    }
    if cgroups.version_of(Controller::Memory).is_some() {
        trial.limits.push(memory(cgroups));
    }
    trial
}

fn judge(attempts: &[Attempt]) -> Vec<Finding> {
    let (refused, reached): (Vec<&Attempt>, Vec<&Attempt>) = attempts.iter().partition(|attempt| attempt.refused);
    let mut findings: Vec<Finding> = reached
        .iter()
        .map(|attempt| {
            let text = format!("a program in a sandbox could {}: {}", attempt.name, attempt.answer);
            let fix = "do not run agents here; docs/security.md says how to report this";
            Finding::missing("trial", true, text, Some(fix.to_owned()))
        })
        .collect();
    if findings.is_empty() {
        let list: Vec<&str> = refused.iter().map(|attempt| attempt.name.as_str()).collect();
        let text = format!("in a sandbox started for this, a program could not {}", list.join(", "));
        findings.push(Finding::good("trial", text));
    }
    findings
}

/// Whether the bound of memory holds.
fn memory(cgroups: &CgroupManager) -> Finding {
    let name = "trial of memory";
    let size = MEMORY_BYTES >> 20;
    match launched(cgroups, &plan(Path::new("/usr"), vec![TAKE_MEMORY.to_owned()])) {
        Ok((Exit::Signal(9), _)) => {
            Finding::good(name, format!("a program that took more than the {size} MiB of its sandbox was ended"))
        }
        Ok((exit, _)) => {
            let text = format!("a program took twice the {size} MiB of its sandbox and went on ({exit:?})");
            Finding::partial(name, text, Some("swapoff -a, or boot with swapaccount=1".to_owned()))
        }
        Err(error) => Finding::partial(name, format!("it could not be tried: {error}"), None),
    }
}

/// A layer on the host's disk, removed when dropped.
struct Layer(PathBuf);

impl Layer {
    fn make() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("stead-doctor-{}", std::process::id()));
        DirBuilder::new().mode(0o755).create(&path)?;
        let layer = Self(path);
        let file = layer.0.join(LAYER_FILE);
        std::fs::write(&file, "sealed\n")?;
        // Its permissions let everybody write, so that the mount alone must refuse it.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666))?;
        Ok(layer)
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        // Nothing that anybody needs; what stays is a small directory in a place for such.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn in_sandbox(cgroups: &CgroupManager) -> io::Result<Vec<Attempt>> {
    let layer = Layer::make()?;
    // Two doors of the host that must be closed: they are open to every program outside.
    let loopback = TcpListener::bind("127.0.0.1:0")?;
    let name = format!("stead-doctor-{}", std::process::id());
    let _socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let port = loopback.local_addr()?.port();
    let (exit, said) = launched(cgroups, &plan(&layer.0, vec![port.to_string(), name]))?;
    if exit != Exit::Code(0) {
        return Err(io::Error::other(format!("the program in it ended with {exit:?}")));
    }
    serde_json::from_slice(&said).map_err(io::Error::from)
}

fn launched(cgroups: &CgroupManager, plan: &SandboxPlan) -> io::Result<(Exit, Vec<u8>)> {
    let name = "trial";
    let cgroup = cgroups.create(name, &plan.limits).map_err(io::Error::other)?;
    let outcome = started(&SandboxPlan { cgroup: Some(cgroup), ..plan.clone() });
    let cleared = cgroups.kill(name).and_then(|()| cgroups.remove(name));
    let outcome = outcome?;
    cleared.map_err(io::Error::other)?;
    Ok(outcome)
}

fn started(plan: &SandboxPlan) -> io::Result<(Exit, Vec<u8>)> {
    let executable = std::env::current_exe()?;
    let program = File::open(&executable)?;
    let (reader, writer) = io::pipe()?;
    let handover = Handover { program: Some(program.as_fd()), descriptors: vec![(writer.as_fd(), 1)] };
    let launched = launch(&executable, plan, &handover).map_err(io::Error::other)?;
    drop(writer);
    let mut said = Vec::new();
    let read = reader.take(MOST_WORDS).read_to_end(&mut said);
    let exit = launched.wait(PATIENCE)?;
    let Some(exit) = exit else {
        launched.kill()?;
        launched.wait(PATIENCE)?;
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the program in it did not end"));
    };
    read?;
    Ok((exit, said))
}

fn plan(layer: &Path, arguments: Vec<String>) -> SandboxPlan {
    let base = SystemBase {
        run_uid: RUN_ID,
        run_gid: RUN_ID,
        user_name: "agent",
        home: Path::new("/home/agent"),
        hostname: "trial",
        toolchains: &[],
    };
    // A host without /usr cannot start the program either, and says so then.
    let mut mounts = system_mounts(&base).unwrap_or_default();
    mounts.push(Mount::BindReadOnly { source: layer.to_owned(), target: LAYER.into() });
    let is_root = rustix::process::geteuid().is_root();
    let memory = TmpfsSize { size_bytes: 1 << 20, inodes: 100 };
    let mut words = vec![TRIAL_NAME.to_owned()];
    words.extend(arguments);
    SandboxPlan {
        hostname: "trial".into(),
        ids: if is_root { Ids::Range { first: FIRST_UID, count: UIDS_PER_SLOT } } else { Ids::Own },
        run_uid: RUN_ID,
        run_gid: RUN_ID,
        mounts,
        temporary: memory,
        shared_memory: memory,
        pseudo_terminals: false,
        limits: Limits {
            memory_bytes: MEMORY_BYTES,
            processes: PROCESSES,
            cpu_millis: 1000,
            open_files: 256,
            file_size: None,
            io_bytes_per_second: None,
        },
        cgroup: None,
        network: Network::Loopback,
        program: Program::Descriptor,
        arguments: words,
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        working_directory: "/".into(),
        listen: None,
    }
}
