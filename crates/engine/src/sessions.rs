//! Sessions: listed, read, cancelled, deleted.

use stead_domain::changes::Changes;
use stead_domain::event::EventKind;
use stead_domain::key::Caller;
use stead_domain::ports::{Page, SessionFilter};
use stead_domain::session::Session;
use stead_domain::turn::{Turn, TurnEvent};
use stead_domain::{Code, Error, Result, SessionId};

use crate::commit::store_failed;
use crate::engine::Engine;
use crate::turns::TurnView;

pub(crate) fn session_not_found() -> Error {
    Error::new(Code::SessionNotFound, "there is no such session")
}

impl Engine {
    /// Sessions of the caller's workspace, newest first.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn session_list(&self, caller: &Caller, filter: SessionFilter) -> Result<Page<Session>> {
        self.store.sessions_list(caller.workspace_id, filter).await.map_err(store_failed)
    }

    /// One session.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn session_get(&self, caller: &Caller, id: SessionId) -> Result<Session> {
        let session = self.store.session_fetch(caller.workspace_id, id).await.map_err(store_failed)?;
        session.filter(|session| session.deleted_at.is_none()).ok_or_else(session_not_found)
    }

    /// The turns of a session with what they left, oldest first.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn session_turns(&self, caller: &Caller, id: SessionId) -> Result<Vec<TurnView>> {
        let session = self.session_get(caller, id).await?;
        let turns = self.store.turns_list(id).await.map_err(store_failed)?;
        let artifacts = self.store.artifacts_of(id).await.map_err(store_failed)?;
        let of = |turn: &Turn| artifacts.iter().filter(|artifact| artifact.turn_id == turn.id).cloned().collect();
        Ok(turns
            .into_iter()
            .filter(|turn| turn.deleted_at.is_none())
            .map(|turn| TurnView { artifacts: of(&turn), session: session.clone(), turn })
            .collect())
    }

    /// Admits a cancel of whatever runs in the session; with nothing running it changes nothing and succeeds.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn session_cancel(&self, caller: &Caller, id: SessionId) -> Result<Session> {
        let session = self.session_get(caller, id).await?;
        if let Some(turn) = session.active_turn {
            self.turn_cancel(caller, turn).await?;
        }
        self.session_get(caller, id).await
    }

    /// Deletes a session: what runs is cancelled, and transcript, working directory and artifacts go. From the answer on
    /// the session is not found; the removal itself is the sweep's.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn session_delete(&self, caller: &Caller, id: SessionId) -> Result<()> {
        let active = self
            .decide(|| async {
                let mut session = self.session_get(caller, id).await?;
                let at = self.now();
                let mut changes = Changes::new();
                if let Some(turn) = session.active_turn {
                    let turn = self.store.turn_fetch(caller.workspace_id, turn).await.map_err(store_failed)?;
                    if let Some(turn) = turn {
                        let turn = turn.transition(TurnEvent::CancelRequested, at)?;
                        session.observe(&turn, at);
                        if turn.state.is_ended() {
                            // Whoever follows it is told.
                            changes = changes.event(session.event(turn.id, EventKind::TurnEnded, at));
                        }
                        changes = changes.update(turn);
                    }
                }
                let active = session.active_turn;
                session.deleted_at = Some(at);
                Ok((changes.update(session), active))
            })
            .await?;
        self.faults.point("session.deleted");
        if let Some(turn) = active {
            self.turns.cancel(turn);
        }
        self.request_sweep();
        Ok(())
    }
}
