//! Times one sandbox from its start to the first byte that its program prints, beside yardsticks taken in turn with it:
//! the same command started bare, by bubblewrap with the same mounts and the same filter of system calls, and by
//! `docker run --rm`. Used by `scripts/bench`.
//!
//! ```text
//! launch_time EXECUTABLE SAMPLES [--bwrap PROGRAM] [--docker PROGRAM IMAGE]
//! ```
//!
//! `EXECUTABLE` is a program that is the launcher when it is started as one. Prints a JSON object: for each way an array
//! of seconds and its command line. Rounds take the ways in turn, so that a busy moment hits all of them; a container is
//! started in every fifth round only.

use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stead_sandbox::cgroup::CgroupManager;
use stead_sandbox::plan::{Ids, Limits, Mount, Network, Program, SandboxPlan, SystemBase, TmpfsSize, system_mounts};
use stead_sandbox::{Exit, Handover, Launcher, seccomp};

const SCRIPT: &str = "echo x";
const ID: u32 = 1000;
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const UIDS: u32 = 65_536;
/// Far above what accounts and the server's own slots use.
const FIRST_UID: u32 = 1_900_000_000;
const WARM_UP: usize = 3;
/// Enough for a launcher to have started.
const START: Duration = Duration::from_millis(20);

/// A container takes a hundred times as long as the rest of a round.
const ROUNDS_PER_CONTAINER: usize = 5;

/// A program that is started for comparison.
struct Yardstick {
    line: Vec<String>,
    /// What it reads: opened anew for each start, as bubblewrap wants its filter.
    input: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [executable, samples, rest @ ..] = arguments.as_slice() else {
        return Err("usage: launch_time EXECUTABLE SAMPLES [--bwrap PROGRAM] [--docker PROGRAM IMAGE]".into());
    };
    let executable = PathBuf::from(executable);
    let samples: usize = samples.parse()?;
    let after = |name: &str| rest.iter().position(|word| word == name).map(|at| &rest[at + 1..]);
    let scratch = tempfile::tempdir()?;
    let mounts = system_mounts(&SystemBase {
        run_uid: ID,
        run_gid: ID,
        user_name: "agent",
        home: Path::new("/home/agent"),
        hostname: "bench",
        toolchains: &[],
    })?;
    let bare = Yardstick { line: ["/bin/sh", "-c", SCRIPT].map(String::from).to_vec(), input: None };
    let bwrap = after("--bwrap").and_then(<[String]>::first);
    let bwrap = bwrap.map(|program| bubblewrap(program, &mounts, scratch.path())).transpose()?;
    let docker = match after("--docker") {
        Some([program, image, ..]) => Some(container(program, image)),
        Some(_) => return Err("--docker takes a program and an image".into()),
        None => None,
    };
    let plan = plan(mounts);
    let groups = CgroupManager::detect("stead-bench")?;

    let (fresh, ahead) = (Launcher::new(&executable), Launcher::new(&executable));
    let mut found: [Vec<f64>; 6] = Default::default();
    for round in 0..WARM_UP + samples {
        let docker = docker.as_ref().filter(|_| round % ROUNDS_PER_CONTAINER == 0);
        let took = [
            Some(time_command(&bare)?),
            bwrap.as_ref().map(time_command).transpose()?,
            Some(time_launch(&fresh, &plan)?),
            Some(time_launch_ahead(&ahead, &plan)?),
            Some(time_launch_with_group(&fresh, &plan, &groups)?),
            docker.map(time_command).transpose()?,
        ];
        if round >= WARM_UP {
            for (all, one) in found.iter_mut().zip(took) {
                all.extend(one.map(|took| took.as_secs_f64()));
            }
        }
    }
    groups.retire();
    let [bare, wrapped, launched, prepared, grouped, contained] = found;
    let line = |yardstick: Option<Yardstick>| yardstick.map(|yardstick| yardstick.line);
    let found = serde_json::json!({
        "bare": bare,
        "bwrap": wrapped,
        "launcher": launched,
        "launcher_ahead": prepared,
        "launcher_with_cgroups": grouped,
        "docker": contained,
        "bwrap_command": line(bwrap),
        "docker_command": line(docker),
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
fn time_launch(launcher: &Launcher, plan: &SandboxPlan) -> Result<Duration, Box<dyn Error>> {
    let began = Instant::now();
    let (mut reader, writer) = std::io::pipe()?;
    let handover = Handover { program: None, descriptors: vec![(writer.as_fd(), 1), (writer.as_fd(), 2)] };
    let launched = launcher.launch(plan, &handover)?;
    drop(writer);
    let first = first_byte(&mut reader);
    let took = began.elapsed();
    let exit = launched.wait(Duration::from_secs(10))?;
    if first? && exit == Some(Exit::Code(0)) { Ok(took) } else { Err(format!("the sandbox failed: {exit:?}").into()) }
}

/// With a launcher that was started ahead, as the server has one when it has not made a sandbox just before.
fn time_launch_ahead(launcher: &Launcher, plan: &SandboxPlan) -> Result<Duration, Box<dyn Error>> {
    launcher.prepare()?;
    std::thread::sleep(START);
    time_launch(launcher, plan)
}

/// As the server does it: making the control groups is part of the time, taking them away is not.
fn time_launch_with_group(
    launcher: &Launcher,
    plan: &SandboxPlan,
    groups: &CgroupManager,
) -> Result<Duration, Box<dyn Error>> {
    let name = std::process::id().to_string();
    let began = Instant::now();
    let cgroup = groups.create(&name, &plan.limits)?;
    let made = began.elapsed();
    let took = time_launch(launcher, &SandboxPlan { cgroup: Some(cgroup), ..plan.clone() });
    groups.remove(&name)?;
    Ok(made + took?)
}

fn time_command(yardstick: &Yardstick) -> Result<Duration, Box<dyn Error>> {
    let mut command = Command::new(&yardstick.line[0]);
    command.args(&yardstick.line[1..]).env_clear().env("PATH", PATH).stdout(Stdio::piped());
    command.stdin(match &yardstick.input {
        Some(path) => Stdio::from(File::open(path)?),
        None => Stdio::null(),
    });
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

/// `docker run --rm` without a network, for a sandbox has none either.
fn container(program: &str, image: &str) -> Yardstick {
    let line = [program, "run", "--rm", "--network", "none", image, "/bin/sh", "-c", SCRIPT];
    Yardstick { line: line.map(String::from).to_vec(), input: None }
}

/// Bubblewrap's command line for the same mounts and the same filter, which it reads from its standard input. It has no
/// Landlock, no ids beyond one and no limits, so it does less.
fn bubblewrap(program: &str, mounts: &[Mount], scratch: &Path) -> Result<Yardstick, Box<dyn Error>> {
    let filter = scratch.join("filter");
    let instructions = seccomp::compile()?;
    let bytes = instructions.iter().flat_map(|one| {
        let [low, high] = one.code.to_ne_bytes();
        let [a, b, c, d] = one.k.to_ne_bytes();
        [low, high, one.jt, one.jf, a, b, c, d]
    });
    fs::write(&filter, bytes.collect::<Vec<u8>>())?;
    let mut line: Vec<String> = vec![program.into()];
    let id = ID.to_string();
    line.extend(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"].map(String::from));
    line.extend(["--setenv", "PATH", PATH, "--uid", &id, "--gid", &id, "--hostname", "bench"].map(String::from));
    line.extend(
        ["--cap-drop", "ALL", "--seccomp", "0", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
            .map(String::from),
    );
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
    Ok(Yardstick { line, input: Some(filter) })
}
