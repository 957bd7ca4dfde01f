//! Raw output of a turn: an append-only file of records, `stream (1 byte) · length (4 bytes, little-endian) · bytes`. It is
//! what `stead run` replays byte for byte, and where a turn's text comes from when its server died. The file is made durable
//! before the commit that ends the turn.

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use stead_domain::key::Caller;
use stead_domain::ports::{LogError, LogName, OutputStream};
use stead_domain::{Code, Error, Result, TurnId};

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

/// Appends records.
pub(crate) struct OutputLog {
    engine: Engine,
    log: LogName,
    /// Bytes of output appended, without headers.
    pub(crate) bytes: u64,
}

impl OutputLog {
    /// Appends output; readers see it when this returns.
    pub(crate) async fn append(&mut self, stream: OutputStream, bytes: &[u8]) -> Result<()> {
        let mut appended = Vec::with_capacity(bytes.len() + HEADER);
        for piece in bytes.chunks(RECORD) {
            appended.push(match stream {
                OutputStream::Stdout => 1,
                OutputStream::Stderr => 2,
            });
            appended.extend_from_slice(&u32::try_from(piece.len()).unwrap_or(0).to_le_bytes());
            appended.extend_from_slice(piece);
        }
        self.engine.logs.append(self.log, appended).await.map_err(log_failed)?;
        self.bytes += bytes.len() as u64;
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
fn records(buffer: &[u8], mut offset: u64) -> Vec<OutputChunk> {
    let mut rest = buffer;
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
        found.push(OutputChunk { offset, stream, bytes: Bytes::copy_from_slice(&rest[HEADER..HEADER + length]) });
        rest = &rest[HEADER + length..];
    }
    found
}

impl Engine {
    pub(crate) fn output_log(&self, turn: TurnId) -> OutputLog {
        OutputLog { engine: self.clone(), log: LogName::Turn(turn), bytes: 0 }
    }

    pub(crate) async fn remove_output(&self, turn: TurnId) -> Result<()> {
        self.logs.remove(LogName::Turn(turn)).await.map_err(log_failed)
    }

    /// The records from `offset` on, as far as they are whole and one read takes them.
    pub(crate) async fn read_output(&self, turn: TurnId, offset: u64) -> Result<Vec<OutputChunk>> {
        let chunk = self.logs.read(LogName::Turn(turn), offset, READ).await.map_err(log_failed)?;
        Ok(records(&chunk.bytes, offset))
    }

    /// Raw output from an offset that an earlier chunk gave (0 for the beginning), live until the turn has ended.
    pub async fn turn_output(&self, caller: &Caller, id: TurnId, from: u64) -> Result<OutputStreamOf> {
        struct State {
            engine: Engine,
            caller: Caller,
            turn: TurnId,
            offset: u64,
            waiter: Waiter,
        }
        let turn = self.live_turn(caller, id).await?;
        let waiter = self.hub.listen(Topic::Session(turn.session_id));
        let state = State { engine: self.clone(), caller: caller.clone(), turn: id, offset: from, waiter };
        let stream = try_unfold(state, |mut state| async move {
            loop {
                // The state is read before the file: what an ended turn said is all there.
                let turn = state.engine.live_turn(&state.caller, state.turn).await?;
                let chunks = state.engine.read_output(state.turn, state.offset).await?;
                if let Some(last) = chunks.last() {
                    state.offset = last.offset;
                    return Ok(Some((chunks, state)));
                }
                if turn.state.is_ended() {
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
        let whole = records(&buffer, 100);
        assert_eq!(whole.iter().map(|chunk| chunk.offset).collect::<Vec<_>>(), [107, 113]);
        buffer.pop();
        assert_eq!(records(&buffer, 0).len(), 1);
        assert!(records(&[9, 0, 0, 0, 0], 0).is_empty());
        assert!(records(&[1, 255, 255, 255, 255, 0], 0).is_empty());
    }
}
