//! What goes by itself: idle sandboxes are stopped, deleted sessions are removed with everything they left, and turns that
//! nobody drives are driven. It runs when something asks for it and every few seconds, and looks only at stored state.
//!
//! The sweep itself waits for nothing but the store. Each removal and each stop has a task of its own, so that one that takes long
//! or never ends holds up no other: what it removes may be the very place that another waits for.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_domain::Result;
use stead_domain::attachment::Attachment;
use stead_domain::changes::{Changes, Removal};
use stead_domain::environment::{Environment, EnvironmentState};
use stead_domain::operation::OperationKind;
use stead_domain::session::Session;
use stead_domain::turn::{Turn, TurnState};
use stead_domain::{OperationId, SessionId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::commit::store_failed;
use crate::engine::Engine;
use crate::fair_queue::FairQueue;
use crate::hub::Topic;
use crate::operations::Ended;
use crate::waiting::Waiting;

/// How often it runs unasked.
const PERIOD: Duration = Duration::from_secs(5);

/// Deleted sessions that are removed at once.
const REMOVALS: usize = 8;

/// How long the removal of a session waits for who drives a turn of it; a later sweep tries again.
const DRIVERS: Duration = Duration::from_secs(2);

/// How long the removal of a session keeps its place among those. What it has begun goes on; a later sweep sees to the rest.
const REMOVAL_TIME: Duration = Duration::from_secs(20);

/// How long the rows of a deleted session stay for those who follow one of its turns.
const FOLLOWERS: Duration = Duration::from_secs(3);

/// Wakes the sweep, and knows what earlier ones have begun.
#[derive(Debug)]
pub(crate) struct Sweeper {
    wake: Notify,
    removals: Removals,
    places: FairQueue,
}

impl Default for Sweeper {
    fn default() -> Self {
        Self { wake: Notify::new(), removals: Removals::default(), places: FairQueue::new(REMOVALS) }
    }
}

/// The sessions that a task of this process removes.
#[derive(Debug, Clone, Default)]
struct Removals(Arc<Mutex<HashSet<SessionId>>>);

/// Held while a task removes a session.
struct Removing(Removals, SessionId);

impl Removals {
    fn enter(&self, id: SessionId) -> Option<Removing> {
        // Not `then_some`: a guard made in vain would free another's place when it is dropped.
        let entered = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        entered.then(|| Removing(self.clone(), id))
    }
}

impl Drop for Removing {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

impl Engine {
    /// Asks for a sweep soon.
    pub(crate) fn request_sweep(&self) {
        self.sweeper.wake.notify_one();
    }

    /// Sweeps until the server stops.
    pub(crate) async fn sweep_for_ever(&self) {
        let stopping = self.supervisor.stopping();
        while !stopping.is_cancelled() {
            for outcome in [self.drive_queued().await, self.remove_deleted().await, self.stop_idle().await] {
                if let Err(error) = outcome {
                    tracing::error!(error = %error, cause = ?error.cause, "a sweep failed");
                }
            }
            tokio::select! {
                () = self.sweeper.wake.notified() => {}
                () = tokio::time::sleep(PERIOD) => {}
                () = stopping.cancelled() => {}
            }
        }
    }

    async fn drive_queued(&self) -> Result<()> {
        for turn in self.store.turns_unended(&self.node).await.map_err(store_failed)? {
            if self.turns.is_driven(turn.id) {
                continue;
            }
            if turn.state == TurnState::Queued {
                if let Some(driving) = self.turns.begin(turn.id) {
                    self.drive(turn.workspace_id, driving, None);
                }
            } else if turn.lease.is_some_and(|lease| lease.holder == self.server) {
                self.settle_dropped(turn);
            }
        }
        Ok(())
    }

    /// Ends a turn that a driver of this process has dropped: a fault of ours, which must not leave the turn open for ever.
    fn settle_dropped(&self, turn: Turn) {
        let engine = self.clone();
        self.supervisor.spawn("settle a dropped turn", async move {
            let Some(_driving) = engine.turns.begin(turn.id) else { return };
            if let Err(error) = engine.settle_cut_off(&turn, true).await {
                tracing::error!(turn.id = %turn.id, error = %error, cause = ?error.cause, "a dropped turn could not be settled");
            }
        });
    }

    async fn remove_deleted(&self) -> Result<()> {
        for session in self.store.sessions_deleted(&self.node).await.map_err(store_failed)? {
            let Some(removing) = self.sweeper.removals.enter(session.id) else { continue };
            let engine = self.clone();
            self.supervisor.spawn("remove a deleted session", async move {
                let id = removing.1;
                let place = tokio::select! {
                    place = engine.sweeper.places.slot(session.workspace_id) => place,
                    () = engine.supervisor.stopping().cancelled_owned() => return,
                };
                if let Err(error) = engine.purge(session).await {
                    tracing::warn!(session.id = %id, error = %error, "removing a deleted session failed; it is tried again");
                }
                drop((place, removing));
            });
        }
        Ok(())
    }

    async fn stop_idle(&self) -> Result<()> {
        let now = self.now();
        for environment in self.store.environments_on(&self.node).await.map_err(store_failed)? {
            let idle = environment.idle_since.is_some_and(|since| now.since(since) >= self.settings.idle_stop);
            if environment.state == EnvironmentState::Ready && idle {
                tracing::info!(environment.id = %environment.id, "stopping an idle environment");
                let id = environment.id;
                match self.begin_operation(environment, OperationKind::Stop, None).await {
                    Ok(operation) => self.carry_out_in_background(operation),
                    Err(error) => {
                        tracing::warn!(environment.id = %id, error = %error, "an idle environment could not be stopped");
                    }
                }
            }
        }
        Ok(())
    }

    /// Stops every running environment of this machine, and those that a task is still making; from
    /// [`Supervisor::end`](crate::supervisor::Supervisor::end) on nobody begins another.
    pub(crate) async fn stop_environments(&self) {
        loop {
            let environments = match self.store.environments_on(&self.node).await {
                Ok(environments) => environments,
                Err(error) => {
                    tracing::warn!(error = %error, "the environments to stop cannot be listed");
                    return;
                }
            };
            let under_way = |environment: &Environment| {
                let operation = environment.operation_id.filter(|operation| self.operations.is_at(*operation));
                operation.is_some() && environment.state != EnvironmentState::Ready
            };
            let making = environments.iter().any(under_way);
            let running: Vec<_> = environments.into_iter().filter(|it| it.state == EnvironmentState::Ready).collect();
            if running.is_empty() && !making {
                return;
            }
            let stops = running.into_iter().map(|environment| self.stop_for_good(environment));
            let stopped = futures_util::future::join_all(stops).await;
            if stopped.contains(&false) {
                return;
            }
            // A row may have been newer than what was read, and what was being made may be ready by now.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Stops an environment that runs; says whether that, or something else, has become of it.
    async fn stop_for_good(&self, environment: Environment) -> bool {
        let id = environment.id;
        let stopped = async {
            let operation = self.begin_operation(environment, OperationKind::Stop, None).await?;
            // Not committed: somebody else wrote first, and the row is read again.
            if self.store.operation_fetch(operation).await.map_err(store_failed)?.is_none() {
                return Ok(());
            }
            self.carry_out(operation, &Waiting::without_end()).await.map(|_| ())
        };
        match stopped.await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(environment.id = %id, error = %error, "an environment could not be stopped");
                false
            }
        }
    }

    /// Carries an operation out in a task of its own. A creation or start is brought to where it is known whether it happened:
    /// whether it shall be tried again is for the turn to say that needs it, and without one it would take a place for nobody.
    pub(crate) fn carry_out_in_background(&self, operation: OperationId) {
        let engine = self.clone();
        self.supervisor.spawn("carry out an operation", async move {
            let waiting = match engine.store.operation_fetch(operation).await {
                // The record met a newer row and was not committed: whoever wrote that row goes on from there.
                Ok(None) => return,
                Ok(Some(row)) => match row.kind {
                    OperationKind::Create | OperationKind::Start => Waiting::for_certainty(),
                    OperationKind::Stop | OperationKind::Delete => Waiting::without_end(),
                },
                Err(error) => {
                    tracing::warn!(operation.id = %operation, error = %error, "reading an operation failed");
                    return;
                }
            };
            if let Err(error) = engine.patiently(|| engine.carry_out(operation, &waiting)).await {
                tracing::warn!(operation.id = %operation, error = %error, "carrying out an operation failed");
            }
        });
    }

    /// Removes what a deleted session left, once nobody drives a turn of it: first the environment with its files, then raw output,
    /// then the rows. A driver whose turn was cancelled while it waited may be about to ask for what is removed here.
    async fn purge(&self, session: Session) -> Result<()> {
        let turns = self.store.turns_list(session.id).await.map_err(store_failed)?;
        let until = Instant::now() + DRIVERS;
        while turns.iter().any(|turn| self.turns.is_driven(turn.id)) {
            if Instant::now() >= until {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for attachment in self.store.attachments_of(session.id).await.map_err(store_failed)? {
            if !self.remove_environment(&attachment).await? {
                return Ok(());
            }
        }
        self.faults.point("session.emptied");
        self.let_followers_go(session.id).await;
        for turn in turns {
            self.remove_output(turn.id).await?;
        }
        if !self.remove_all(Removal::Events(session.id)).await? {
            return Ok(());
        }
        self.write_back(Changes::new().remove(Removal::Session(session.id))).await?;
        self.faults.point("session.purged");
        Ok(())
    }

    /// Gives those who follow a turn of a deleted session a moment to read how it ended.
    async fn let_followers_go(&self, session: SessionId) {
        let until = Instant::now() + FOLLOWERS;
        while self.hub.is_heard(Topic::Session(session)) && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether the environment of a deleted session is gone; begins to delete it when it is not.
    async fn remove_environment(&self, attachment: &Attachment) -> Result<bool> {
        let waiting = Waiting::at_most(REMOVAL_TIME);
        // What was under way is settled, and then deleted; once more where somebody else wrote first.
        for _ in 0..4 {
            let environment = self.store.environment_fetch(attachment.environment_id).await.map_err(store_failed)?;
            let environment: Environment = match environment {
                None => return Ok(true),
                Some(environment) if environment.state == EnvironmentState::Deleted => return Ok(true),
                Some(environment) => environment,
            };
            let open = environment.operation_id.filter(|_| !environment.is_settled());
            let (deletion, operation) = match open {
                Some(open) => (environment.state == EnvironmentState::Deleting, open),
                None => (true, self.begin_operation(environment, OperationKind::Delete, None).await?),
            };
            if self.store.operation_fetch(operation).await.map_err(store_failed)?.is_none() {
                continue;
            }
            let ended = match deletion {
                true => self.carry_out(operation, &waiting).await?,
                false => self.carry_out(operation, &waiting.giving_up()).await?,
            };
            match ended {
                Ended::NotYet(_) => return Ok(false),
                Ended::Failed(_) if deletion => return Ok(false),
                Ended::Done | Ended::Failed(_) => {}
            }
        }
        Ok(false)
    }
}
