//! A launcher that was started before there was a plan.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::process::{Pid, Signal};
use stead_sandbox::{Exit, Handover, Launcher};

use crate::fixture::{Bench, LAUNCHER, finish};

fn runs(launcher: &Launcher, bench: &mut Bench, script: &str) -> String {
    bench.plan.arguments = vec!["sh".into(), "-c".into(), script.into()];
    let (reader, writer) = std::io::pipe().unwrap();
    let handover = Handover { program: None, descriptors: vec![(writer.as_fd(), 1), (writer.as_fd(), 2)] };
    let launched = launcher.launch(&bench.plan, &handover).unwrap();
    drop(writer);
    let ran = finish(&launched, &mut File::from(OwnedFd::from(reader)));
    assert_eq!(ran.exit, Exit::Code(0), "{}", ran.output);
    ran.output
}

#[test]
fn one_waits_is_used_once_and_is_gone_with_its_owner() {
    let mut bench = Bench::new();
    let launcher = Launcher::new(LAUNCHER);
    assert_eq!(launcher.waiting(), None);
    assert_eq!(runs(&launcher, &mut bench, "echo fresh"), "fresh\n");

    launcher.prepare().unwrap();
    let first = launcher.waiting().unwrap();
    launcher.prepare().unwrap();
    assert_eq!(launcher.waiting(), Some(first), "there is at most one");
    assert_eq!(runs(&launcher, &mut bench, "echo ahead; grep -c . /proc/1/environ"), "ahead\n1\n");
    assert_eq!(launcher.waiting(), None);

    // A plan that is refused costs nothing.
    launcher.prepare().unwrap();
    let second = launcher.waiting();
    let mut wrong = bench.plan.clone();
    wrong.arguments.clear();
    launcher.launch(&wrong, &Handover::default()).unwrap_err();
    assert_eq!(launcher.waiting(), second);

    // One that somebody ended is not relied upon.
    rustix::process::kill_process(Pid::from_raw(second.unwrap() as i32).unwrap(), Signal::KILL).unwrap();
    assert_eq!(runs(&launcher, &mut bench, "echo again"), "again\n");

    launcher.prepare().unwrap();
    let last = PathBuf::from(format!("/proc/{}", launcher.waiting().unwrap()));
    assert!(last.exists());
    drop(launcher);
    assert!(!last.exists(), "not even a zombie is left");
}
