//! Tasks: a turn admitted, driven, watched, cancelled.

mod admit;
mod artifacts;
mod cancel;
mod display;
mod drive;
mod events;
mod follow;
pub(crate) mod output;
mod pace;
mod promote;
mod ready;
mod resume;
mod rows;
mod run;
mod settle;
mod shell;
mod transcript;
mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_domain::TurnId;
use stead_domain::file::Artifact;
use stead_domain::session::Session;
use stead_domain::turn::Turn;
use tokio_util::sync::CancellationToken;

pub use self::admit::{ProjectChoice, RetryKey, StartedTurn, TurnRequest, VersionChoice};
pub(crate) use self::artifacts::Baseline;
pub use self::events::EventStream;
pub use self::output::{OutputChunk, OutputRecords, OutputStreamOf};

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

type Driven = Arc<Mutex<HashMap<TurnId, CancellationToken>>>;

/// The turns that a task of this process drives.
#[derive(Debug, Default)]
pub(crate) struct RunningTurns {
    driven: Driven,
    handing_over: CancellationToken,
}

/// Held by whoever drives a turn, or is about to: nothing of its session is removed meanwhile.
pub(crate) struct Driving {
    driven: Driven,
    pub(crate) id: TurnId,
    /// Cancelled when the turn shall end.
    pub(crate) cancel: CancellationToken,
}

impl RunningTurns {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TurnId, CancellationToken>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turn, unless somebody drives it already.
    pub(crate) fn begin(&self, id: TurnId) -> Option<Driving> {
        let cancel = CancellationToken::new();
        let mut turns = self.lock();
        if self.handing_over.is_cancelled() || turns.contains_key(&id) {
            return None;
        }
        turns.insert(id, cancel.clone());
        Some(Driving { driven: self.driven.clone(), id, cancel })
    }

    /// Tells whoever drives the turn that it shall end.
    pub(crate) fn cancel(&self, id: TurnId) {
        if let Some(cancel) = self.lock().get(&id) {
            cancel.cancel();
        }
    }

    /// Tells every driver to leave its turn to the next server process, and lets none begin.
    pub(crate) fn hand_over(&self) {
        self.handing_over.cancel();
    }

    /// Whether turns are being handed over.
    pub(crate) fn handing_over(&self) -> &CancellationToken {
        &self.handing_over
    }

    /// Returns when no turn is driven.
    pub(crate) async fn idle(&self) {
        while !self.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether somebody of this process drives the turn.
    pub(crate) fn is_driven(&self, id: TurnId) -> bool {
        self.lock().contains_key(&id)
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
