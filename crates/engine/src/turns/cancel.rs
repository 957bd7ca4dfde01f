//! Turns read, waited for, cancelled and hidden.

use stead_domain::changes::Changes;
use stead_domain::event::EventKind;
use stead_domain::key::Caller;
use stead_domain::turn::{Turn, TurnEvent};
use stead_domain::{Code, Error, Result, TurnId};

use super::TurnView;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::hub::Topic;
use crate::sessions::session_not_found;

fn turn_not_found() -> Error {
    Error::new(Code::TurnNotFound, "there is no such turn")
}

impl Engine {
    pub(crate) async fn live_turn(&self, caller: &Caller, id: TurnId) -> Result<Turn> {
        let turn = self.store.turn_fetch(caller.workspace_id, id).await.map_err(store_failed)?;
        turn.filter(|turn| turn.deleted_at.is_none()).ok_or_else(turn_not_found)
    }

    /// One turn with its session and what it left.
    pub async fn turn_get(&self, caller: &Caller, id: TurnId) -> Result<TurnView> {
        let turn = self.live_turn(caller, id).await?;
        let session = self
            .session_get(caller, turn.session_id)
            .await
            .map_err(|error| if error.code == Code::SessionNotFound { turn_not_found() } else { error })?;
        let artifacts = match turn.state.is_ended() {
            true => self.store.artifacts_of(session.id).await.map_err(store_failed)?,
            false => Vec::new(),
        };
        let artifacts = artifacts.into_iter().filter(|artifact| artifact.turn_id == id).collect();
        Ok(TurnView { turn, session, artifacts })
    }

    /// Returns when the turn has ended. It holds no connection meanwhile, and a caller that goes away cancels nothing.
    pub async fn turn_wait(&self, caller: &Caller, id: TurnId) -> Result<TurnView> {
        let session = self.live_turn(caller, id).await?.session_id;
        let mut waiter = self.hub.listen(Topic::Session(session));
        loop {
            let view = self.turn_get(caller, id).await?;
            if view.turn.state.is_ended() {
                return Ok(view);
            }
            waiter.wait().await;
        }
    }

    /// Admits a cancel and returns at once. A turn that has ended stays as it is, and the call succeeds.
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
    pub async fn turn_delete(&self, caller: &Caller, id: TurnId) -> Result<()> {
        self.decide(|| async {
            let mut turn = self.live_turn(caller, id).await?;
            turn.deleted_at = Some(self.now());
            Ok((Changes::new().update(turn), ()))
        })
        .await
    }
}
