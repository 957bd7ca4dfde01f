//! A stop in good order hands running turns over to the next server process of this machine, which goes on driving them.
//!
//! ```text
//! old: drivers stop following ─log durable─▶ a note for each running turn ─▶ provider lets go ─▶ store closed, lock released
//! new: provider adopts ─note of the lease's holder─▶ TakenOver committed ─note removed─▶ adopted at the log's end, driven on
//! ```
//!
//! A note counts only while the turn's lease is still that of the server that wrote it, so one that is left behind by a crash
//! between the commit and the removal says nothing. Without a note, or without its environment, a turn is settled as after a
//! crash.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stead_domain::ids::ServerId;
use stead_domain::turn::Turn;
use stead_domain::{Code, Error, Result, TurnId};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::turns::Baseline;

/// What the next server process needs of a running turn, beside its rows and its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandoverNote {
    /// Who drove the turn.
    pub(crate) server: ServerId,
    /// The files that were there before the turn.
    pub(crate) baseline: Baseline,
    /// Bytes of output in the log.
    pub(crate) output_bytes: u64,
}

fn note_failed(error: std::io::Error) -> Error {
    Error::new(Code::BackendUnavailable, "the data directory does not take a hand-over").because(error)
}

impl Engine {
    /// Begins no build any more, and gives those that run until `until` to end: they cannot be handed over. Turns go on meanwhile.
    pub async fn wind_builds_down(&self, until: Instant) {
        self.builds.wind_down(until).await;
    }

    /// Begins nothing new, interrupts what cannot be handed over (builds, imports) and lets go of what can: each running turn is
    /// noted for the next server process of this machine, and its environment goes on. Queued turns stay queued. Turns that are
    /// just ending, and operations that are under way, have `grace` to do so.
    ///
    /// Afterwards the provider lets go of its environments, the store is closed and the lock is released, in that order.
    pub async fn hand_over(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        self.turns.hand_over();
        let ended = async { tokio::join!(self.builds.close(), self.imports.close(), self.turns.idle()) };
        if tokio::time::timeout_at(deadline, ended).await.is_err() {
            tracing::warn!("not everything could be handed over in time; the next start settles what is left");
        }
        self.supervisor.stop(deadline.saturating_duration_since(Instant::now())).await;
    }

    fn note_path(&self, turn: TurnId) -> PathBuf {
        self.settings.handovers.join(format!("{turn}.json"))
    }

    /// Writes a note, durably and at once or not at all.
    pub(crate) async fn write_note(&self, turn: TurnId, baseline: &Baseline, output_bytes: u64) -> Result<()> {
        let note = HandoverNote { server: self.server, baseline: baseline.clone(), output_bytes };
        let text = serde_json::to_vec(&note).map_err(Error::internal)?;
        let path = self.note_path(turn);
        let half = path.with_extension("half");
        let written = async {
            tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.settings.handovers).await?;
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&half).await?;
            file.write_all(&text).await?;
            file.flush().await?;
            file.sync_all().await?;
            tokio::fs::rename(&half, &path).await?;
            File::open(&self.settings.handovers).await?.sync_all().await
        };
        written.await.map_err(note_failed)
    }

    /// The notes that stand for these turns. All others say nothing any more and are removed.
    pub(crate) async fn read_notes(&self, turns: &[Turn]) -> Result<HashMap<TurnId, HandoverNote>> {
        let mut notes = HashMap::new();
        let mut entries = match tokio::fs::read_dir(&self.settings.handovers).await {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(notes),
            Err(error) => return Err(note_failed(error)),
        };
        while let Some(entry) = entries.next_entry().await.map_err(note_failed)? {
            let name = entry.file_name();
            let named = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse::<TurnId>().ok());
            let holder = |id| turns.iter().find(|turn| turn.id == id).and_then(|turn| turn.lease).map(|it| it.holder);
            let text = tokio::fs::read(entry.path()).await.map_err(note_failed)?;
            let note = serde_json::from_slice::<HandoverNote>(&text).ok();
            match (named, note) {
                (Some(id), Some(note)) if holder(id) == Some(note.server) => {
                    notes.insert(id, note);
                }
                _ => tokio::fs::remove_file(entry.path()).await.map_err(note_failed)?,
            }
        }
        Ok(notes)
    }

    /// Removes the note of a turn; one that is not there is removed already.
    pub(crate) async fn remove_note(&self, turn: TurnId) -> Result<()> {
        match tokio::fs::remove_file(self.note_path(turn)).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(note_failed(error)),
            _ => Ok(()),
        }
    }
}
