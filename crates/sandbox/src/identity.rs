//! Naming a process for longer than its number lasts, and ending what is left of a sandbox after the
//! server was restarted.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::cgroup::{CgroupError, CgroupManager};
use crate::launched::readable_before;

/// Field 22 of `/proc/<pid>/stat`, counted from the parent, which is field 4.
const START_TIME_AFTER_PARENT: usize = 18;

/// What is asked of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: i32,
    start_time_ticks: u64,
}

impl Stat {
    fn has_ended(self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// When the process was started, in clock ticks since boot.
///
/// # Errors
/// When there is no such process.
pub fn start_time(pid: i32) -> io::Result<u64> {
    stat(pid).map(|found| found.start_time_ticks)
}

/// Whether the process that had `pid` and was started at `start_time_ticks` still runs. One that has
/// ended and was not reaped yet does not.
pub fn is_alive(pid: i32, start_time_ticks: u64) -> bool {
    stat(pid).is_ok_and(|found| found.start_time_ticks == start_time_ticks && !found.has_ended())
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

/// A sandbox's pid 1 (its host number) and everything beneath it, for hosts without control groups: what loses its parent in a
/// sandbox becomes a child of its pid 1. One pass over the host's processes, so one that is started meanwhile may be missing.
/// Those that have ended are left out.
///
/// # Errors
/// When there is no such process, or `/proc` cannot be read.
pub fn descendants(pid: i32) -> io::Result<Vec<i32>> {
    stat(pid)?;
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // One that ends during the walk is beneath nobody.
        if let Ok(found) = stat(number) {
            processes.insert(number, found);
        }
    }
    Ok(beneath(pid, &processes))
}

fn beneath(root: i32, processes: &HashMap<i32, Stat>) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (number, found) in processes {
        children.entry(found.parent).or_default().push(*number);
    }
    let (mut seen, mut waiting) = (HashSet::from([root]), vec![root]);
    while let Some(next) = waiting.pop() {
        // A number given anew during the walk could close a circle.
        waiting.extend(children.get(&next).into_iter().flatten().copied().filter(|child| seen.insert(*child)));
    }
    let mut running: Vec<i32> =
        seen.into_iter().filter(|number| processes.get(number).is_some_and(|found| !found.has_ended())).collect();
    running.sort_unstable();
    running
}

fn stat(pid: i32) -> io::Result<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a process status"))
}

/// The name in parentheses may itself hold parentheses and spaces.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let start_time_ticks = fields.nth(START_TIME_AFTER_PARENT - 1)?.parse().ok()?;
    Some(Stat { state, parent, start_time_ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_beneath_a_process_are_found_whatever_their_depth() {
        let process = |parent, state| Stat { state, parent, start_time_ticks: 0 };
        let processes = HashMap::from([
            (1, process(0, 'S')),
            (10, process(1, 'S')),
            (11, process(10, 'R')),
            (12, process(11, 'Z')),
            (13, process(12, 'S')),
            (20, process(1, 'S')),
        ]);
        assert_eq!(beneath(10, &processes), [10, 11, 13]);

        let mut shell = std::process::Command::new("/bin/sh").args(["-c", "sleep 100 & wait"]).spawn().unwrap();
        let shell_pid = shell.id() as i32;
        let until = Instant::now() + Duration::from_secs(10);
        while descendants(shell_pid).unwrap().len() < 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let found = descendants(shell_pid).unwrap();
        assert!(found.len() == 2 && found.contains(&shell_pid), "{found:?}");
        assert!(descendants(std::process::id() as i32).unwrap().iter().filter(|pid| found.contains(pid)).count() == 2);
        for pid in found {
            let _ = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
        shell.wait().unwrap();
        assert!(descendants(i32::MAX).is_err());
    }

    #[test]
    fn a_process_is_its_number_and_its_start() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 99 0";
        assert_eq!(parse_stat(text), Some(Stat { state: 'S', parent: 1, start_time_ticks: 4242 }));
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
