//! The first thing a started server does: it settles what an earlier process of this machine left.
//!
//! 1. Every process tree of that process is ended, before anything is read that it might still change.
//! 2. Environments that were running are stopped; their files stay.
//! 3. Turns that were given their input are interrupted, with the output that reached the disk; they are never replayed.
//! 4. Builds that were running are failed as interrupted; those that waited go on waiting.
//! 5. Operations that were dispatched have an unknown outcome and are read back.
//! 6. Turns that were only admitted are driven on.

use stead_domain::build::{BuildEvent, BuildFailure, BuildState};
use stead_domain::changes::Changes;
use stead_domain::environment::{EnvironmentEvent, EnvironmentState};
use stead_domain::item::Item;
use stead_domain::ports::OutputStream;
use stead_domain::turn::{Turn, TurnFailure, TurnFailureKind, TurnOutcome, TurnState};
use stead_domain::{Code, Error, Result};
use stead_projects::layout::remove_tree;

use crate::builds::layout_failed;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::operations::provider_failed;

/// What a client reads on a turn that was cut short.
const INTERRUPTED: &str = "interrupted: the server stopped while the task ran";

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
        let mut interrupted = 0;
        for turn in self.store.turns_unended(&self.node).await.map_err(store_failed)? {
            if matches!(turn.state, TurnState::InProgress | TurnState::Cancelling) {
                self.interrupt(&turn).await?;
                self.faults.point("recovery.turn");
                interrupted += 1;
            }
        }
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

    /// Ends a turn whose server is gone, with the output that its log holds.
    async fn interrupt(&self, turn: &Turn) -> Result<()> {
        let mut transcript = crate::turns::transcript::Transcript::default();
        let (mut offset, mut output_bytes) = (0, 0);
        loop {
            let chunks = self.read_output(turn.id, offset).await?;
            let Some(last) = chunks.last() else { break };
            offset = last.offset;
            for chunk in &chunks {
                let stream: OutputStream = chunk.stream;
                output_bytes += chunk.bytes.len() as u64;
                transcript.push(stream, &chunk.bytes);
            }
        }
        let finished = transcript.finish();
        let outcome = TurnOutcome {
            items: vec![Item::Message { id: "msg_1".to_owned(), text: finished.text, complete: false }],
            failure: Some(TurnFailure::new(TurnFailureKind::Interrupted, INTERRUPTED)),
            output_bytes,
            omitted_bytes: finished.omitted,
            replaced_bytes: finished.replaced,
            ..TurnOutcome::default()
        };
        self.end_turn(turn.workspace_id, turn.id, TurnState::Interrupted, outcome, Changes::new()).await
    }
}
