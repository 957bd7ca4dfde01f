//! The bytes of one connection, beneath HTTP.
//!
//! What is no request never reaches a handler: the HTTP library answers it by itself, with a bare status. Such an answer is
//! written while no request is being answered, and only then; it is replaced by a refusal in the envelope that every other
//! refusal has ([`Exchange`] tells the two apart). The connection then stays half open for a moment, since one that is closed
//! with unread bytes is reset, and most clients would lose what was said.
//!
//! And a client that takes nothing of what it is sent is cut off.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::gate;

/// How long a client may take nothing of an answer.
const STALL: Duration = Duration::from_mins(1);
/// How long it may do so once the server stops.
const AT_STOP: Duration = Duration::from_secs(3);
/// How long what a refused client still sends is read.
const LINGER: Duration = Duration::from_secs(2);
/// How much of it is read, in bytes.
const LEFTOVER: usize = 4 << 20;

/// Whether a connection is between two requests, with everything sent that was to be sent.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    answering: AtomicBool,
    busy: AtomicBool,
}

impl Exchange {
    /// A request has arrived. Its answer is being made until what is returned is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Answering {
        self.answering.store(true, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        Answering(Arc::clone(self))
    }

    /// Everything that was made so far has been sent.
    fn flushed(&self) {
        if !self.answering.load(Ordering::Relaxed) {
            self.busy.store(false, Ordering::Relaxed);
        }
    }

    /// Whether no request has begun that is not answered.
    pub(super) fn is_idle(&self) -> bool {
        !self.busy.load(Ordering::Relaxed)
    }
}

/// An answer that is being made.
#[derive(Debug)]
pub(super) struct Answering(Arc<Exchange>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.store(false, Ordering::Relaxed);
    }
}

/// A connection.
pub(super) struct Line {
    stream: TcpStream,
    exchange: Arc<Exchange>,
    stall: Duration,
    stopping: CancellationToken,
    /// Runs while nothing can be written.
    deadline: Option<Pin<Box<Sleep>>>,
    /// What was refused, and what of the refusal is still to be sent.
    refusal: Option<Bytes>,
    /// Whether the request that is being read has a line that has ended.
    began: bool,
    /// Runs while a refused client is listened to.
    linger: Option<Pin<Box<Sleep>>>,
    left: usize,
}

impl Line {
    pub(super) fn new(stream: TcpStream, exchange: Arc<Exchange>, stopping: CancellationToken) -> Self {
        Self {
            stream,
            exchange,
            stall: STALL,
            stopping,
            deadline: None,
            refusal: None,
            began: false,
            linger: None,
            left: LEFTOVER,
        }
    }

    /// The result of a write, or the end of the connection when it has waited for too long.
    fn bounded<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        // Whoever serves the connection looks at it again when the server stops.
        if self.stall > AT_STOP && self.stopping.is_cancelled() {
            (self.stall, self.deadline) = (AT_STOP, None);
        }
        let stall = self.stall;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Whether bytes that begin like this are the library's own, which are not sent. What replaces them is.
    fn takes(&mut self, bytes: &[u8]) -> bool {
        if self.refusal.is_none() {
            if !self.exchange.is_idle() {
                return false;
            }
            let status = bytes.get(9..12).and_then(|digits| StatusCode::from_bytes(digits).ok());
            let Some(status) = status.filter(StatusCode::is_client_error) else { return false };
            // A target may be as long as the head, which is then what is found too long.
            let is_target = status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE && !self.began;
            let status = if is_target { StatusCode::URI_TOO_LONG } else { status };
            self.refusal = Some(gate::refusal_of_no_request(status));
        }
        true
    }

    fn send_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(bytes) = self.refusal.as_ref().filter(|bytes| !bytes.is_empty()).cloned() {
            let written = Pin::new(&mut self.stream).poll_write(context, &bytes);
            let sent = ready!(self.bounded(context, written))?;
            self.refusal = Some(bytes.slice(sent..));
        }
        Poll::Ready(Ok(()))
    }

    /// Reads and throws away what a refused client still sends.
    fn listen(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let linger = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        if linger.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; 8 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            let count = buffer.filled().len();
            self.left = self.left.saturating_sub(count);
            if read.is_err() || count == 0 || self.left == 0 {
                return Poll::Ready(());
            }
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.exchange.is_idle() {
            self.began = self.began || buffer.filled()[before..].contains(&b'\n');
        } else {
            self.began = false;
        }
        read
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.takes(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.takes(slices.first().map_or(&[], |slice| slice)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Only called when the library has nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.send_refusal(context))?;
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.exchange.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.send_refusal(context))?;
        let shut = ready!(Pin::new(&mut self.stream).poll_shutdown(context));
        if self.refusal.is_some() {
            ready!(self.listen(context));
        }
        Poll::Ready(shut)
    }
}
