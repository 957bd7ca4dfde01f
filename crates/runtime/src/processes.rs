//! Finding and killing processes by descent.
//!
//! A process that is the heir of its orphans (a subreaper, or process 1) has everything that was ever started below it among
//! its descendants, whatever sessions and groups those have made. A tree that forks while it is killed is first stopped, so
//! that it cannot outrun the killer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus};

/// How long a killer waits for the kernel to end what it has killed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Rounds of stopping before the killing begins whether or not everything stands still.
const STOP_ROUNDS: usize = 64;

/// One line of the process table.
#[derive(Debug, Clone, Copy)]
struct Process {
    pid: i32,
    parent: i32,
    ended: bool,
}

/// The state and the processor time (ticks of 10 ms) from a `stat` file's text.
struct Stat {
    state: u8,
    parent: i32,
    ticks: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&bytes)
}

/// A process's own name is the second field, in parentheses, and may hold anything: the fields begin after the last `)`.
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(bytes.get(end + 1..)?).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    // utime, stime, cutime and cstime are the fields 14 to 17 of the file, 11 to 14 from here.
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Stat { state: *fields.first()?.as_bytes().first()?, parent: fields.get(1)?.parse().ok()?, ticks })
}

/// Processor time of a process and of the children that it has waited for, in milliseconds.
pub(crate) fn processor_ms(pid: Pid) -> Option<u64> {
    stat(pid.as_raw_nonzero().get()).map(|stat| stat.ticks * 10)
}

/// Whether a process stands still because a signal has stopped it.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    stat(pid.as_raw_nonzero().get()).is_some_and(|stat| matches!(stat.state, b'T' | b't'))
}

/// Whether a child has stopped since this was last asked, and stands still.
pub(crate) fn has_just_stopped(pid: Pid) -> bool {
    let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    rustix::process::waitid(WaitId::Pid(pid), look).is_ok_and(|status| status.is_some())
}

fn table() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| {
            let stat = stat(pid)?;
            let ended = matches!(stat.state, b'Z' | b'X' | b'x');
            Some(Process { pid, parent: stat.parent, ended })
        })
        .collect()
}

/// The living descendants of `root`, without those in `spared` and what is below them.
fn descendants(root: Pid, spared: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in table() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = BTreeSet::new();
    let mut parents = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        // Each list is taken once, so a table that changed while it was read cannot make this go round in circles.
        for child in children.remove(&parent).unwrap_or_default() {
            if !spared.contains(&child.pid) {
                parents.push(child.pid);
                if !child.ended {
                    found.insert(child.pid);
                }
            }
        }
    }
    found
}

/// Kills everything below `root` but `spared`, and answers how many would not die within [`PATIENCE`].
///
/// `reap` is called between the rounds to collect what has ended; it answers whether any child is left to wait for.
pub(crate) fn kill_descendants(root: Pid, spared: &BTreeSet<i32>, mut reap: impl FnMut() -> bool) -> u32 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut stopped = BTreeSet::new();
        for _ in 0..STOP_ROUNDS {
            let moving: BTreeSet<i32> = &descendants(root, spared) - &stopped;
            if moving.is_empty() {
                break;
            }
            send(&moving, Signal::STOP);
            stopped.extend(moving);
        }
        stopped.append(&mut descendants(root, spared));
        send(&stopped, Signal::KILL);
        let children = reap();
        let left = descendants(root, spared);
        // A table read while processes fork may miss one; an heir that has no child left cannot have missed any.
        if left.is_empty() && (!children || !spared.is_empty()) {
            return 0;
        }
        if Instant::now() >= deadline {
            return left.len() as u32;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills every process of the namespace but the caller, which must be process 1.
///
/// The signal reaches all of them at one moment: nothing can fork its way out.
pub(crate) fn kill_namespace(mut reap: impl FnMut() -> bool) -> u32 {
    assert!(rustix::process::getpid() == Pid::INIT, "only process 1 may kill its whole namespace");
    let deadline = Instant::now() + PATIENCE;
    loop {
        // In this call, the group of process 1 means everyone else. That there is nobody is an answer as well.
        let _ = rustix::process::kill_process_group(Pid::INIT, Signal::KILL);
        let children = reap();
        let left = table().iter().filter(|process| process.pid != 1 && !process.ended).count();
        if left == 0 && !children {
            return 0;
        }
        if Instant::now() >= deadline {
            return left as u32;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send(pids: &BTreeSet<i32>, signal: Signal) {
    for pid in pids.iter().copied().filter_map(Pid::from_raw) {
        // One that has ended in the meantime needs no signal.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Collects every child that has ended; answers whether children are left.
pub(crate) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid, status),
            Ok(None) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_forge_the_fields() {
        let line = b"42 (a) Z 1 (x) S 7 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 0 0";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.ticks), (b'S', 7, 10));
        assert!(parse_stat(b"42 (a").is_none());
    }
}
