//! One connection: the two tasks, the table of streams, and what a runtime may not do.
//!
//! Ordering: a stream is in the table before its first frame is queued, and leaves it only when the runtime's last message for it
//! has arrived (or the connection is gone), so an id is never used for two streams at once.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};

use super::error::{LinkError, unexpected};
use super::stream::{Incoming, Stream};
use crate::frame::{self, Frame, FrameError, Kind};
use crate::generation::GENERATION;
use crate::reply::Reply;
use crate::request::{Request, Token};

const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// Read at once, where a frame is not longer.
const READ: usize = 16 * 1024;
/// Messages that cost no credit and wait for a stream's reader. An honest runtime sends a handful.
const MAX_WAITING_MESSAGES: usize = 64;

/// The state that the handles and the tasks share.
pub(super) struct Connection {
    generation: u32,
    next_stream: AtomicU32,
    table: Arc<Table>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
}

/// The open streams and the reason why there will be no more. The tasks hold this alone, never the [`Connection`], so that an
/// unused connection ends.
#[derive(Default)]
pub(super) struct Table {
    streams: Mutex<HashMap<u32, Slot>>,
    closed: OnceLock<LinkError>,
}

struct Slot {
    incoming: mpsc::UnboundedSender<Incoming>,
    /// Credit for data to the runtime.
    credit: Arc<Semaphore>,
    /// What the runtime has sent and the reader has not taken.
    load: Arc<Mutex<Load>>,
    /// It goes on after the exit report.
    kept: bool,
}

/// What waits for a stream's reader.
#[derive(Default)]
pub(super) struct Load {
    /// Credit used up, in bytes.
    pub(super) cost: usize,
    /// Messages that cost none.
    pub(super) messages: usize,
}

/// Locks, whatever happened to the thread that held it: every critical section leaves whole values behind.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) async fn dial(path: &Path, token: &Token) -> Result<Arc<Connection>, LinkError> {
    let socket = UnixStream::connect(path)
        .await
        .map_err(|source| LinkError::Dial { path: path.to_path_buf(), source: Arc::new(source) })?;
    tokio::time::timeout(HANDSHAKE_LIMIT, handshake(socket, token))
        .await
        .map_err(|_| LinkError::HandshakeTimeout { path: path.to_path_buf() })?
}

async fn handshake(socket: UnixStream, token: &Token) -> Result<Arc<Connection>, LinkError> {
    let (mut reader, mut writer) = socket.into_split();
    let hello = Request::Hello { generation: GENERATION, token: token.clone() };
    writer.write_all(&frame_of(Kind::Message, 0, &serialise(&hello)?)?).await.map_err(|error| disconnected(&error))?;
    let mut buffer = BytesMut::with_capacity(8 * 1024);
    let generation = loop {
        if let Some((frame, used)) = frame::decode(&buffer)? {
            let reply = parse(frame.payload)?;
            let _ = buffer.split_to(used);
            match reply {
                Reply::Welcome { generation, .. } if (1..=GENERATION).contains(&generation) => {
                    break generation;
                }
                Reply::Error { code, message } => return Err(LinkError::Refused { code, message }),
                other => return Err(unexpected("hello", &other)),
            }
        }
        fill(&mut reader, &mut buffer).await?;
    };
    let (outgoing, queue) = mpsc::unbounded_channel();
    let table = Arc::new(Table::default());
    tokio::spawn(write(writer, queue, Arc::clone(&table)));
    tokio::spawn(read(reader, buffer, Arc::clone(&table)));
    Ok(Arc::new(Connection { generation, next_stream: AtomicU32::new(1), table, outgoing }))
}

impl Connection {
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) fn is_closed(&self) -> bool {
        self.table.closed.get().is_some()
    }

    /// Why the connection is gone.
    pub(super) fn closed(&self) -> LinkError {
        self.table.reason()
    }

    /// A new stream that begins with this message; the reading task knows it before the runtime does.
    ///
    /// One of a named command is `kept`: it goes on after the exit report, and letting go of it does not end the command.
    pub(super) fn open(self: &Arc<Self>, request: &Request, kept: bool) -> Result<Stream, LinkError> {
        let payload = serialise(request)?;
        let (sender, incoming) = mpsc::unbounded_channel();
        let credit = Arc::new(Semaphore::new(frame::WINDOW));
        let load = Arc::new(Mutex::new(Load::default()));
        let mut streams = lock(&self.table.streams);
        if self.is_closed() {
            return Err(self.closed());
        }
        let id = loop {
            let id = self.next_stream.fetch_add(1, Ordering::Relaxed);
            if id != 0 && !streams.contains_key(&id) {
                break id;
            }
        };
        let slot = Slot { incoming: sender, credit: Arc::clone(&credit), load: Arc::clone(&load), kept };
        streams.insert(id, slot);
        drop(streams);
        let stream = Stream::new(Arc::clone(self), id, incoming, credit, load, kept);
        self.queue(frame_of(Kind::Message, id, &payload)?)?;
        if kept {
            let bytes = (frame::LARGE_WINDOW - frame::WINDOW) as u32;
            stream.send(&Request::Credit { bytes })?;
        }
        Ok(stream)
    }

    pub(super) fn send_message(&self, stream: u32, request: &Request) -> Result<(), LinkError> {
        self.queue(frame_of(Kind::Message, stream, &serialise(request)?)?)
    }

    pub(super) fn send_data(&self, stream: u32, payload: &[u8]) -> Result<(), LinkError> {
        self.queue(frame_of(Kind::Data, stream, payload)?)
    }

    fn queue(&self, bytes: Vec<u8>) -> Result<(), LinkError> {
        self.outgoing.send(bytes).map_err(|_| self.closed())
    }
}

impl Table {
    fn reason(&self) -> LinkError {
        self.closed
            .get()
            .cloned()
            .unwrap_or_else(|| LinkError::Disconnected { reason: "the writing side has ended".to_owned() })
    }

    /// Ends every stream with the first reason given.
    fn close(&self, reason: LinkError) {
        let mut streams = lock(&self.streams);
        let _ = self.closed.set(reason);
        for slot in streams.values() {
            slot.credit.close();
        }
        streams.clear();
    }

    fn deliver(&self, frame: Frame<'_>) -> Result<(), LinkError> {
        let mut streams = lock(&self.streams);
        let Some(slot) = streams.get(&frame.stream) else {
            // A stream that was given up here may still have frames under way.
            return Ok(());
        };
        let incoming = match frame.kind {
            Kind::Message => match parse(frame.payload)? {
                Reply::Credit { bytes } => {
                    let room = Semaphore::MAX_PERMITS - slot.credit.available_permits();
                    slot.credit.add_permits((bytes as usize).min(room));
                    return Ok(());
                }
                reply => Incoming::Message(reply, frame.payload.len()),
            },
            Kind::Data => Incoming::Data(Bytes::copy_from_slice(frame.payload)),
            Kind::DataError => Incoming::DataError(Bytes::copy_from_slice(frame.payload)),
            Kind::Unknown(_) => return Ok(()),
        };
        let last = incoming.is_last(slot.kept);
        slot.enqueue(frame.stream, incoming)?;
        if last {
            slot.credit.close();
            streams.remove(&frame.stream);
        }
        Ok(())
    }

    /// The same for data that is owned already.
    fn deliver_data(&self, kind: Kind, stream: u32, bytes: Vec<u8>) -> Result<(), LinkError> {
        let bytes = Bytes::from(bytes);
        let incoming = if kind == Kind::Data { Incoming::Data(bytes) } else { Incoming::DataError(bytes) };
        lock(&self.streams).get(&stream).map_or(Ok(()), |slot| slot.enqueue(stream, incoming))
    }
}

impl Slot {
    fn enqueue(&self, stream: u32, incoming: Incoming) -> Result<(), LinkError> {
        let mut load = lock(&self.load);
        match incoming.cost() {
            Some(cost) => load.cost += cost,
            None => load.messages += 1,
        }
        let window = if self.kept { frame::LARGE_WINDOW } else { frame::WINDOW };
        if load.cost > window || load.messages > MAX_WAITING_MESSAGES {
            return Err(LinkError::Protocol {
                reason: format!("stream {stream} was sent more than it has credit for"),
            });
        }
        drop(load);
        // A handle that was dropped does not read; the stream still ends in order.
        let _ = self.incoming.send(incoming);
        Ok(())
    }
}

async fn read(mut reader: OwnedReadHalf, mut buffer: BytesMut, table: Arc<Table>) {
    let reason = loop {
        match frame::decode(&buffer) {
            Ok(Some((frame, used))) => {
                if let Err(error) = table.deliver(frame) {
                    break error;
                }
                let _ = buffer.split_to(used);
            }
            Ok(None) => {
                let read = match long_data(&buffer) {
                    Some((kind, stream, length)) => {
                        let payload = rest_of(&mut reader, &mut buffer, length).await;
                        payload.and_then(|payload| table.deliver_data(kind, stream, payload))
                    }
                    None => fill(&mut reader, &mut buffer).await,
                };
                if let Err(error) = read {
                    break error;
                }
            }
            Err(error) => {
                break LinkError::Protocol { reason: error.to_string() };
            }
        }
    };
    tracing::debug!(%reason, "link closed");
    table.close(reason);
}

/// The kind, stream and length of an incomplete data frame at the start of the buffer that is worth memory of its own, so that its
/// bytes are written there and nowhere else. No stream has credit for a longer one than this allows.
fn long_data(buffer: &[u8]) -> Option<(Kind, u32, usize)> {
    let (kind, stream, length) = frame::announced(buffer)?;
    let long = matches!(kind, Kind::Data | Kind::DataError) && (2 * READ..=frame::WINDOW).contains(&length);
    long.then_some((kind, stream, length))
}

/// Reads the payload of a frame whose beginning is all that is in the buffer.
async fn rest_of(reader: &mut OwnedReadHalf, buffer: &mut BytesMut, length: usize) -> Result<Vec<u8>, LinkError> {
    let mut payload = Vec::with_capacity(length);
    payload.extend_from_slice(&buffer[frame::HEADER_LEN..]);
    buffer.clear();
    while payload.len() < length {
        let mut rest = (&mut *reader).take((length - payload.len()) as u64);
        took(rest.read_buf(&mut payload).await)?;
    }
    Ok(payload)
}

async fn write(mut writer: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Vec<u8>>, table: Arc<Table>) {
    while let Some(bytes) = queue.recv().await {
        if let Err(error) = writer.write_all(&bytes).await {
            table.close(disconnected(&error));
            return;
        }
    }
    // The last handle is gone: the runtime sees the end and closes its side, which ends the reading task.
    let _ = writer.shutdown().await;
}

async fn fill(reader: &mut OwnedReadHalf, buffer: &mut BytesMut) -> Result<(), LinkError> {
    buffer.reserve(READ);
    took(reader.read_buf(buffer).await)
}

fn took(read: std::io::Result<usize>) -> Result<(), LinkError> {
    match read {
        Ok(0) => Err(LinkError::Disconnected { reason: "the runtime closed it".to_owned() }),
        Ok(_) => Ok(()),
        Err(error) => Err(disconnected(&error)),
    }
}

fn disconnected(error: &std::io::Error) -> LinkError {
    LinkError::Disconnected { reason: error.to_string() }
}

fn parse(payload: &[u8]) -> Result<Reply, LinkError> {
    serde_json::from_slice(payload)
        .map_err(|error| LinkError::Protocol { reason: format!("a message cannot be read: {error}") })
}

/// A request as JSON that fits into a frame.
fn serialise(request: &Request) -> Result<Vec<u8>, LinkError> {
    let payload = serde_json::to_vec(request)
        .map_err(|error| LinkError::Protocol { reason: format!("a request cannot be written: {error}") })?;
    let length = payload.len();
    if length > frame::MAX_PAYLOAD {
        return Err(FrameError::TooLong { length }.into());
    }
    Ok(payload)
}

fn frame_of(kind: Kind, stream: u32, payload: &[u8]) -> Result<Vec<u8>, LinkError> {
    let mut bytes = Vec::with_capacity(frame::HEADER_LEN + payload.len());
    frame::encode(&mut bytes, Frame { kind, stream, payload })?;
    Ok(bytes)
}
