//! The inputs from the field, tried on a running server by their own program, from outside and byte for byte.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::api::Api;
use crate::program::needs_root;
use crate::server::TestServer;
use crate::toolchain::networked;

/// The longest that all cases together may take.
const PATIENCE: Duration = Duration::from_mins(20);
/// What the program leaves out: they are no business of these routes.
const LEFT_OUT: [&str; 2] = [
    // A procedure that needs a lock written on another system; the planner's own tests hold one.
    "C041", // Sessions with variables of the caller's choice, which UHP has no field for.
    "C068",
];

/// Starts the program as it lies there. Interpreters before 3.11.4 have no filters for what they unpack, which it asks for.
const START: &str = "
import runpy, sys, tarfile
if not hasattr(tarfile, 'data_filter'):
    unpack = tarfile.TarFile.extractall
    tarfile.TarFile.extractall = lambda archive, path='.', filter=None: unpack(archive, path)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name='__main__')
";

/// Runs the cases of some kinds. The server is killed and started again when a case asks for that.
fn run(server: &mut TestServer, kinds: &str) -> String {
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/field-cases/run.py");
    let here = tempfile::tempdir().unwrap();
    let wish = here.path().join("restart");
    let log = here.path().join("server.log");
    let report = here.path().join("report");
    let key = std::fs::read_to_string(server.key_file()).unwrap();
    let other = Api::of_tenant(server, "other");
    let restart = format!("touch {0}; while [ -e {0} ]; do sleep 0.1; done", wish.display());
    let mut program = Command::new("/usr/bin/python3")
        .args(["-c", START, cases, "--base-url", server.url(), "--kind", kinds, "--decided", "--quick"])
        .args(["--key", key.trim(), "--other-key", other.key()])
        .args(["--git-bind", "127.0.0.1", "--build-limit", "60", "--memory", "--restart-cmd", &restart])
        .arg("--search")
        .arg(server.data())
        .arg("--server-log")
        .arg(&log)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&report).unwrap())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let status = loop {
        std::fs::write(&log, server.log()).unwrap();
        if wish.exists() {
            server.kill();
            server.start_again();
            std::fs::remove_file(&wish).unwrap();
        }
        if let Some(status) = program.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            program.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let report = std::fs::read_to_string(&report).unwrap();
    assert!(status.success(), "{status}\n{report}");
    report
}

/// Every case of these kinds has its right outcome, on a server of its own; so many of them at least are driven.
fn every_one_passes(kinds: &str, least: usize) {
    let settings = [
        ("builds.time_limit", "60s"),
        ("builds.memory", "1GiB"),
        // The cases' own git server listens there.
        ("git.allowed_hosts", "127.0.0.1"),
    ];
    let mut server = networked(&settings);
    let report = run(&mut server, kinds);
    let skipped: Vec<&str> = report.lines().filter_map(|line| line.strip_prefix("SKIP ")).collect();
    assert!(skipped.iter().all(|line| LEFT_OUT.contains(&&line[..4])), "{report}");
    let passed = report.lines().filter(|line| line.starts_with("PASS ")).count();
    assert!(passed >= least, "{report}");
}

// Two tests, since both wait more than they work: the one for a build's time limit, the other for a reader who stays away.

#[test]
fn every_build_from_the_field_has_its_right_outcome() {
    needs_root!();
    every_one_passes("build", 11);
}

#[test]
fn every_other_input_from_the_field_has_its_right_outcome() {
    needs_root!();
    every_one_passes("archive,git,files,mount,exec,auth", 38);
}
