//! Emptying and removing groups.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::CgroupError;
use super::files::write;

const PAUSE: Duration = Duration::from_millis(1);

/// Kills everything in a group. The version 2 group does it at once and races with nothing. In version
/// 1 the group is frozen while its processes are signalled, so that none can fork away meanwhile and no
/// number can be given to another process; without a freezer the loop just goes on until it is empty.
pub(super) fn kill(
    unified: Option<&Path>,
    freezer: Option<&Path>,
    pids: impl Fn() -> Result<Vec<i32>, CgroupError>,
    patience: Duration,
) -> Result<(), CgroupError> {
    let deadline = Instant::now() + patience;
    let at_once = unified.is_some_and(|directory| write(&directory.join("cgroup.kill"), "1").is_ok());
    loop {
        let left = pids()?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let path = unified.or(freezer).unwrap_or(Path::new("control group")).to_path_buf();
            return Err(CgroupError::Io { action: "empty", path, source: io::ErrorKind::TimedOut.into() });
        }
        if !at_once {
            signal_frozen(freezer, &pids)?;
        }
        thread::sleep(PAUSE);
    }
}

fn signal_frozen(freezer: Option<&Path>, pids: impl Fn() -> Result<Vec<i32>, CgroupError>) -> Result<(), CgroupError> {
    let state = freezer.map(|directory| directory.join("freezer.state")).filter(|state| state.exists());
    if let Some(state) = &state {
        write(state, "FROZEN")?;
    }
    let outcome = pids().map(|pids| {
        for pid in pids.into_iter().filter_map(Pid::from_raw) {
            // An ended process is what we are after.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    });
    if let Some(state) = &state {
        write(state, "THAWED")?;
    }
    outcome
}

/// Removes a group's directory; the kernel may hold it busy for a moment after its last process.
pub(super) fn remove_directory(directory: &Path, patience: Duration) -> Result<(), CgroupError> {
    let deadline = Instant::now() + patience;
    loop {
        match fs::remove_dir(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) && Instant::now() < deadline => {
                thread::sleep(PAUSE);
            }
            Err(source) => {
                return Err(CgroupError::Io { action: "remove", path: directory.to_path_buf(), source });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::cgroup::files::numbers;

    #[test]
    fn without_a_version_two_group_it_is_frozen_and_emptied() {
        let freezer = Path::new("/sys/fs/cgroup/freezer");
        let group = freezer.join(format!("stead-kill-test-{}", std::process::id()));
        if !freezer.join("cgroup.procs").exists() {
            println!("skipped: this host has no version 1 freezer");
            return;
        }
        if fs::create_dir(&group).is_err() {
            assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "control groups need root");
            println!("skipped: control groups need root");
            return;
        }
        let mut children: Vec<_> = (0..5).map(|_| Command::new("/bin/sleep").arg("100").spawn().unwrap()).collect();
        for child in &children {
            fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        // Zombies stay listed until they are reaped, which is the test's business here.
        let reaper = thread::spawn(move || children.iter_mut().map(|child| child.wait().unwrap()).collect::<Vec<_>>());
        kill(None, Some(&group), || numbers(&group.join("cgroup.procs")), Duration::from_secs(10)).unwrap();
        assert!(reaper.join().unwrap().iter().all(|status| !status.success()));
        remove_directory(&group, Duration::from_secs(5)).unwrap();
        assert!(!group.exists());
    }
}
