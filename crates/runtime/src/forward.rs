//! Forwarding loopback TCP connections to a unix socket: how programs inside reach the egress proxy.
//!
//! Bytes are copied as they are. A direction is read only when all of its last portion has been written, so a connection holds
//! no more than one portion each way.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::config::Proxy;
use crate::readiness::{Interests, Source};

/// Connections that are forwarded at one time; more wait in the listener's queue.
pub(crate) const MAX_FORWARDS: usize = 256;

/// A listening address and where it leads.
pub(crate) struct ProxyListener {
    listener: TcpListener,
    socket: PathBuf,
}

impl ProxyListener {
    pub(crate) fn bind(proxy: &Proxy) -> std::io::Result<Self> {
        let listener = TcpListener::bind(proxy.listen)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, socket: proxy.socket.clone() })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Accepts one connection and dials its other side. A proxy that does not answer shows as a closed connection.
    pub(crate) fn accept(&self) -> std::io::Result<Option<Forward>> {
        let (inner, _) = self.listener.accept()?;
        inner.set_nonblocking(true)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let outer = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let address = SocketAddrUnix::new(&self.socket)?;
        let dialled = rustix::net::connect(&outer, &address).is_ok();
        Ok(dialled.then(|| Forward {
            inner,
            outer: UnixStream::from(outer),
            outbound: Flow::default(),
            inbound: Flow::default(),
        }))
    }
}

/// One direction.
#[derive(Default)]
struct Flow {
    pending: Vec<u8>,
    written: usize,
    /// The sender has ended.
    ended: bool,
    /// The end was passed on.
    shut: bool,
}

impl Flow {
    fn wants_read(&self) -> bool {
        !self.ended && self.pending.is_empty()
    }

    fn wants_write(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Moves what can be moved; an error ends the whole connection.
    fn pump(&mut self, from: &mut impl Read, to: &mut impl Write, scratch: &mut [u8]) -> std::io::Result<()> {
        if self.wants_read() {
            match from.read(scratch) {
                Ok(0) => self.ended = true,
                Ok(read) => self.pending = scratch[..read].to_vec(),
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(error),
            }
        }
        while self.written < self.pending.len() {
            match to.write(&self.pending[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if is_temporary(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.pending = Vec::new();
        self.written = 0;
        Ok(())
    }

    /// Whether the end has to be passed on now.
    fn must_shut(&mut self) -> bool {
        let now = self.ended && self.pending.is_empty() && !self.shut;
        self.shut |= now;
        now
    }
}

/// A forwarded connection.
pub(crate) struct Forward {
    inner: TcpStream,
    outer: UnixStream,
    /// From the program to the proxy.
    outbound: Flow,
    /// From the proxy to the program.
    inbound: Flow,
}

impl Forward {
    pub(crate) fn interests<'fd>(&'fd self, id: u32, into: &mut Interests<'fd>) {
        let events = |read: &Flow, write: &Flow| {
            let mut events = PollFlags::empty();
            events.set(PollFlags::IN, read.wants_read());
            events.set(PollFlags::OUT, write.wants_write());
            events
        };
        let inner = events(&self.outbound, &self.inbound);
        if !inner.is_empty() {
            into.add(Source::ForwardInner(id), self.inner.as_fd(), inner);
        }
        let outer = events(&self.inbound, &self.outbound);
        if !outer.is_empty() {
            into.add(Source::ForwardOuter(id), self.outer.as_fd(), outer);
        }
    }

    /// Moves what can be moved; answers whether the connection lives on.
    pub(crate) fn pump(&mut self, scratch: &mut [u8]) -> bool {
        let moved = self
            .outbound
            .pump(&mut self.inner, &mut self.outer, scratch)
            .and_then(|()| self.inbound.pump(&mut self.outer, &mut self.inner, scratch));
        if moved.is_err() {
            return false;
        }
        // A peer that is gone already cannot be told the end; its error shows at the next read.
        if self.outbound.must_shut() {
            let _ = self.outer.shutdown(Shutdown::Write);
        }
        if self.inbound.must_shut() {
            let _ = self.inner.shutdown(Shutdown::Write);
        }
        !(self.outbound.shut && self.inbound.shut)
    }
}

fn is_temporary(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}
