//! Times one sandbox from its start to the first byte that its program prints, beside two yardsticks taken in turn with
//! it: the same command started bare, and by bubblewrap with the same mounts. Used by `scripts/bench`.
//!
//! ```text
//! launch_time EXECUTABLE SAMPLES [BWRAP]
//! ```
//!
//! `EXECUTABLE` is a program that is the launcher when it is started as one. Prints a JSON object: for each way an array
//! of seconds, and bubblewrap's command line. Rounds take the ways in turn, so that a busy moment hits all of them.

use std::error::Error;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stead_sandbox::cgroup::CgroupManager;
use stead_sandbox::plan::{Ids, Limits, Mount, Network, Program, SandboxPlan, SystemBase, TmpfsSize, system_mounts};
use stead_sandbox::{Exit, Handover, launch};

const SCRIPT: &str = "echo x";
const ID: u32 = 1000;
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const UIDS: u32 = 65_536;
/// Far above what accounts and the server's own slots use.
const FIRST_UID: u32 = 1_900_000_000;
const WARM_UP: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [executable, samples, rest @ ..] = arguments.as_slice() else {
        return Err("usage: launch_time EXECUTABLE SAMPLES [BWRAP]".into());
    };
    let executable = PathBuf::from(executable);
    let samples: usize = samples.parse()?;
    let scratch = tempfile::tempdir()?;
    let mounts = system_mounts(&SystemBase {
        run_uid: ID,
        run_gid: ID,
        user_name: "agent",
        home: Path::new("/home/agent"),
        hostname: "bench",
        toolchains: &[],
    })?;
    let bwrap = rest.first().map(|program| bubblewrap(program, &mounts, scratch.path())).transpose()?;
    let plan = plan(mounts);
    let groups = CgroupManager::detect("stead-bench")?;

    let (mut bare, mut wrapped, mut launched, mut grouped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + samples {
        let took = [
            Some(time_command(Command::new("/bin/sh").args(["-c", SCRIPT]))?),
            bwrap.as_deref().map(|line| time_command(Command::new(&line[0]).args(&line[1..]))).transpose()?,
            Some(time_launch(&executable, &plan)?),
            Some(time_launch_with_group(&executable, &plan, &groups)?),
        ];
        if round >= WARM_UP {
            for (all, one) in [&mut bare, &mut wrapped, &mut launched, &mut grouped].into_iter().zip(took) {
                all.extend(one.map(|took| took.as_secs_f64()));
            }
        }
    }
    let found = serde_json::json!({
        "bare": bare,
        "bwrap": wrapped,
        "launcher": launched,
        "launcher_with_cgroups": grouped,
        "bwrap_command": bwrap,
        "cgroups_missing": groups.missing().iter().map(|controller| format!("{controller:?}")).collect::<Vec<_>>(),
    });
    println!("{found}");
    Ok(())
}

fn plan(mounts: Vec<Mount>) -> SandboxPlan {
    let memory = TmpfsSize { size_bytes: 64 << 20, inodes: 10_000 };
    SandboxPlan {
        hostname: "bench".into(),
        ids: Ids::Range { first: FIRST_UID, count: UIDS },
        run_uid: ID,
        run_gid: ID,
        mounts,
        temporary: memory,
        shared_memory: memory,
        pseudo_terminals: false,
        limits: Limits {
            memory_bytes: 1 << 30,
            processes: 512,
            cpu_millis: 2000,
            open_files: 1024,
            file_size: None,
            io_bytes_per_second: None,
        },
        cgroup: None,
        network: Network::Loopback,
        program: Program::Path("/bin/sh".into()),
        arguments: vec!["sh".into(), "-c".into(), SCRIPT.into()],
        environment: vec![("PATH".into(), PATH.into())],
        working_directory: "/".into(),
        listen: None,
    }
}

/// From before the call to the first byte; waiting for the end is not part of it.
fn time_launch(executable: &Path, plan: &SandboxPlan) -> Result<Duration, Box<dyn Error>> {
    let began = Instant::now();
    let (mut reader, writer) = std::io::pipe()?;
    let handover = Handover { program: None, descriptors: vec![(writer.as_fd(), 1), (writer.as_fd(), 2)] };
    let launched = launch(executable, plan, &handover)?;
    drop(writer);
    let first = first_byte(&mut reader);
    let took = began.elapsed();
    let exit = launched.wait(Duration::from_secs(10))?;
    if first? && exit == Some(Exit::Code(0)) { Ok(took) } else { Err(format!("the sandbox failed: {exit:?}").into()) }
}

/// As the server does it: making the control groups is part of the time, taking them away is not.
fn time_launch_with_group(
    executable: &Path,
    plan: &SandboxPlan,
    groups: &CgroupManager,
) -> Result<Duration, Box<dyn Error>> {
    let name = std::process::id().to_string();
    let began = Instant::now();
    let cgroup = groups.create(&name, &plan.limits)?;
    let made = began.elapsed();
    let took = time_launch(executable, &SandboxPlan { cgroup: Some(cgroup), ..plan.clone() });
    groups.remove(&name)?;
    Ok(made + took?)
}

fn time_command(command: &mut Command) -> Result<Duration, Box<dyn Error>> {
    command.env_clear().env("PATH", PATH).stdin(Stdio::null()).stdout(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn()?;
    let mut output = child.stdout.take().ok_or("standard output is not piped")?;
    let first = first_byte(&mut output);
    let took = began.elapsed();
    let status = child.wait()?;
    if first? && status.success() { Ok(took) } else { Err(format!("{command:?} failed: {status}").into()) }
}

fn first_byte(reader: &mut impl Read) -> std::io::Result<bool> {
    Ok(reader.read(&mut [0])? == 1)
}

/// Bubblewrap's command line for the same mounts. It has no allow-list of system calls, no Landlock, no ids beyond one and
/// no limits, so it does less.
fn bubblewrap(program: &str, mounts: &[Mount], scratch: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut line: Vec<String> = vec![program.into()];
    let id = ID.to_string();
    line.extend(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"].map(String::from));
    line.extend(["--setenv", "PATH", PATH, "--uid", &id, "--gid", &id, "--hostname", "bench"].map(String::from));
    line.extend(["--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"].map(String::from));
    for (index, mount) in mounts.iter().enumerate() {
        let target = mount.target().display().to_string();
        match mount {
            Mount::BindReadOnly { source, .. } => {
                line.extend(["--ro-bind".into(), source.display().to_string(), target]);
            }
            Mount::Symlink { to, .. } => line.extend(["--symlink".into(), to.display().to_string(), target]),
            Mount::Directory { .. } => line.extend(["--dir".into(), target]),
            Mount::File { contents, .. } => {
                let source = scratch.join(index.to_string());
                fs::write(&source, contents)?;
                line.extend(["--ro-bind".into(), source.display().to_string(), target]);
            }
            other => return Err(format!("the system base has a mount that bubblewrap cannot make: {other:?}").into()),
        }
    }
    line.extend(["--chdir", "/", "--", "/bin/sh", "-c", SCRIPT].map(String::from));
    Ok(line)
}
