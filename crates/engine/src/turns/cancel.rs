//! Turns read, waited for, cancelled and hidden.

use std::time::Duration;

use stead_domain::changes::Changes;
use stead_domain::event::EventKind;
use stead_domain::file::Artifact;
use stead_domain::key::Caller;
use stead_domain::session::Session;
use stead_domain::turn::{Turn, TurnEvent, TurnState};
use stead_domain::{Code, Error, Result, TurnId};

use super::TurnView;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::hub::Topic;
use crate::sessions::session_not_found;

/// How long somebody who follows a turn waits for a store that does not answer.
pub(super) const FOLLOWER: Duration = Duration::from_mins(1);

fn turn_not_found() -> Error {
    Error::new(Code::TurnNotFound, "there is no such turn")
}

impl Engine {
    pub(crate) async fn live_turn(&self, caller: &Caller, id: TurnId) -> Result<Turn> {
        let turn = self.store.turn_fetch(caller.workspace_id, id).await.map_err(store_failed)?;
        turn.filter(|turn| turn.deleted_at.is_none()).ok_or_else(turn_not_found)
    }

    /// The session of a turn that callers see.
    pub(super) async fn session_of(&self, caller: &Caller, turn: &Turn) -> Result<Session> {
        let session = self.session_get(caller, turn.session_id).await;
        session.map_err(|error| if error.code == Code::SessionNotFound { turn_not_found() } else { error })
    }

    /// One turn with its session and what it left.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn turn_get(&self, caller: &Caller, id: TurnId) -> Result<TurnView> {
        let turn = self.live_turn(caller, id).await?;
        let (session, artifacts) = tokio::join!(self.session_of(caller, &turn), self.artifacts_left(&turn));
        Ok(TurnView { session: session?, artifacts: artifacts?, turn })
    }

    /// What an ended turn left.
    async fn artifacts_left(&self, turn: &Turn) -> Result<Vec<Artifact>> {
        if !turn.state.is_ended() {
            return Ok(Vec::new());
        }
        let artifacts = self.store.artifacts_of(turn.session_id).await.map_err(store_failed)?;
        Ok(artifacts.into_iter().filter(|artifact| artifact.turn_id == turn.id).collect())
    }

    /// Returns when the turn has ended. It holds no connection meanwhile, and a caller that goes away cancels nothing. The record of a
    /// turn, or its session, may be deleted while it is waited for: whoever began to wait is told how it ended all the same.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn turn_wait(&self, caller: &Caller, id: TurnId) -> Result<TurnView> {
        let mut turn = self.live_turn(caller, id).await?;
        let mut session = None;
        if !turn.state.is_ended() {
            let mut waiter = self.hub.listen(Topic::Session(turn.session_id));
            session = Some(self.session_row(&turn).await?);
            loop {
                turn = self.patiently_for(FOLLOWER, || self.followed(&turn)).await?;
                if turn.state.is_ended() {
                    break;
                }
                waiter.wait().await;
            }
        }
        let newest = async {
            let row = self.store.session_fetch(turn.workspace_id, turn.session_id).await.map_err(store_failed)?;
            row.or(session).ok_or_else(turn_not_found)
        };
        let (session, artifacts) = tokio::join!(newest, self.artifacts_left(&turn));
        Ok(TurnView { session: session?, artifacts: artifacts?, turn })
    }

    /// The same for a request that is answered when the turn has ended; a server that [answers all](Engine::answer_waiting) answers
    /// with the turn as it is then.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn turn_await(&self, caller: &Caller, id: TurnId) -> Result<TurnView> {
        let answering = self.supervisor.answering();
        tokio::select! {
            biased;
            view = self.turn_wait(caller, id) => view,
            () = answering.cancelled() => self.turn_get(caller, id).await,
        }
    }

    /// Lets nobody wait any longer who waits for a turn's end with [`turn_await`](Engine::turn_await): the server hands over, and
    /// whoever asks later is told by the next one.
    pub fn answer_waiting(&self) {
        self.supervisor.answer();
    }

    /// A turn that somebody follows, as it is now. One that is gone was cancelled and removed with its session.
    pub(super) async fn followed(&self, turn: &Turn) -> Result<Turn> {
        let row = self.store.turn_fetch(turn.workspace_id, turn.id).await.map_err(store_failed)?;
        Ok(row.unwrap_or_else(|| Turn { state: TurnState::Cancelled, finished_at: Some(self.now()), ..turn.clone() }))
    }

    /// Admits a cancel and returns at once. A turn that has ended stays as it is, and the call succeeds.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn turn_cancel(&self, caller: &Caller, id: TurnId) -> Result<TurnView> {
        let changed = self
            .decide(|| async {
                let turn = self.live_turn(caller, id).await?;
                let before = turn.state;
                let session = self.store.session_fetch(caller.workspace_id, turn.session_id).await;
                let mut session = session.map_err(store_failed)?.ok_or_else(session_not_found)?;
                let at = self.now();
                let turn = turn.transition(TurnEvent::CancelRequested, at)?;
                if turn.state == before {
                    return Ok((Changes::new(), false));
                }
                session.observe(&turn, at);
                let mut changes = Changes::new();
                if turn.state.is_ended() {
                    changes = changes.event(session.event(id, EventKind::TurnEnded, at));
                }
                Ok((changes.update(turn).update(session), true))
            })
            .await?;
        if changed {
            self.faults.point("turn.cancelling");
            self.turns.cancel(id);
        }
        self.turn_get(caller, id).await
    }

    /// Hides the record of a turn from its readers; it never cancels.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn turn_delete(&self, caller: &Caller, id: TurnId) -> Result<()> {
        self.decide(|| async {
            let mut turn = self.live_turn(caller, id).await?;
            turn.deleted_at = Some(self.now());
            Ok((Changes::new().update(turn), ()))
        })
        .await
    }
}
