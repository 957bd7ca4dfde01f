//! One stream of a connection, as its handles use it.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

use super::connection::{Connection, Load, lock};
use super::error::LinkError;
use crate::frame;
use crate::reply::Reply;
use crate::request::Request;

/// Credit is given back in portions of this size, so that small reads do not cause a message each.
const CREDIT_PORTION: usize = frame::WINDOW / 4;

/// What the runtime sent on a stream. The message's length in bytes counts for messages that cost credit.
pub(super) enum Incoming {
    Message(Reply, usize),
    Data(Bytes),
    DataError(Bytes),
}

impl Incoming {
    /// The credit it used up; `None` for messages that cost none.
    pub(super) fn cost(&self) -> Option<usize> {
        match self {
            Self::Message(Reply::Entries { .. }, length) => Some(frame::cost(*length)),
            Self::Message(..) => None,
            Self::Data(bytes) | Self::DataError(bytes) => Some(frame::cost(bytes.len())),
        }
    }

    /// Whether the runtime forgets the stream with it; one that is `kept` goes on after the exit report.
    pub(super) fn is_last(&self, kept: bool) -> bool {
        matches!(self, Self::Message(Reply::Exited(_), _) if !kept)
            || matches!(
                self,
                Self::Message(
                    Reply::Listed { .. }
                        | Reply::DataEnd {}
                        | Reply::Written { .. }
                        | Reply::KilledAll { .. }
                        | Reply::Pong {}
                        | Reply::Cancelled {}
                        | Reply::Bye {}
                        | Reply::Forgotten {}
                        | Reply::Error { .. },
                    _
                )
            )
    }
}

/// A stream. Dropping it before its end tells the runtime to give it up, or to let go of it when it is kept.
pub(super) struct Stream {
    connection: Arc<Connection>,
    id: u32,
    incoming: mpsc::UnboundedReceiver<Incoming>,
    credit: Arc<Semaphore>,
    load: Arc<Mutex<Load>>,
    owed: usize,
    ended: bool,
    kept: bool,
}

impl Stream {
    pub(super) fn new(
        connection: Arc<Connection>,
        id: u32,
        incoming: mpsc::UnboundedReceiver<Incoming>,
        credit: Arc<Semaphore>,
        load: Arc<Mutex<Load>>,
        kept: bool,
    ) -> Self {
        Self { connection, id, incoming, credit, load, owed: 0, ended: false, kept }
    }

    pub(super) fn send(&self, request: &Request) -> Result<(), LinkError> {
        self.connection.send_message(self.id, request)
    }

    /// Sends data as fast as the runtime takes it.
    pub(super) async fn send_data(&self, mut bytes: &[u8]) -> Result<(), LinkError> {
        while !bytes.is_empty() {
            let (chunk, rest) = bytes.split_at(bytes.len().min(frame::MAX_CHUNK));
            let permits =
                self.credit.acquire_many(frame::cost(chunk.len()) as u32).await.map_err(|_| self.closed_for_data())?;
            permits.forget();
            self.connection.send_data(self.id, chunk)?;
            bytes = rest;
        }
        Ok(())
    }

    fn closed_for_data(&self) -> LinkError {
        if self.connection.is_closed() { self.connection.closed() } else { LinkError::Ended }
    }

    /// The next frame; gives its credit back. After the last one, and when the connection is gone, an error.
    pub(super) async fn next(&mut self) -> Result<Incoming, LinkError> {
        let Some(incoming) = self.incoming.recv().await else {
            let error = if self.ended { LinkError::Ended } else { self.connection.closed() };
            self.ended = true;
            return Err(error);
        };
        let cost = incoming.cost();
        {
            let mut load = lock(&self.load);
            match cost {
                // The load falls with the credit message and not before, so that the runtime cannot use the gap.
                Some(cost) => self.owed += cost,
                None => load.messages -= 1,
            }
            if self.owed >= CREDIT_PORTION {
                load.cost -= self.owed;
            }
        }
        self.ended |= incoming.is_last(self.kept);
        if self.owed >= CREDIT_PORTION {
            let bytes = self.owed as u32;
            self.owed = 0;
            if !self.ended {
                // A connection that is gone is reported by the read that follows, after what has already arrived.
                let _ = self.send(&Request::Credit { bytes });
            }
        }
        if let Incoming::Message(Reply::Error { code, message }, _) = incoming {
            return Err(LinkError::Refused { code, message });
        }
        Ok(incoming)
    }

    /// The next frame, which must be a message.
    pub(super) async fn reply(&mut self) -> Result<Reply, LinkError> {
        match self.next().await? {
            Incoming::Message(reply, _) => Ok(reply),
            Incoming::Data(_) | Incoming::DataError(_) => {
                Err(LinkError::Protocol { reason: format!("data on stream {} where a message belongs", self.id) })
            }
        }
    }

    /// Whether the last message has been read.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Nothing more is expected; no cancel is sent.
    pub(super) fn finish(&mut self) {
        self.ended = true;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.ended {
            // Without a connection there is nobody to tell.
            let _ = self.send(if self.kept { &Request::Detach {} } else { &Request::Cancel {} });
        }
    }
}
