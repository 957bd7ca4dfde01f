//! Raw output of a turn: an append-only file of records, `stream (1 byte) · length (4 bytes, little-endian) · bytes`. It is
//! what `stead run` replays byte for byte, and where a turn's text comes from when its server died. The file is made durable
//! before the commit that ends the turn.

use bytes::{Buf, Bytes};
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use stead_domain::item::Item;
use stead_domain::key::Caller;
use stead_domain::ports::{LogError, LogName, OutputStream};
use stead_domain::turn::Turn;
use stead_domain::{Code, Error, Result, TurnId};

use super::cancel::FOLLOWER;
use crate::engine::Engine;
use crate::hub::{Topic, Waiter};

const HEADER: usize = 5;
/// The most that one read takes.
const READ: usize = 256 << 10;
/// The most that one record holds.
const RECORD: usize = 64 << 10;

/// A piece of raw output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Where the record after this one begins: the place to resume from.
    pub offset: u64,
    /// Where it came from.
    pub stream: OutputStream,
    /// The bytes.
    pub bytes: Bytes,
}

/// Raw output, live until the turn has ended.
pub type OutputStreamOf = BoxStream<'static, Result<OutputChunk>>;

pub(crate) fn log_failed(error: LogError) -> Error {
    Error::new(Code::BackendUnavailable, "the server's output log does not answer").because(error)
}

/// The one message of a turn.
pub(super) const ITEM: &str = "msg_1";

/// The message of a turn with this text.
pub(super) fn message(text: String, complete: bool) -> Item {
    Item::Message { id: ITEM.to_owned(), text, complete }
}

/// The message of a turn that has just begun.
pub(super) fn begun_message() -> Item {
    message(String::new(), false)
}

/// Appends records.
pub(crate) struct OutputLog {
    engine: Engine,
    log: LogName,
    /// Bytes of output appended, without headers.
    pub(crate) bytes: u64,
    /// Bytes of the whole records appended.
    length: u64,
    /// Whether an append has failed, which may have left a part of a record behind.
    torn: bool,
}

/// Records as long as they may be: what one stream says in several pieces is one record.
fn encode(pieces: &[(OutputStream, Vec<u8>)]) -> Vec<u8> {
    let most: usize = pieces.iter().map(|(_, bytes)| bytes.len() + HEADER * (bytes.len() / RECORD + 1)).sum();
    let mut records = Vec::with_capacity(most);
    let mut last: Option<(OutputStream, usize, usize)> = None;
    for (stream, bytes) in pieces {
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (begin, length) = match last {
                Some((before, begin, length)) if before == *stream && length < RECORD => (begin, length),
                _ => {
                    records.extend_from_slice(&[tag(*stream), 0, 0, 0, 0]);
                    (records.len() - HEADER, 0)
                }
            };
            let piece;
            (piece, rest) = rest.split_at(rest.len().min(RECORD - length));
            records.extend_from_slice(piece);
            let length = length + piece.len();
            records[begin + 1..begin + HEADER].copy_from_slice(&(length as u32).to_le_bytes());
            last = Some((*stream, begin, length));
        }
    }
    records
}

const fn tag(stream: OutputStream) -> u8 {
    match stream {
        OutputStream::Stdout => 1,
        OutputStream::Stderr => 2,
    }
}

impl OutputLog {
    /// Appends output; readers see it when this returns. After an error nothing of it was appended, and the same may be tried again.
    pub(crate) async fn append(&mut self, pieces: &[(OutputStream, Vec<u8>)]) -> Result<()> {
        if self.torn {
            self.engine.logs.cut(self.log, self.length).await.map_err(log_failed)?;
            self.torn = false;
        }
        let records = encode(pieces);
        let length = records.len() as u64;
        self.torn = true;
        self.engine.logs.append(self.log, records).await.map_err(log_failed)?;
        self.torn = false;
        self.length += length;
        self.bytes += pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Makes the whole log durable.
    pub(crate) async fn sync(&self) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.engine.logs.sync(self.log).await.map_err(log_failed)
    }
}

/// The whole records at the beginning of `buffer`; what follows the last whole one is left for the next read.
fn records(buffer: Vec<u8>, mut offset: u64) -> Vec<OutputChunk> {
    let mut rest = Bytes::from(buffer);
    let mut found = Vec::new();
    while rest.len() >= HEADER {
        let length = u32::from_le_bytes([rest[1], rest[2], rest[3], rest[4]]) as usize;
        let stream = match rest[0] {
            1 => OutputStream::Stdout,
            2 => OutputStream::Stderr,
            _ => break,
        };
        if length > RECORD || rest.len() < HEADER + length {
            break;
        }
        offset += (HEADER + length) as u64;
        rest.advance(HEADER);
        found.push(OutputChunk { offset, stream, bytes: rest.split_to(length) });
    }
    found
}

impl Engine {
    pub(crate) fn output_log(&self, turn: TurnId) -> OutputLog {
        OutputLog { engine: self.clone(), log: LogName::Turn(turn), bytes: 0, length: 0, torn: false }
    }

    /// The log of a turn that another process has written, without the record that it did not live to finish. What is in it goes to
    /// `hear`, in order.
    pub(super) async fn reopen_output(
        &self,
        turn: TurnId,
        mut hear: impl FnMut(OutputStream, &[u8]),
    ) -> Result<OutputLog> {
        let mut log = self.output_log(turn);
        loop {
            let chunks = self.read_output(turn, log.length).await?;
            let Some(last) = chunks.last() else { break };
            log.length = last.offset;
            for chunk in &chunks {
                log.bytes += chunk.bytes.len() as u64;
                hear(chunk.stream, &chunk.bytes);
            }
        }
        self.logs.cut(log.log, log.length).await.map_err(log_failed)?;
        Ok(log)
    }

    pub(crate) async fn remove_output(&self, turn: TurnId) -> Result<()> {
        self.logs.remove(LogName::Turn(turn)).await.map_err(log_failed)
    }

    /// The records from `offset` on, as far as they are whole and one read takes them.
    pub(crate) async fn read_output(&self, turn: TurnId, offset: u64) -> Result<Vec<OutputChunk>> {
        let chunk = self.logs.read(LogName::Turn(turn), offset, READ).await.map_err(log_failed)?;
        Ok(records(chunk.bytes, offset))
    }

    /// Raw output from an offset that an earlier chunk gave (0 for the beginning), live until the turn has ended.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn turn_output(&self, caller: &Caller, id: TurnId, from: u64) -> Result<OutputStreamOf> {
        struct State {
            engine: Engine,
            turn: Turn,
            offset: u64,
            waiter: Waiter,
        }
        let turn = self.live_turn(caller, id).await?;
        let waiter = self.hub.listen(Topic::Session(turn.session_id));
        let state = State { engine: self.clone(), turn, offset: from, waiter };
        let stream = try_unfold(state, |mut state| async move {
            loop {
                // The state is asked for when there is nothing to read, and the file once more after it: what an ended turn said is
                // all there.
                let mut chunks = state.engine.read_output(state.turn.id, state.offset).await?;
                let mut is_ended = false;
                if chunks.is_empty() {
                    let row = state.engine.patiently_for(FOLLOWER, || state.engine.followed(&state.turn)).await?;
                    is_ended = row.state.is_ended();
                    chunks = state.engine.read_output(state.turn.id, state.offset).await?;
                }
                if let Some(last) = chunks.last() {
                    state.offset = last.offset;
                    return Ok(Some((chunks, state)));
                }
                if is_ended {
                    return Ok(None);
                }
                state.waiter.wait().await;
            }
        });
        Ok(stream
            .flat_map(|chunks: Result<Vec<OutputChunk>>| match chunks {
                Ok(chunks) => futures_util::stream::iter(chunks.into_iter().map(Ok).collect::<Vec<_>>()),
                Err(error) => futures_util::stream::iter(vec![Err(error)]),
            })
            .boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_record_waits_for_its_rest() {
        let mut buffer = vec![1, 2, 0, 0, 0, b'h', b'i', 2, 1, 0, 0, 0, b'!'];
        let whole = records(buffer.clone(), 100);
        assert_eq!(whole.iter().map(|chunk| chunk.offset).collect::<Vec<_>>(), [107, 113]);
        buffer.pop();
        assert_eq!(records(buffer, 0).len(), 1);
        assert!(records(vec![9, 0, 0, 0, 0], 0).is_empty());
        assert!(records(vec![1, 255, 255, 255, 255, 0], 0).is_empty());
    }

    #[test]
    fn pieces_of_one_stream_are_joined_and_long_ones_cut() {
        use OutputStream::{Stderr, Stdout};
        let long = vec![7_u8; RECORD];
        let said = [
            (Stdout, vec![]),
            (Stdout, b"a".to_vec()),
            (Stdout, long),
            (Stderr, b"!".to_vec()),
            (Stdout, b"b".to_vec()),
        ];
        let encoded = encode(&said);
        let length = encoded.len() as u64;
        let found = records(encoded, 0);
        let shape: Vec<_> = found.iter().map(|chunk| (chunk.stream, chunk.bytes.len())).collect();
        assert_eq!(shape, [(Stdout, RECORD), (Stdout, 1), (Stderr, 1), (Stdout, 1)]);
        assert_eq!(found[0].bytes[..2], [b'a', 7]);
        assert_eq!(found[3].offset, length);
    }
}
