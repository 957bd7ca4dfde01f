//! One connection of a server: its buffers, its streams and their credit.

use std::collections::BTreeMap;
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use stead_link::frame;
use stead_link::{ErrorCode, Kind, Reply};

/// A connection has this long to prove the token.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// Nothing is read for a connection while it has this many bytes to take.
const HIGH_WATER: usize = 256 * 1024;
/// Frames as long as this are not gathered when they can go at once.
const LONG: usize = 8 * 1024;
/// What the system may keep of what was written and not read, in bytes; it gives less where it allows less.
const SEND_BUFFER: usize = 512 * 1024;
/// Streams that one connection may have open.
pub(crate) const MAX_STREAMS: usize = 512;

/// What a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A command.
    Exec(u32),
    /// A file operation.
    Job,
}

/// One open stream.
pub(crate) struct Stream {
    pub(crate) target: Target,
    /// What may be sent.
    credit: usize,
    /// What was received and not granted back.
    taken: usize,
}

pub(crate) struct Connection {
    socket: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    hello_deadline: Option<Instant>,
    /// What both sides speak; 0 before the token was proved.
    generation: u32,
    streams: BTreeMap<u32, Stream>,
    /// No more is read; it closes when what is to be written has been.
    closing: bool,
    /// The peer takes no more.
    broken: bool,
}

impl Connection {
    pub(crate) fn new(socket: UnixStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        // It works with less as well.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
        Ok(Self {
            socket,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            hello_deadline: Instant::now().checked_add(HELLO_LIMIT),
            generation: 0,
            streams: BTreeMap::new(),
            closing: false,
            broken: false,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What to wait for; empty when there is nothing.
    pub(crate) fn interest(&self) -> PollFlags {
        let mut events = PollFlags::empty();
        if !self.closing && self.backlog() < HIGH_WATER {
            events |= PollFlags::IN;
        }
        if self.backlog() > 0 {
            events |= PollFlags::OUT;
        }
        events
    }

    pub(crate) fn hello_deadline(&self) -> Option<Instant> {
        self.hello_deadline
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.generation > 0
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn authenticate(&mut self, generation: u32) {
        self.hello_deadline = None;
        self.generation = generation;
    }

    /// Ends a connection that has not proved the token in time.
    pub(crate) fn give_up_waiting(&mut self) {
        self.hello_deadline = None;
        self.close();
    }

    /// Ends the connection once its output is written.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.closing && self.backlog() == 0
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    fn backlog(&self) -> usize {
        self.output.len() - self.written
    }

    /// Reads what there is; answers whether the peer is still there.
    pub(crate) fn receive(&mut self, scratch: &mut [u8]) -> bool {
        match self.socket.read(scratch) {
            Ok(0) => false,
            Ok(read) => {
                self.input.extend_from_slice(&scratch[..read]);
                true
            }
            Err(error) => retry(&error),
        }
    }

    /// Takes the input out for decoding; [`Connection::restore_input`] puts back what is left.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    pub(crate) fn restore_input(&mut self, mut input: Vec<u8>, used: usize) {
        input.drain(..used);
        self.input = input;
    }

    /// Gives memory back that holds nothing.
    pub(crate) fn rest(&mut self) {
        self.input.shrink_to_fit();
        if self.backlog() == 0 {
            self.output = Vec::new();
            self.written = 0;
        }
    }

    /// Writes what the peer takes; answers whether the peer is still there.
    pub(crate) fn flush(&mut self) -> bool {
        if self.broken {
            return false;
        }
        while self.backlog() > 0 {
            match self.socket.write(&self.output[self.written..]) {
                Ok(0) => return false,
                Ok(written) => self.written += written,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if retry(&error) => {}
                Err(_) => return false,
            }
        }
        if self.backlog() == 0 {
            self.written = 0;
            self.output.clear();
        } else if self.written > HIGH_WATER {
            self.output.drain(..self.written);
            self.written = 0;
        }
        true
    }

    /// Writes out what is left, for at most this long.
    pub(crate) fn drain(&mut self, limit: Duration) {
        if self.socket.set_nonblocking(false).is_ok() && self.socket.set_write_timeout(Some(limit)).is_ok() {
            self.flush();
        }
    }

    /// Queues a message.
    pub(crate) fn send(&mut self, stream: u32, reply: &Reply) {
        let Ok(payload) = serde_json::to_vec(reply) else {
            // No reply has a value that JSON cannot hold.
            return;
        };
        self.append(Kind::Message, stream, [&payload, &[]]);
    }

    /// Queues a message that costs credit.
    pub(crate) fn send_page(&mut self, stream: u32, reply: &Reply) {
        if let Ok(payload) = serde_json::to_vec(reply) {
            self.spend(stream, payload.len());
            self.append(Kind::Message, stream, [&payload, &[]]);
        }
    }

    /// Queues data; no more than [`Connection::allowance`].
    pub(crate) fn send_data(&mut self, kind: Kind, stream: u32, payload: &[u8]) {
        self.send_parts(kind, stream, [payload, &[]]);
    }

    /// Queues data that lies in two places; no more than [`Connection::allowance`].
    pub(crate) fn send_parts(&mut self, kind: Kind, stream: u32, parts: [&[u8]; 2]) {
        self.spend(stream, parts.iter().map(|part| part.len()).sum());
        self.append(kind, stream, parts);
    }

    /// Queues an error and ends the stream.
    pub(crate) fn refuse(&mut self, stream: u32, code: ErrorCode, message: impl Into<String>) {
        let message = message.into();
        self.end(stream, &Reply::Error { code, message });
    }

    /// Queues a stream's last message and forgets the stream.
    pub(crate) fn end(&mut self, stream: u32, reply: &Reply) {
        self.streams.remove(&stream);
        self.send(stream, reply);
    }

    /// What is long and has nothing before it goes to the peer at once, and only what the peer does not take is copied.
    fn append(&mut self, kind: Kind, stream: u32, parts: [&[u8]; 2]) {
        let length = parts.iter().map(|part| part.len()).sum();
        // Every payload is shorter than a frame by construction: chunks and pages are bounded, messages are small.
        let Ok(header) = frame::header(kind, stream, length) else { return };
        let parts = [&header, parts[0], parts[1]];
        let mut gone = 0;
        if length >= LONG && self.backlog() == 0 {
            match self.socket.write_vectored(&parts.map(IoSlice::new)) {
                Ok(written) => gone = written,
                Err(error) if retry(&error) => {}
                Err(_) => self.broken = true,
            }
        }
        for part in parts {
            let skipped = gone.min(part.len());
            gone -= skipped;
            self.output.extend_from_slice(&part[skipped..]);
        }
    }

    fn spend(&mut self, stream: u32, payload: usize) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.credit = stream.credit.saturating_sub(frame::cost(payload));
        }
    }

    /// Opens a stream; answers false when the id cannot be used.
    pub(crate) fn open(&mut self, id: u32, target: Target) -> bool {
        if id == 0 || self.streams.contains_key(&id) || self.streams.len() >= MAX_STREAMS {
            return false;
        }
        let (credit, taken) = (frame::WINDOW, 0);
        self.streams.insert(id, Stream { target, credit, taken });
        true
    }

    pub(crate) fn target(&self, id: u32) -> Option<Target> {
        self.streams.get(&id).map(|stream| stream.target)
    }

    /// Takes note of credit that the server gives.
    pub(crate) fn add_credit(&mut self, id: u32, bytes: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.credit = stream.credit.saturating_add(bytes as usize).min(frame::LARGE_WINDOW);
        }
    }

    /// Takes note of data received; answers false when it is more than the server has credit for.
    pub(crate) fn take_credit(&mut self, id: u32, payload: usize) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else {
            return true;
        };
        stream.taken += frame::cost(payload);
        stream.taken <= frame::WINDOW
    }

    /// Gives the server credit back for data that has been used up.
    pub(crate) fn grant(&mut self, id: u32, cost: usize) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let bytes = cost.min(stream.taken);
        stream.taken -= bytes;
        if bytes > 0 {
            self.send(id, &Reply::Credit { bytes: bytes as u32 });
        }
    }

    /// How many bytes of data may be sent on a stream now.
    pub(crate) fn allowance(&self, id: u32) -> Option<usize> {
        if self.backlog() >= HIGH_WATER {
            return None;
        }
        let chunk = if self.generation < 2 { frame::MAX_CHUNK } else { frame::LARGE_CHUNK };
        frame::affordable(self.streams.get(&id)?.credit, chunk)
    }

    /// Whether a message that costs as much as this many bytes may be sent on a stream now.
    pub(crate) fn affords(&self, id: u32, payload: usize) -> bool {
        let credit = self.streams.get(&id).map_or(0, |stream| stream.credit);
        self.backlog() < HIGH_WATER && credit >= frame::cost(payload)
    }
}

fn retry(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}
