//! The first thing a started server does: it settles what an earlier process of this machine left.
//!
//! 1. Environments that still run are adopted; every other process tree is ended, before anything is read that it might still change.
//! 2. Environments that do not run any more are stopped; their files stay.
//! 3. Turns that were handed over are taken over and driven on. Others that were given their input are interrupted, with the output
//!    that reached the disk and what their runtime has kept besides; they are never replayed.
//! 4. Builds that were running are failed as interrupted; those that waited go on waiting.
//! 5. Operations that were dispatched have an unknown outcome and are read back.
//! 6. Turns that were only admitted are driven on.

use std::collections::HashSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use stead_domain::build::{BuildEvent, BuildFailure, BuildState};
use stead_domain::changes::Changes;
use stead_domain::environment::{EnvironmentEvent, EnvironmentState};
use stead_domain::turn::{Turn, TurnState};
use stead_domain::{Code, EnvironmentId, Error, Result};
use stead_projects::layout::remove_tree;

use crate::builds::layout_failed;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::handover::HandoverNote;
use crate::operations::provider_failed;

/// How many turns are settled at once.
const AT_ONCE: usize = 16;

impl Engine {
    /// Settles what an earlier process left, then begins to work. Call it once, before serving.
    pub async fn start(&self) -> Result<()> {
        self.clear_spool().await.map_err(|error| {
            Error::new(Code::BackendUnavailable, "the data directory cannot be written").because(error)
        })?;
        self.recover().await?;
        let engine = self.clone();
        self.supervisor.spawn("sweep", async move { engine.sweep_for_ever().await });
        let engine = self.clone();
        self.supervisor.spawn("collect", async move { engine.collect_for_ever().await });
        Ok(())
    }

    async fn recover(&self) -> Result<()> {
        let environments = self.store.environments_on(&self.node).await.map_err(store_failed)?;
        let owned: Vec<_> = environments.iter().map(|environment| environment.id).collect();
        let swept = self.provider.sweep(&owned).await.map_err(provider_failed)?;
        self.faults.point("recovery.swept");
        let builds_ended = self.sandboxes.sweep_builds().await.map_err(provider_failed)?;
        for environment in environments {
            if environment.state == EnvironmentState::Ready && !swept.adopted.contains(&environment.id) {
                let found = environment.transition(EnvironmentEvent::FoundStopped, self.now())?;
                self.write_back(Changes::new().update(found)).await?;
            }
        }
        let mut interrupted = self.recover_turns(&swept.adopted.iter().copied().collect()).await?;
        let builds = self.layout.builds();
        self.blocking(move || remove_tree(&builds).map_err(layout_failed)).await?;
        for build in self.store.builds_unended(&self.node).await.map_err(store_failed)? {
            let (project, number, workspace) = (build.project_id, build.number, build.workspace_id);
            if build.state == BuildState::Running {
                let half = self.layout.version(workspace, project, number);
                self.blocking(move || remove_tree(&half).map_err(layout_failed)).await?;
                let failed = build.transition(BuildEvent::Failed(BuildFailure::interrupted()), self.now())?;
                self.write_back(Changes::new().update(failed)).await?;
                self.faults.point("recovery.build");
                interrupted += 1;
            } else {
                self.work_on_build(workspace, project, number);
            }
        }
        for operation in self.store.operations_unended(&self.node).await.map_err(store_failed)? {
            self.carry_out_in_background(operation.id);
        }
        if swept.ended + builds_ended + interrupted > 0 {
            tracing::warn!(
                trees = swept.ended + builds_ended,
                interrupted,
                "settled what an earlier server process left"
            );
        }
        self.faults.point("recovery.done");
        self.purge_deleted_projects().await?;
        self.request_sweep();
        Ok(())
    }

    /// Interrupts the turns of this process that nobody drives any more and that no other will: their hand-over was broken off by an
    /// end of everything. What fails is settled by the next start.
    pub(crate) async fn settle_left(&self) {
        let settled = async {
            for turn in self.store.turns_unended(&self.node).await.map_err(store_failed)? {
                let ours = turn.lease.is_some_and(|lease| lease.holder == self.server);
                if ours && matches!(turn.state, TurnState::InProgress | TurnState::Cancelling) {
                    self.settle_cut_off(&turn, false).await?;
                    self.remove_note(turn.id).await?;
                }
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = settled.await {
            tracing::warn!(error = %error, "the next start settles what is left");
        }
    }

    /// Takes the turns over that were handed over, and interrupts the others that had begun; says how many of these there were.
    async fn recover_turns(&self, adopted: &HashSet<EnvironmentId>) -> Result<usize> {
        let unended = self.store.turns_unended(&self.node).await.map_err(store_failed)?;
        let begun = |turn: &Turn| matches!(turn.state, TurnState::InProgress | TurnState::Cancelling);
        let turns: Vec<Turn> = unended.into_iter().filter(begun).collect();
        let notes = self.read_notes(&turns).await?;
        let interrupted = stream::iter(turns)
            .map(|turn| {
                let note = notes.get(&turn.id).cloned();
                self.recover_turn(turn, note, adopted)
            })
            .buffer_unordered(AT_ONCE)
            .try_fold(0, |sum, interrupted| async move { Ok(sum + usize::from(interrupted)) });
        interrupted.await
    }

    /// Takes a turn over, or interrupts it, which is told.
    async fn recover_turn(
        &self,
        turn: Turn,
        note: Option<HandoverNote>,
        adopted: &HashSet<EnvironmentId>,
    ) -> Result<bool> {
        let adopted = adopted.contains(&self.rows_of(turn.workspace_id, turn.id).await?.environment.id);
        if let Some(note) = note.filter(|_| adopted)
            && self.take_over_turn(&turn, note).await?
        {
            return Ok(false);
        }
        self.settle_cut_off(&turn, adopted).await?;
        self.remove_note(turn.id).await?;
        self.faults.point("recovery.turn");
        Ok(true)
    }
}
