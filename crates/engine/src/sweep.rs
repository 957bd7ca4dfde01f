//! What goes by itself: idle sandboxes are stopped, deleted sessions are removed with everything they left, and turns that
//! nobody drives are driven. It runs when something asks for it and every few seconds, and looks only at stored state.

use std::time::Duration;

use stead_domain::Result;
use stead_domain::attachment::Attachment;
use stead_domain::changes::{Changes, Removal};
use stead_domain::environment::{Environment, EnvironmentState};
use stead_domain::operation::OperationKind;
use stead_domain::session::Session;
use stead_domain::turn::TurnState;
use tokio::sync::Notify;

use crate::commit::store_failed;
use crate::engine::Engine;

/// How often it runs unasked.
const PERIOD: Duration = Duration::from_secs(5);

/// Wakes the sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweeper(Notify);

impl Engine {
    /// Asks for a sweep soon.
    pub(crate) fn request_sweep(&self) {
        self.sweeper.0.notify_one();
    }

    /// Sweeps until the server stops.
    pub(crate) async fn sweep_for_ever(&self) {
        let stopping = self.supervisor.stopping();
        while !stopping.is_cancelled() {
            if let Err(error) = self.sweep().await {
                tracing::error!(error = %error, cause = ?error.cause, "a sweep failed");
            }
            tokio::select! {
                () = self.sweeper.0.notified() => {}
                () = tokio::time::sleep(PERIOD) => {}
                () = stopping.cancelled() => {}
            }
        }
    }

    async fn sweep(&self) -> Result<()> {
        for turn in self.store.turns_unended(&self.node).await.map_err(store_failed)? {
            if turn.state == TurnState::Queued && !self.turns.is_driven(turn.id) {
                self.drive(turn.workspace_id, turn.id);
            }
        }
        for session in self.store.sessions_deleted(&self.node).await.map_err(store_failed)? {
            let id = session.id;
            if let Err(error) = self.purge(session).await {
                tracing::warn!(session.id = %id, error = %error, "removing a deleted session failed; it is tried again");
            }
        }
        self.stop_idle().await
    }

    async fn stop_idle(&self) -> Result<()> {
        let now = self.now();
        for environment in self.store.environments_on(&self.node).await.map_err(store_failed)? {
            let idle = environment.idle_since.is_some_and(|since| now.since(since) >= self.settings.idle_stop);
            if environment.state == EnvironmentState::Ready && idle {
                tracing::info!(environment.id = %environment.id, "stopping an idle environment");
                let operation = self.begin_operation(environment, OperationKind::Stop, None).await?;
                self.carry_out_in_background(operation);
            }
        }
        Ok(())
    }

    /// Stops every running environment of this machine.
    pub(crate) async fn stop_environments(&self) {
        let environments = match self.store.environments_on(&self.node).await {
            Ok(environments) => environments,
            Err(error) => {
                tracing::warn!(error = %error, "the environments to stop cannot be listed");
                return;
            }
        };
        let stops = environments.into_iter().filter(|environment| environment.state == EnvironmentState::Ready).map(
            |environment| async move {
                let id = environment.id;
                let stopped = match self.begin_operation(environment, OperationKind::Stop, None).await {
                    Ok(operation) => self.carry_out(operation).await.map(|_| ()),
                    Err(error) => Err(error),
                };
                if let Err(error) = stopped {
                    tracing::warn!(environment.id = %id, error = %error, "an environment could not be stopped");
                }
            },
        );
        futures_util::future::join_all(stops).await;
    }

    pub(crate) fn carry_out_in_background(&self, operation: stead_domain::OperationId) {
        let engine = self.clone();
        self.supervisor.spawn("carry out an operation", async move {
            match engine.store.operation_fetch(operation).await {
                // The record met a newer row and was not committed: whoever wrote that row goes on from there.
                Ok(None) => {}
                Ok(Some(_)) => {
                    if let Err(error) = engine.carry_out(operation).await {
                        tracing::warn!(operation.id = %operation, error = %error, "carrying out an operation failed");
                    }
                }
                Err(error) => tracing::warn!(operation.id = %operation, error = %error, "reading an operation failed"),
            }
        });
    }

    /// Removes what a deleted session left, once nothing runs in it: first the environment with its files, then raw output,
    /// then the rows.
    async fn purge(&self, session: Session) -> Result<()> {
        if session.active_turn.is_some_and(|turn| self.turns.is_driven(turn)) {
            return Ok(());
        }
        for attachment in self.store.attachments_of(session.id).await.map_err(store_failed)? {
            if !self.remove_environment(&attachment).await? {
                return Ok(());
            }
        }
        for turn in self.store.turns_list(session.id).await.map_err(store_failed)? {
            self.remove_output(turn.id).await?;
        }
        self.write_back(Changes::new().remove(Removal::Session(session.id))).await
    }

    /// Whether the environment of a deleted session is gone; begins to delete it when it is not.
    async fn remove_environment(&self, attachment: &Attachment) -> Result<bool> {
        let environment = self.store.environment_fetch(attachment.environment_id).await.map_err(store_failed)?;
        let environment: Environment = match environment {
            None => return Ok(true),
            Some(environment) if environment.state == EnvironmentState::Deleted => return Ok(true),
            Some(environment) => environment,
        };
        let operation = match environment.operation_id {
            Some(open) if !environment.is_settled() => open,
            _ => self.begin_operation(environment, OperationKind::Delete, None).await?,
        };
        if self.store.operation_fetch(operation).await.map_err(store_failed)?.is_some() {
            self.carry_out(operation).await?;
        }
        let after = self.store.environment_fetch(attachment.environment_id).await.map_err(store_failed)?;
        Ok(after.is_none_or(|environment| environment.state == EnvironmentState::Deleted))
    }
}
