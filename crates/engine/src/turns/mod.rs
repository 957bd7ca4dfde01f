//! Tasks: a turn admitted, driven, watched, cancelled.

mod admit;
mod artifacts;
mod cancel;
mod drive;
mod events;
pub(crate) mod output;
mod pace;
mod shell;
pub(crate) mod transcript;
mod verdict;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use stead_domain::TurnId;
use stead_domain::file::Artifact;
use stead_domain::session::Session;
use stead_domain::turn::Turn;
use tokio_util::sync::CancellationToken;

pub use self::admit::{ProjectChoice, RetryKey, StartedTurn, TurnRequest, VersionChoice};
pub use self::events::EventStream;
pub use self::output::{OutputChunk, OutputStreamOf};

/// A turn with its session and what it left.
#[derive(Debug, Clone)]
pub struct TurnView {
    /// The turn.
    pub turn: Turn,
    /// Its session.
    pub session: Session,
    /// The artifacts of this turn.
    pub artifacts: Vec<Artifact>,
}

/// The turns that a task of this process drives.
#[derive(Debug, Default)]
pub(crate) struct RunningTurns(Mutex<HashMap<TurnId, CancellationToken>>);

/// Held while a task drives a turn.
pub(crate) struct Driving<'a> {
    turns: &'a RunningTurns,
    id: TurnId,
    /// Cancelled when the turn shall end.
    pub(crate) cancel: CancellationToken,
}

impl RunningTurns {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TurnId, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turn, unless somebody drives it already.
    pub(crate) fn begin(&self, id: TurnId) -> Option<Driving<'_>> {
        let cancel = CancellationToken::new();
        let mut turns = self.lock();
        if turns.contains_key(&id) {
            return None;
        }
        turns.insert(id, cancel.clone());
        Some(Driving { turns: self, id, cancel })
    }

    /// Tells whoever drives the turn that it shall end.
    pub(crate) fn cancel(&self, id: TurnId) {
        if let Some(cancel) = self.lock().get(&id) {
            cancel.cancel();
        }
    }

    /// Whether somebody of this process drives the turn.
    pub(crate) fn is_driven(&self, id: TurnId) -> bool {
        self.lock().contains_key(&id)
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.id);
    }
}
