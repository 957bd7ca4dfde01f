//! Naming a process for longer than its number lasts, and ending what is left of a sandbox after the
//! server was restarted.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::cgroup::{CgroupError, CgroupManager};
use crate::launched::readable_before;

/// Field 22 of `/proc/<pid>/stat`, counted from the state, which is field 3.
const START_TIME_AFTER_STATE: usize = 19;

/// When the process was started, in clock ticks since boot.
///
/// # Errors
/// When there is no such process.
pub fn start_time(pid: i32) -> io::Result<u64> {
    stat(pid).map(|(_, start)| start)
}

/// Whether the process that had `pid` and was started at `start_time_ticks` still runs. One that has
/// ended and was not reaped yet does not.
pub fn is_alive(pid: i32, start_time_ticks: u64) -> bool {
    stat(pid).is_ok_and(|(state, start)| start == start_time_ticks && !matches!(state, 'Z' | 'X'))
}

/// A pidfd of exactly that process; `None` when it has ended.
///
/// # Errors
/// When the kernel refuses for another reason than that there is no such process.
pub fn open(pid: i32, start_time_ticks: u64) -> io::Result<Option<OwnedFd>> {
    let Some(process) = Pid::from_raw(pid) else { return Ok(None) };
    let pidfd = match rustix::process::pidfd_open(process, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Asked after the descriptor is held, so the answer is about the process it refers to.
    Ok(is_alive(pid, start_time_ticks).then_some(pidfd))
}

/// Ends everything a sandbox of an earlier server left: its pid 1 (and so its pid namespace), and
/// whatever is in its control group `name`, then removes the group. What is gone already is no error.
///
/// # Errors
/// When something is still running after `patience`.
pub fn kill_tree(
    pid: i32,
    start_time_ticks: u64,
    cgroup: Option<(&CgroupManager, &str)>,
    patience: Duration,
) -> Result<(), CgroupError> {
    let failed = |action: &'static str, source: io::Error| CgroupError::Io {
        action,
        path: format!("/proc/{pid}").into(),
        source,
    };
    if let Some(pidfd) = open(pid, start_time_ticks).map_err(|error| failed("open", error))? {
        kill_by_pidfd(pidfd.as_fd()).map_err(|error| failed("kill", error))?;
        if !readable_before(pidfd.as_fd(), Instant::now() + patience)
            .map_err(|error| failed("wait for", error.into()))?
        {
            return Err(failed("wait for", io::ErrorKind::TimedOut.into()));
        }
    }
    if let Some((manager, name)) = cgroup {
        manager.kill(name)?;
        manager.remove(name)?;
    }
    Ok(())
}

pub(crate) fn kill_by_pidfd(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    match rustix::process::pidfd_send_signal(pidfd, Signal::KILL) {
        Err(Errno::SRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn stat(pid: i32) -> io::Result<(char, u64)> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a process status"))
}

/// State and start time. The name in parentheses may itself hold parentheses and spaces.
fn parse_stat(text: &str) -> Option<(char, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(START_TIME_AFTER_STATE - 1)?.parse().ok()?;
    Some((state, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_its_number_and_its_start() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 99 0";
        assert_eq!(parse_stat(text), Some(('S', 4242)));
        assert_eq!(parse_stat("7 nonsense"), None);

        let own = std::process::id() as i32;
        let start = start_time(own).unwrap();
        assert!(is_alive(own, start) && open(own, start).unwrap().is_some());
        assert!(!is_alive(own, start + 1) && open(own, start + 1).unwrap().is_none());

        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let (pid, started) = (child.id() as i32, start_time(child.id() as i32).unwrap());
        let until = Instant::now() + Duration::from_secs(10);
        while is_alive(pid, started) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(!is_alive(pid, started), "an ended, unreaped process counts as dead");
        child.wait().unwrap();
        kill_tree(pid, started, None, Duration::from_secs(1)).unwrap();
    }
}
