//! Signals as readable sockets.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

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
