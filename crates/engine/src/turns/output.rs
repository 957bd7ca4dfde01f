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

/// Whole records as the log has them, headers included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputRecords {
    /// Where the record after the last of these begins: the place to resume from.
    pub offset: u64,
    /// The records. Empty where there are none.
    pub bytes: Bytes,
}

impl OutputRecords {
    /// The whole records at the beginning of `buffer`, which begins at `from`; what follows the last whole one is left for the next
    /// read.
    fn of(buffer: Vec<u8>, from: u64) -> Self {
        let mut whole = 0;
        while let Some((_, length)) = header(&buffer[whole..]) {
            whole += HEADER + length;
        }
        let mut bytes = Bytes::from(buffer);
        bytes.truncate(whole);
        Self { offset: from + whole as u64, bytes }
    }

    /// Each record as a piece of output.
    pub fn chunks(&self) -> Vec<OutputChunk> {
        let (mut rest, mut found) = (self.bytes.clone(), Vec::new());
        while let Some((stream, length)) = header(&rest) {
            rest.advance(HEADER);
            let bytes = rest.split_to(length);
            found.push(OutputChunk { offset: self.offset - rest.len() as u64, stream, bytes });
        }
        found
    }
}

/// The stream and the length of the record that `rest` begins with; None when it is not whole.
fn header(rest: &[u8]) -> Option<(OutputStream, usize)> {
    let (tag, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    let stream = match tag {
        1 => OutputStream::Stdout,
        2 => OutputStream::Stderr,
        _ => return None,
    };
    (length <= RECORD && length <= rest.len()).then_some((stream, length))
}

/// Raw output, live until the turn has ended.
pub type OutputStreamOf = BoxStream<'static, Result<OutputRecords>>;

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
            let records = self.read_output(turn, log.length).await?;
            if records.bytes.is_empty() {
                break;
            }
            log.length = records.offset;
            for chunk in &records.chunks() {
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
    pub(crate) async fn read_output(&self, turn: TurnId, offset: u64) -> Result<OutputRecords> {
        let chunk = self.logs.read(LogName::Turn(turn), offset, READ).await.map_err(log_failed)?;
        Ok(OutputRecords::of(chunk.bytes, offset))
    }

    /// Raw output from an offset that earlier records gave (0 for the beginning), live until the turn has ended.
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
                let mut records = state.engine.read_output(state.turn.id, state.offset).await?;
                let mut is_ended = false;
                if records.bytes.is_empty() {
                    let row = state.engine.patiently_for(FOLLOWER, || state.engine.followed(&state.turn)).await?;
                    is_ended = row.state.is_ended();
                    records = state.engine.read_output(state.turn.id, state.offset).await?;
                }
                if !records.bytes.is_empty() {
                    state.offset = records.offset;
                    return Ok(Some((records, state)));
                }
                if is_ended {
                    return Ok(None);
                }
                state.waiter.wait().await;
            }
        });
        Ok(stream.boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_record_waits_for_its_rest() {
        let mut buffer = vec![1, 2, 0, 0, 0, b'h', b'i', 2, 1, 0, 0, 0, b'!'];
        let records = |buffer: &Vec<u8>, from| OutputRecords::of(buffer.clone(), from).chunks();
        let whole = records(&buffer, 100);
        assert_eq!(whole.iter().map(|chunk| chunk.offset).collect::<Vec<_>>(), [107, 113]);
        buffer.pop();
        assert_eq!(records(&buffer, 0).len(), 1);
        assert_eq!(OutputRecords::of(buffer, 7).offset, 14);
        for none in [vec![], vec![1, 0, 0, 0], vec![9, 0, 0, 0, 0], vec![1, 255, 255, 255, 255, 0]] {
            assert!(records(&none, 0).is_empty(), "{none:?}");
        }
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
        let found = OutputRecords::of(encoded, 0).chunks();
        let shape: Vec<_> = found.iter().map(|chunk| (chunk.stream, chunk.bytes.len())).collect();
        assert_eq!(shape, [(Stdout, RECORD), (Stdout, 1), (Stderr, 1), (Stdout, 1)]);
        assert_eq!(found[0].bytes[..2], [b'a', 7]);
        assert_eq!(found[3].offset, length);
    }
}
