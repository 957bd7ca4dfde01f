//! Moving a stream between two sockets without copying it through this process.
//!
//! Each direction of a tunnel has a pipe, and so has the body of a large response: bytes are spliced from one socket into the pipe and from the pipe into the
//! other socket. The pipe is empty before every read, so "would block" always speaks of the socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// Bytes asked for at once, and the size of a pipe that carries bulk; the kernel may grant less.
const WIDE: usize = 1024 * 1024;
/// A read of this size shows that a stream is bulk. Other streams keep the pipe they were born with, because pipe pages
/// are a bounded good of the user.
const BULK: usize = 32 * 1024;

/// One end of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Socket<'a> {
    Client(&'a UnixStream),
    Upstream(&'a TcpStream),
}

/// A pipe's reading and writing end.
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { reader, writer })
    }

    fn widen(&self) {
        // Only speed is lost where the user's share of pipe pages is used up.
        let _ = rustix::pipe::fcntl_setpipe_size(&self.writer, WIDE);
    }
}

impl Socket<'_> {
    /// Splices once between this socket and something that does not block, as soon as the socket is ready.
    async fn when(&self, interest: Interest, mut step: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
        loop {
            let outcome = match self {
                Self::Client(socket) => {
                    socket.ready(interest).await?;
                    socket.try_io(interest, || step().map_err(io::Error::from))
                }
                Self::Upstream(socket) => {
                    socket.ready(interest).await?;
                    socket.try_io(interest, || step().map_err(io::Error::from))
                }
            };
            match outcome {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                outcome => return outcome,
            }
        }
    }

    /// Tells the other side that nothing more is sent.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let finished = match self {
            Self::Client(socket) => rustix::net::shutdown(socket, Shutdown::Write),
            Self::Upstream(socket) => rustix::net::shutdown(socket, Shutdown::Write),
        };
        match finished {
            // The other side is gone already; reading from it will tell.
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Moves bytes from one socket to the other until the first has no more or `limit` is reached; returns how many. `moved` is told
/// of every step and may end the stream by failing.
pub(crate) async fn pump(
    from: Socket<'_>,
    to: Socket<'_>,
    pipe: Pipe,
    limit: u64,
    moved: impl Fn(u64) -> io::Result<()>,
) -> io::Result<u64> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    let splice = |input: &dyn AsFd, output: &dyn AsFd, count| {
        rustix::pipe::splice(input.as_fd(), None, output.as_fd(), None, count, flags)
    };
    let mut wide = false;
    let mut total = 0;
    while total < limit {
        let room = usize::try_from(limit - total).unwrap_or(usize::MAX).min(WIDE);
        let read = from.when(Interest::READABLE, || match from {
            Socket::Client(socket) => splice(socket, &pipe.writer, room),
            Socket::Upstream(socket) => splice(socket, &pipe.writer, room),
        });
        let count = read.await?;
        if count == 0 {
            break;
        }
        let mut left = count;
        while left > 0 {
            let written = to.when(Interest::WRITABLE, || match to {
                Socket::Client(socket) => splice(&pipe.reader, socket, left),
                Socket::Upstream(socket) => splice(&pipe.reader, socket, left),
            });
            let written = written.await?;
            left -= written;
            moved(written as u64)?;
        }
        total += count as u64;
        if !wide && count >= BULK {
            pipe.widen();
            wide = true;
        }
    }
    Ok(total)
}
