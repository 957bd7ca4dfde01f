//! A build's log: what the installers said, appended as it comes, read live or as head and tail.

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use stead_domain::key::Caller;
use stead_domain::ports::LogName;
use stead_domain::{ProjectId, Result};
use tokio::time::Instant;

use crate::commit::DISK;
use crate::engine::Engine;
use crate::hub::{Topic, Waiter};
use crate::turns::output::log_failed;

/// The most that one read takes.
const READ: usize = 256 << 10;

/// A part of a log as it is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// The offset of the first byte, counted in the whole log.
    pub offset: u64,
    /// How many bytes right before it were said and not kept.
    pub omitted: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// A log, live until the build has ended.
pub type LogStream = BoxStream<'static, Result<LogPart>>;

/// Appends to a build's log. Steps that run side by side share it.
pub(crate) struct BuildLog {
    engine: Engine,
    project: ProjectId,
    log: LogName,
    /// The log store takes one writer at a time.
    turn: tokio::sync::Mutex<()>,
}

/// Appends what one step says. A step that runs beside others writes whole lines, each with a tag in front.
pub(crate) struct StepLog<'a> {
    log: &'a BuildLog,
    tag: Option<&'static str>,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
}

/// The longest line that is waited for.
const LINE: usize = 16 << 10;

impl<'a> StepLog<'a> {
    pub(crate) fn new(log: &'a BuildLog, tag: Option<&'static str>) -> Self {
        Self { log, tag, begun: Vec::new() }
    }

    /// Appends bytes as an installer wrote them.
    pub(crate) async fn append(&mut self, bytes: Vec<u8>) -> Result<()> {
        let Some(tag) = self.tag else { return self.log.append(bytes).await };
        self.begun.extend_from_slice(&bytes);
        let whole = match self.begun.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if self.begun.len() > LINE => self.begun.len(),
            None => return Ok(()),
        };
        let rest = self.begun.split_off(whole);
        let lines = std::mem::replace(&mut self.begun, rest);
        self.log.append(tagged(tag, &lines)).await
    }

    /// Appends a line of the server's own.
    pub(crate) async fn line(&mut self, text: &str) -> Result<()> {
        self.append(format!("{text}\n").into_bytes()).await
    }

    /// Appends what is left of a line.
    pub(crate) async fn end(mut self) -> Result<()> {
        match self.tag {
            Some(tag) if !self.begun.is_empty() => self.log.append(tagged(tag, &std::mem::take(&mut self.begun))).await,
            _ => Ok(()),
        }
    }
}

/// Each line with the tag in front and an end.
fn tagged(tag: &str, lines: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.len() + 64);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        out.extend_from_slice(tag.as_bytes());
        out.extend_from_slice(b" | ");
        out.extend_from_slice(line);
    }
    if !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    out
}

impl BuildLog {
    /// Appends bytes as an installer wrote them.
    pub(crate) async fn append(&self, bytes: Vec<u8>) -> Result<()> {
        let _turn = self.turn.lock().await;
        let append = || async { self.engine.logs.append(self.log, bytes.clone()).await.map_err(log_failed) };
        // What a full disk has taken of it before stands twice.
        self.engine.while_hoping(Instant::now() + DISK, append).await?;
        self.engine.hub.wake(Topic::Project(self.project));
        Ok(())
    }

    /// Appends a line of the server's own.
    pub(crate) async fn line(&self, text: &str) -> Result<()> {
        self.append(format!("{text}\n").into_bytes()).await
    }

    pub(crate) async fn sync(&self) -> Result<()> {
        let sync = || async { self.engine.logs.sync(self.log).await.map_err(log_failed) };
        self.engine.while_hoping(Instant::now() + DISK, sync).await
    }
}

impl Engine {
    pub(crate) fn open_build_log(&self, project: ProjectId, number: u32) -> BuildLog {
        let log = LogName::Build(project, number);
        BuildLog { engine: self.clone(), project, log, turn: tokio::sync::Mutex::default() }
    }

    /// A build's log as text: the first 256 KiB and the last 768 KiB, with what is between stated.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn build_log(&self, caller: &Caller, id: ProjectId, number: u32) -> Result<String> {
        self.build_get(caller, id, number).await?;
        let kept = self.logs.read_kept(LogName::Build(id, number)).await.map_err(log_failed)?;
        Ok(String::from_utf8_lossy(&kept).into_owned())
    }

    /// The log from a byte offset on, live until the build has ended.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn build_follow(&self, caller: &Caller, id: ProjectId, number: u32, from: u64) -> Result<LogStream> {
        struct State {
            engine: Engine,
            caller: Caller,
            project: ProjectId,
            number: u32,
            offset: u64,
            waiter: Waiter,
        }
        self.build_get(caller, id, number).await?;
        let waiter = self.hub.listen(Topic::Project(id));
        let state = State { engine: self.clone(), caller: caller.clone(), project: id, number, offset: from, waiter };
        Ok(try_unfold(state, |mut state| async move {
            loop {
                // The row before the file: what an ended build said is all there.
                let ended = match state.engine.build_get(&state.caller, state.project, state.number).await {
                    Ok(build) => build.state.is_ended(),
                    Err(_) => true,
                };
                let log = LogName::Build(state.project, state.number);
                let chunk = state.engine.logs.read(log, state.offset, READ).await.map_err(log_failed)?;
                if !chunk.bytes.is_empty() {
                    state.offset = chunk.offset + chunk.bytes.len() as u64;
                    let bytes = Bytes::from(chunk.bytes);
                    let part = LogPart { offset: chunk.offset, omitted: chunk.omitted, bytes };
                    return Ok(Some((part, state)));
                }
                if ended {
                    return Ok(None);
                }
                state.waiter.wait().await;
            }
        })
        .boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_tagged_and_ends() {
        assert_eq!(tagged("node", b"a\n\nb\n"), b"node | a\nnode | \nnode | b\n");
        assert_eq!(tagged("node", b"half"), b"node | half\n");
    }
}
