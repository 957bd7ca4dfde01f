//! A build's log: what the installers said, appended as it comes, read live or as head and tail.

use std::path::PathBuf;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use stead_domain::key::Caller;
use stead_domain::{ProjectId, Result};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, SeekFrom};

use crate::engine::Engine;
use crate::hub::{Topic, Waiter};
use crate::tasks::output::log_failed;

/// Bytes of a record's log kept from the beginning.
const HEAD: u64 = 256 << 10;
/// Bytes of a record's log kept from the end.
const TAIL: u64 = 768 << 10;
/// The most that one read takes.
const READ: u64 = 256 << 10;

/// A raw log, live until the build has ended.
pub type LogStream = BoxStream<'static, Result<Bytes>>;

/// Appends to a build's log.
pub(crate) struct BuildLog {
    file: File,
    engine: Engine,
    project: ProjectId,
}

impl BuildLog {
    /// Appends bytes as an installer wrote them.
    pub(crate) async fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).await.map_err(log_failed)?;
        self.file.flush().await.map_err(log_failed)?;
        self.engine.hub.wake(Topic::Project(self.project));
        Ok(())
    }

    /// Appends a line of the server's own.
    pub(crate) async fn line(&mut self, text: &str) -> Result<()> {
        self.append(format!("{text}\n").as_bytes()).await
    }

    pub(crate) async fn sync(&mut self) -> Result<()> {
        self.file.sync_data().await.map_err(log_failed)
    }
}

impl Engine {
    fn build_log_path(&self, project: ProjectId, number: u32) -> PathBuf {
        self.settings.logs.join(format!("{}-{number}.build", project.hex()))
    }

    pub(crate) async fn open_build_log(&self, project: ProjectId, number: u32) -> Result<BuildLog> {
        let path = self.build_log_path(project, number);
        let file = File::options().create(true).append(true).open(path).await.map_err(log_failed)?;
        Ok(BuildLog { file, engine: self.clone(), project })
    }

    async fn read_build_log(&self, project: ProjectId, number: u32, from: u64, most: u64) -> Result<Vec<u8>> {
        let mut file = match File::open(self.build_log_path(project, number)).await {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(log_failed(error)),
        };
        file.seek(SeekFrom::Start(from)).await.map_err(log_failed)?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).await.map_err(log_failed)?;
        Ok(bytes)
    }

    /// A build's log as text: the first 256 KiB and the last 768 KiB, with what is between stated.
    pub async fn build_log(&self, caller: &Caller, id: ProjectId, number: u32) -> Result<String> {
        self.build_get(caller, id, number).await?;
        let total = match tokio::fs::metadata(self.build_log_path(id, number)).await {
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        };
        if total <= HEAD + TAIL {
            return Ok(String::from_utf8_lossy(&self.read_build_log(id, number, 0, HEAD + TAIL).await?).into_owned());
        }
        let head = self.read_build_log(id, number, 0, HEAD).await?;
        let tail = self.read_build_log(id, number, total - TAIL, TAIL).await?;
        Ok(format!(
            "{}\n[… {} bytes omitted …]\n{}",
            String::from_utf8_lossy(&head),
            total - HEAD - TAIL,
            String::from_utf8_lossy(&tail)
        ))
    }

    /// The raw log from a byte offset on, live until the build has ended.
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
                let bytes = state.engine.read_build_log(state.project, state.number, state.offset, READ).await?;
                if !bytes.is_empty() {
                    state.offset += bytes.len() as u64;
                    return Ok(Some((Bytes::from(bytes), state)));
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
