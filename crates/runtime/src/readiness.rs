//! Which descriptor matters to whom in one round of the poll loop.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whom a descriptor's readiness concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A server dials.
    Listener,
    /// A child has ended.
    ChildSignal,
    /// The end was asked for.
    Termination,
    /// A server's connection.
    Connection(u32),
    /// The supervisor of a command.
    Supervisor(u32),
    /// Standard output of a command.
    Stdout(u32),
    /// Standard error of a command.
    Stderr(u32),
    /// Standard input of a command.
    Stdin(u32),
    /// A program dials the proxy with this index.
    ProxyListener(usize),
    /// The program's side of a forwarded connection.
    ForwardInner(u32),
    /// The proxy's side of a forwarded connection.
    ForwardOuter(u32),
}

/// The descriptors of one round. Descriptors that nobody would act on must not be added: a hang-up is always reported.
#[derive(Default)]
pub(crate) struct Interests<'fd> {
    descriptors: Vec<PollFd<'fd>>,
    sources: Vec<Source>,
}

impl<'fd> Interests<'fd> {
    pub(crate) fn add(&mut self, source: Source, fd: BorrowedFd<'fd>, events: PollFlags) {
        self.descriptors.push(PollFd::from_borrowed_fd(fd, events));
        self.sources.push(source);
    }

    /// Waits until something is ready or `until` has come.
    pub(crate) fn wait(mut self, until: Option<Instant>) -> rustix::io::Result<Vec<(Source, PollFlags)>> {
        let timeout = until.map(|instant| timespec(instant.saturating_duration_since(Instant::now())));
        match poll(&mut self.descriptors, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let ready = self.descriptors.iter().zip(self.sources);
        Ok(ready
            .map(|(descriptor, source)| (source, descriptor.revents()))
            .filter(|(_, events)| !events.is_empty())
            .collect())
    }
}

/// Rounded up to a whole millisecond, so that a wait does not end just before its instant over and over.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    let rounded = if duration.is_zero() { duration } else { duration + Duration::from_millis(1) };
    Timespec {
        tv_sec: i64::try_from(rounded.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(rounded.subsec_nanos()),
    }
}
