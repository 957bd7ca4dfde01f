//! A helper process that confined itself keeps the network and nothing else.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::fixture::{Mode, mode};

const HELPER: &str = env!("CARGO_BIN_EXE_stead-sandbox-confined");
/// Nobody else on the machine.
const HELPER_USER: u32 = 1_100_900_000;

#[test]
fn a_helper_keeps_the_network_and_nothing_else() {
    let mode = mode();
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Open to everyone, so that ordinary permissions are in nobody's way.
    let file = |name: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, "text\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        path
    };
    let (readable, elsewhere) = (file("readable"), file("elsewhere"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).unwrap();
        stream.write_all(&heard).unwrap();
    });
    let mut target = Command::new("/bin/sleep");
    target.arg("100");
    let user = match mode {
        Mode::Root => {
            target.uid(HELPER_USER).gid(HELPER_USER);
            HELPER_USER.to_string()
        }
        Mode::User => "-".to_string(),
    };
    let mut target = target.spawn().unwrap();
    let target_pid = target.id().to_string();
    let helper = |more: &[&str]| {
        let mut command = Command::new(HELPER);
        command.args([&user, readable.to_str().unwrap(), elsewhere.to_str().unwrap()]);
        command.args([scratch.path().to_str().unwrap(), &port, &target_pid]).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };

    let mut child = helper(&[]).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    output.read_line(&mut said).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    drop(child.stdin.take());
    output.read_to_string(&mut said).unwrap();
    let ended = child.wait_with_output().unwrap();
    let _ = target.kill();
    target.wait().unwrap();
    println!("{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success());

    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("confined Full"));
    for line in lines {
        let (probe, outcome) = line.split_once(": ").unwrap();
        match probe {
            "read" | "list" | "resolve" | "connect" | "datagrams" | "threads" | "pair" => {
                assert_eq!(outcome, "can", "{line}");
            }
            "files" => assert!((40..64).contains(&outcome.parse::<u32>().unwrap()), "{line}"),
            _ => assert!(outcome.contains("(os error 1)") || outcome.contains("(os error 13)"), "{line}"),
        }
    }
    assert!(said.lines().count() > 25, "it said everything");
    answering.join().unwrap();
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "text\n");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
    }
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "Groups:\t \n"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    if mode == Mode::Root {
        assert!(
            status.contains(&format!("Uid:\t{HELPER_USER}\t{HELPER_USER}\t{HELPER_USER}\t{HELPER_USER}")),
            "{status}"
        );
        assert!(status.contains("CapBnd:\t0000000000000000"), "{status}");
    }

    let refused = helper(&["threads"]).output().unwrap();
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && complaint.contains("2 are running"), "{complaint}");
}
