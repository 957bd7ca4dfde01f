//! What a program finds when it starts.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use stead_sandbox::plan::{Ids, Program};
use stead_sandbox::{Exit, Handover, LandlockStatus, LaunchError, Step, identity, launch};

use crate::fixture::{Bench, Groups, LAUNCHER, Mode, finish};

#[test]
fn a_program_finds_exactly_what_it_was_given() {
    let mut bench = Bench::new();
    bench.plan.environment = vec![("GIVEN".into(), "only this".into())];
    let script = "/usr/bin/env -u PWD -u SHLVL -u _ -u OLDPWD; echo; id; pwd; hostname; umask; cat /proc/self/setgroups; \
                  grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups|SigIgn|SigBlk)' /proc/self/status; ls -l /proc/self/fd; \
                  ls /; ls /dev; cat /proc/1/comm; ps ax 2>/dev/null | wc -l; cat /sys/class 2>&1; ulimit -n; \
                  ulimit -c 0; sed -n 's/Max core file size *//p' /proc/self/limits";
    let ran = bench.run(script);
    println!("{}", ran.output);
    assert_eq!(ran.exit, Exit::Code(0));
    assert!(ran.output.starts_with("GIVEN=only this\n\n"), "the environment is exactly what was given");
    for line in [
        "uid=1000(agent) gid=1000(agent) groups=1000(agent)",
        "/workspace\nprobe\n0022\ndeny",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        // Bytes, soft and hard, whatever is set: with 0 a host that pipes cores to a program would run it.
        "\n1                    1                    bytes",
        "SigIgn:\t0000000000000000",
    ] {
        assert!(ran.output.contains(line), "{line:?} is missing");
    }
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(ran.output.contains(&format!("{set}:\t0000000000000000")), "{set}");
    }
    // Standard ones, and the directory `ls` itself has open.
    let descriptors = ran.output.lines().filter(|line| line.contains(" -> ")).count();
    assert_eq!(descriptors, 4, "no descriptor leaks");
}

#[test]
fn it_lives_without_the_launcher_and_dies_by_its_pidfd() {
    let mut bench = Bench::new();
    let (launched, mut reader) = bench.start("echo up; exec sleep 1000").unwrap();
    assert!(identity::is_alive(launched.pid, launched.start_time_ticks));
    let mut up = [0; 3];
    reader.read_exact(&mut up).unwrap();
    assert_eq!(launched.wait(Duration::from_millis(1)).unwrap(), None);
    let host_user = fs::read_to_string(format!("/proc/{}/status", launched.pid)).unwrap();
    assert!(host_user.contains(&format!("Uid:\t{0}\t{0}\t{0}\t{0}", bench.run_id())), "{host_user}");
    launched.kill().unwrap();
    assert_eq!(finish(&launched, &mut reader).exit, Exit::Signal(9));
    assert!(!identity::is_alive(launched.pid, launched.start_time_ticks));
}

#[test]
fn the_program_may_be_a_descriptor_and_serve_the_bound_socket() {
    let mut bench = Bench::new();
    let socket = bench.path(&format!("run/{}", "long/".repeat(20)));
    fs::create_dir_all(&socket).unwrap();
    let socket = socket.join("session.sock");
    let python = File::open("/usr/bin/python3").unwrap();
    bench.plan.listen = Some(socket.clone());
    bench.plan.program = Program::Descriptor;
    bench.plan.arguments = vec![
        "init".into(),
        "-c".into(),
        "import socket, os\ns = socket.socket(fileno=3)\nc, _ = s.accept()\nc.sendall(c.recv(100).upper())".into(),
    ];
    let handover = Handover { program: Some(python.as_fd()), descriptors: Vec::new() };
    let launched = launch(Path::new(LAUNCHER), &bench.plan, &handover).unwrap();
    let directory = File::open(socket.parent().unwrap()).unwrap();
    let short = format!("/proc/self/fd/{}/session.sock", std::os::fd::AsRawFd::as_raw_fd(&directory));
    let mut stream = UnixStream::connect(short).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "HELLO");
    assert_eq!(launched.wait(Duration::from_secs(10)).unwrap(), Some(Exit::Code(0)));
}

#[test]
fn the_program_itself_cannot_be_changed_from_inside() {
    let mut bench = Bench::new();
    let copy = bench.path("program");
    fs::copy("/usr/bin/python3", &copy).unwrap();
    // The worst case: it belongs to the sandbox's own user, as the service's files do where that is an ordinary user.
    bench.give("program");
    let before = fs::read(&copy).unwrap();
    bench.plan.program = Program::Descriptor;
    // Keeps hold of its own file, becomes another program so that the file is not busy, and opens it for writing again.
    let script = "import os, subprocess\nsubprocess.run(['/proc/self/exe', '-c', 'print(\"again\")'])\nheld = os.open('/proc/self/exe', os.O_PATH)\nos.set_inheritable(held, True)\n\
                  for way in (f'/proc/self/fd/{held}', '/proc/self/exe'):\n    try: open(way, 'r+b')\n    except OSError as e: print(e, flush=True)\n\
                  os.execv('/bin/sh', ['sh', '-c', f'(: > /proc/self/fd/{held}); chmod 700 /proc/self/fd/{held}; true'])";
    bench.plan.arguments = vec!["init".into(), "-c".into(), script.into()];
    let program = File::open(&copy).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let handover =
        Handover { program: Some(program.as_fd()), descriptors: vec![(writer.as_fd(), 1), (writer.as_fd(), 2)] };
    let launched = launch(Path::new(LAUNCHER), &bench.plan, &handover).unwrap();
    drop(writer);
    let ran = finish(&launched, &mut File::from(std::os::fd::OwnedFd::from(reader)));
    println!("{}", ran.output);
    assert_eq!(ran.exit, Exit::Code(0), "{}", ran.output);
    assert!(ran.output.starts_with("again\n"), "it can execute itself again: {}", ran.output);
    assert!(fs::read(&copy).unwrap() == before, "the program was changed");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&copy).unwrap().permissions());
    if bench.mode == Mode::User {
        assert_eq!(mode & 0o7777, 0o755, "nor can its mode");
        assert!(ran.output.ends_with("Read-only file system\n"), "{}", ran.output);
    }
}

/// Spoils a plan in one way.
type Change = fn(&mut Bench);

#[test]
fn failures_come_back_as_values_with_their_step() {
    let mut bench = Bench::new();
    let cases: [(Step, Change); 5] = [
        (Step::Execute, |bench| bench.plan.program = Program::Path("/no/such/program".into())),
        (Step::WorkingDirectory, |bench| bench.plan.working_directory = "/nowhere".into()),
        (Step::Source, |bench| {
            bench
                .plan
                .mounts
                .push(stead_sandbox::plan::Mount::BindReadOnly { source: "/no/such".into(), target: "/x".into() });
        }),
        (Step::Mount, |bench| {
            // A link a tenant may have made in its workspace must not move a mount elsewhere.
            std::os::unix::fs::symlink("/usr", bench.path("workspace/link")).unwrap();
            bench
                .plan
                .mounts
                .push(stead_sandbox::plan::Mount::Directory { target: "/workspace/link/x".into(), mode: 0o755 });
        }),
        (Step::Listen, |bench| bench.plan.listen = Some(bench.path("missing/socket"))),
    ];
    let before = bench.plan.clone();
    for (step, change) in cases {
        bench.plan = before.clone();
        change(&mut bench);
        match bench.start_plan() {
            Err(LaunchError::Failed(failure)) => {
                println!("{failure}");
                assert_eq!(failure.step, step, "{failure}");
            }
            other => panic!("{step:?}: {other:?}"),
        }
    }
}

/// Set for the copy of this test binary that plays the server which dies.
const PLAY_SERVER: &str = "STEAD_SANDBOX_TEST_DYING_SERVER";

#[test]
fn it_survives_the_server_and_is_found_again() {
    if std::env::var_os(PLAY_SERVER).is_some() {
        let mut bench = Bench::new();
        let (launched, _reader) = bench.start("exec sleep 1000").unwrap();
        println!("\nsandbox {} {}", launched.pid, launched.start_time_ticks);
        std::process::abort();
    }
    let server = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "start::it_survives_the_server_and_is_found_again", "--nocapture"])
        .env(PLAY_SERVER, "1")
        .output()
        .unwrap();
    assert!(!server.status.success());
    let said = String::from_utf8(server.stdout).unwrap();
    let line = said.lines().find_map(|line| line.strip_prefix("sandbox ")).expect("it said what it started");
    let (pid, start) = line.split_once(' ').unwrap();
    let (pid, start) = (pid.parse().unwrap(), start.parse().unwrap());
    assert!(identity::is_alive(pid, start), "the sandbox outlives its server");
    identity::kill_tree(pid, start, None, Duration::from_secs(5)).unwrap();
    assert!(!identity::is_alive(pid, start));
}

#[test]
fn ids_that_cannot_be_given_are_refused_before_anything_starts() {
    let mut bench = Bench::new();
    bench.plan.ids = match bench.mode {
        Mode::Root => Ids::Own,
        Mode::User => Ids::Range { first: 700_000, count: 65_536 },
    };
    let error = launch(Path::new(LAUNCHER), &bench.plan, &Handover::default()).unwrap_err();
    println!("{error}");
    match bench.mode {
        Mode::Root => assert!(matches!(error, LaunchError::Plan(ref wrong) if wrong.field == "ids"), "{error}"),
        Mode::User => {
            assert!(matches!(error, LaunchError::RequiresRoot));
            assert!(error.to_string().contains("run the service as root"), "{error}");
        }
    }
}

#[test]
fn starting_is_quick() {
    let mut bench = Bench::new();
    let groups = Groups::new("quick");
    bench.plan.cgroup = Some(groups.manager.create("one", &bench.plan.limits).unwrap());
    let mut times: Vec<Duration> = (0..30)
        .map(|_| {
            let begun = Instant::now();
            let (launched, mut reader) = bench.start("echo x").unwrap();
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            let took = begun.elapsed();
            assert_eq!(launched.landlock, Some(LandlockStatus::Full));
            finish(&launched, &mut reader);
            took
        })
        .collect();
    times.sort();
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    println!("start to first output: p50 {:?}, p90 {:?}, load {load}", times[15], times[27]);
}
