//! A sandbox that runs, as the server that started it holds it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions};

use crate::identity;
use crate::message::LandlockStatus;

/// A running sandbox. Dropping it neither stops nor reaps it.
#[derive(Debug)]
pub struct Launched {
    /// Host pid of the sandbox's pid 1; a child of this process, unless it was taken over.
    pub pid: i32,
    /// When it was started, in clock ticks since boot; with `pid` it names the process for ever.
    pub start_time_ticks: u64,
    /// Readable (poll) when pid 1 has ended.
    pub pidfd: OwnedFd,
    /// How much of the second fence this kernel took. `None`: another process launched it, and knows.
    pub landlock: Option<LandlockStatus>,
}

/// How a sandbox's pid 1 ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It was another process's child, which alone learns how it ended.
    Unknown,
}

impl Launched {
    /// Takes over what a process that has gone launched: `None` when its pid 1 has ended. The taker is not the parent, and can
    /// watch and end it, but not reap it.
    ///
    /// # Errors
    /// When the kernel refuses the descriptor.
    pub fn take_over(pid: i32, start_time_ticks: u64) -> io::Result<Option<Self>> {
        let pidfd = identity::open(pid, start_time_ticks)?;
        Ok(pidfd.map(|pidfd| Self { pid, start_time_ticks, pidfd, landlock: None }))
    }

    /// Kills pid 1, and with it everything in the sandbox. An already ended one is no error.
    ///
    /// # Errors
    /// When the kernel refuses the signal.
    pub fn kill(&self) -> io::Result<()> {
        identity::kill_by_pidfd(self.pidfd.as_fd())
    }

    /// Waits until pid 1 has ended and reaps it; `None` when `patience` runs out first. Must be called
    /// until it answers, or a zombie stays. Only the process that launched can learn the status, and once.
    ///
    /// # Errors
    /// When the kernel refuses to watch the process.
    pub fn wait(&self, patience: Duration) -> io::Result<Option<Exit>> {
        wait_by_pidfd(self.pidfd.as_fd(), patience)
    }
}

/// Whether the descriptor became readable in time; for a pidfd, whether its process has ended.
pub(crate) fn readable_before(descriptor: BorrowedFd<'_>, deadline: Instant) -> rustix::io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match rustix::event::poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            Ok(count) => return Ok(count > 0),
            Err(error) => return Err(error),
        }
    }
}

/// Waits for a process, and reaps a child of this one.
pub(crate) fn wait_by_pidfd(pidfd: BorrowedFd<'_>, patience: Duration) -> io::Result<Option<Exit>> {
    if !readable_before(pidfd, Instant::now() + patience)? {
        return Ok(None);
    }
    let status = match rustix::process::waitid(WaitId::PidFd(pidfd), WaitIdOptions::EXITED) {
        Err(Errno::CHILD) => return Ok(Some(Exit::Unknown)),
        outcome => outcome?,
    };
    Ok(status.map(|status| match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(Signal::KILL.as_raw())),
    }))
}
