//! What a turn leaves: at its end, regular files in the working directory that are new or changed become artifacts. What is
//! over a limit is named on the turn, never dropped in silence.

use std::collections::HashMap;

use stead_domain::environment::WORKSPACE;
use stead_domain::file::Artifact;
use stead_domain::ports::{FileEntry, Runtime, RuntimeError, StoredBlob};
use stead_domain::turn::{ExcessFile, Turn};
use stead_domain::{FileId, Result, SessionId, TurnId, WorkspaceId};
use tokio::time::Instant;

use crate::commit::{DISK, blobs_failed};
use crate::engine::Engine;
use crate::spool::SpoolWriter;

/// The most files that are looked at.
const LISTED: usize = 100_000;
/// How much is read at once.
const PIECE: usize = 1 << 20;
/// How many files over a limit are named.
const NAMED: usize = 100;

/// The stamps of the files that were there before the turn, by path.
pub(crate) type Baseline = HashMap<String, String>;

/// Whose the files are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    workspace: WorkspaceId,
    session: SessionId,
    turn: TurnId,
}

impl From<&Turn> for Owner {
    fn from(turn: &Turn) -> Self {
        Self { workspace: turn.workspace_id, session: turn.session_id, turn: turn.id }
    }
}

/// What was collected.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) artifacts: Vec<Artifact>,
    pub(crate) excess: Vec<ExcessFile>,
    /// The environment was gone before all could be looked at.
    pub(crate) lost: bool,
}

impl Collected {
    /// Nothing could be looked at.
    pub(crate) fn unreadable(error: &RuntimeError) -> Self {
        let lost = matches!(error, RuntimeError::Lost(_));
        let mut collected = Self { lost, ..Self::default() };
        collected.exceed(".", format!("the working directory could not be read: {error}"));
        collected
    }

    fn exceed(&mut self, path: &str, reason: String) {
        if self.excess.len() < NAMED {
            self.excess.push(ExcessFile { path: path.to_owned(), reason });
        }
    }
}

pub(crate) async fn baseline(runtime: &dyn Runtime) -> Result<Baseline, RuntimeError> {
    let (files, _) = runtime.list_files(WORKSPACE, LISTED).await?;
    Ok(files.into_iter().map(|file| (file.path, file.stamp)).collect())
}

impl Engine {
    /// Collects what the turn left, durably. A file that the server's disk does not take is tried again for a while.
    pub(crate) async fn collect_durably(&self, runtime: &dyn Runtime, owner: Owner, before: &Baseline) -> Collected {
        let until = Instant::now() + DISK;
        let mut collected = self.collect(runtime, owner, before, until).await;
        if collected.artifacts.is_empty() {
            return collected;
        }
        let synced = self.while_hoping(until, || async { self.blobs.sync().await.map_err(blobs_failed) }).await;
        if let Err(error) = synced {
            for artifact in std::mem::take(&mut collected.artifacts) {
                collected.exceed(&artifact.path, error.message.clone());
            }
        }
        collected
    }

    async fn collect(&self, runtime: &dyn Runtime, owner: Owner, before: &Baseline, until: Instant) -> Collected {
        let mut collected = Collected::default();
        let (mut files, more) = match runtime.list_files(WORKSPACE, LISTED).await {
            Ok(listed) => listed,
            Err(error) => return Collected::unreadable(&error),
        };
        if more {
            let reason = "are too many files, or directories that cannot be read or lie too deep";
            collected.exceed(".", format!("there {reason}; what is not listed was not looked at"));
        }
        files.retain(|file| before.get(&file.path) != Some(&file.stamp));
        files.sort_by(|left, right| left.path.cmp(&right.path));
        let limits = self.settings.artifacts;
        let mut bytes = 0;
        for file in files {
            if !file.exact {
                collected.exceed(&file.path, "its name is not UTF-8".to_owned());
            } else if collected.artifacts.len() >= limits.files {
                collected.exceed(&file.path, format!("more than {} files", limits.files));
            } else if file.bytes > limits.file_bytes {
                collected.exceed(&file.path, format!("larger than {} bytes", limits.file_bytes));
            } else if bytes + file.bytes > limits.turn_bytes {
                collected.exceed(&file.path, format!("more than {} bytes in one turn", limits.turn_bytes));
            } else {
                let keeping = || async {
                    self.require_blob_room(owner.workspace, file.bytes).await?;
                    self.fetch(runtime, owner.workspace, &file).await
                };
                match self.while_hoping(until, keeping).await {
                    Ok(stored) => {
                        bytes += stored.bytes;
                        collected.artifacts.push(self.artifact(owner, file.path, stored));
                    }
                    Err(error) => {
                        collected.exceed(&file.path, error.message);
                        // A file may be gone or closed by itself; whether it was everything is asked once more.
                        collected.lost = matches!(runtime.list_files(WORKSPACE, 1).await, Err(RuntimeError::Lost(_)));
                        if collected.lost {
                            break;
                        }
                    }
                }
            }
        }
        collected
    }

    fn artifact(&self, owner: Owner, path: String, stored: StoredBlob) -> Artifact {
        Artifact {
            id: FileId::new(self.ids.as_ref()),
            workspace_id: owner.workspace,
            session_id: owner.session,
            turn_id: owner.turn,
            path,
            bytes: stored.bytes,
            blob: stored.id,
            created_at: self.now(),
        }
    }

    async fn fetch(&self, runtime: &dyn Runtime, workspace: WorkspaceId, file: &FileEntry) -> Result<StoredBlob> {
        let unreadable = |error: RuntimeError| {
            stead_domain::Error::new(stead_domain::Code::FileNotFound, format!("it could not be read: {error}"))
        };
        let first = runtime.read_file(WORKSPACE, &file.path, 0, PIECE).await.map_err(unreadable)?;
        if first.len() < PIECE {
            return self.blobs.put(workspace, first).await.map_err(blobs_failed);
        }
        let mut spool: SpoolWriter = self.spool(self.settings.artifacts.file_bytes).await?;
        let mut offset = first.len() as u64;
        spool.write(&first).await?;
        loop {
            let piece = runtime.read_file(WORKSPACE, &file.path, offset, PIECE).await.map_err(unreadable)?;
            offset += piece.len() as u64;
            spool.write(&piece).await?;
            if piece.len() < PIECE {
                break;
            }
        }
        let spooled = spool.finish().await?;
        let blobs = self.blobs.clone();
        self.blocking(move || blobs.adopt_blocking(workspace, spooled.path().to_owned()).map_err(blobs_failed)).await
    }
}
