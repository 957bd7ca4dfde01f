//! Signals as readable sockets.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Signal};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin, Sent};

/// The arrivals of one signal since they were last taken.
pub(crate) struct Signals {
    arrivals: UnixStream,
}

impl Signals {
    /// Listens for a signal from here on, instead of its default action.
    pub(crate) fn listen(signal: i32) -> std::io::Result<Self> {
        let (arrivals, sender) = UnixStream::pair()?;
        arrivals.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal, sender)?;
        Ok(Self { arrivals })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.arrivals.as_fd()
    }

    /// Whether the signal has arrived since the last call.
    pub(crate) fn take(&mut self) -> bool {
        let mut bytes = [0; 64];
        let mut any = false;
        while self.arrivals.read(&mut bytes).is_ok_and(|read| read > 0) {
            any = true;
        }
        any
    }
}

/// Whether the end was asked for with `SIGTERM`, by somebody who may.
///
/// Code of the environment has the same user and could send one as well. In a sandbox its signals carry the sender's number,
/// while those from outside carry none. Only a signal of `kill` counts: what comes with a queued signal is whatever its sender
/// wrote there, while the kernel lets nobody claim `kill`.
pub(crate) struct Termination {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
}

impl Termination {
    pub(crate) fn listen() -> std::io::Result<Self> {
        let (arrivals, sender) = UnixStream::pair()?;
        let signals = [Signal::TERM.as_raw()];
        let delivery = SignalDelivery::with_pipe(arrivals, sender, WithOrigin::default(), signals)?;
        Ok(Self { delivery })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// Whether it was asked for since the last call.
    pub(crate) fn take(&mut self) -> bool {
        let alone = rustix::process::getpid() != Pid::INIT;
        let from_outside = |origin: &Origin| {
            origin.cause == Cause::Sent(Sent::User) && origin.process.is_some_and(|process| process.pid == 0)
        };
        let mut origins = self.delivery.pending();
        // All are taken, whatever the first one says.
        origins.by_ref().fold(false, |any, origin| any | alone | from_outside(&origin))
    }
}
