//! The `shell` harness: the turn's input is a bash script, and its message is what the script says.

use std::collections::BTreeMap;
use std::sync::Arc;

use stead_domain::attachment::Attachment;
use stead_domain::changes::Changes;
use stead_domain::environment::{EnvironmentState, HOME, PROXY, USER, WORKSPACE};
use stead_domain::event::EventKind;
use stead_domain::item::Item;
use stead_domain::lease::Lease;
use stead_domain::network::NetworkPolicy;
use stead_domain::ports::{Exec, ExecEvent, ExecExit, ExecRequest, Program, Runtime, RuntimeError};
use stead_domain::turn::{Turn, TurnEvent, TurnOutcome, TurnState};
use stead_domain::{Code, EnvironmentId, Error, Result};
use stead_projects::environment::SYSTEM_PATH;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Driving;
use super::artifacts::{Baseline, Collected, baseline};
use super::output::OutputLog;
use super::pace::Pace;
use super::transcript::Transcript;
use super::verdict::{Budget, exit_status, has_failed, judge, judge_lost};
use crate::builds::layout_failed;
use crate::commit::blobs_failed;
use crate::engine::Engine;
use crate::hub::Topic;
use crate::operations::provider_failed;

/// The one message of a shell turn.
const ITEM: &str = "msg_1";

/// The certificates that an environment trusts, at the place where its own `/etc` has them.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

fn message(text: String, complete: bool) -> Item {
    Item::Message { id: ITEM.to_owned(), text, complete }
}

/// The environment variables of an agent's shell without a project.
fn base_env(network: &NetworkPolicy) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = [
        ("PATH", SYSTEM_PATH),
        ("HOME", HOME),
        ("USER", USER),
        ("LOGNAME", USER),
        ("SHELL", "/bin/bash"),
        ("PWD", WORKSPACE),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
        ("SSL_CERT_FILE", CERTIFICATES),
        ("REQUESTS_CA_BUNDLE", CERTIFICATES),
        ("NODE_EXTRA_CA_CERTS", CERTIFICATES),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    if *network != NetworkPolicy::Disabled {
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            env.insert(name.to_owned(), PROXY.to_owned());
        }
        for name in ["NO_PROXY", "no_proxy"] {
            env.insert(name.to_owned(), "localhost,127.0.0.1,::1".to_owned());
        }
    }
    env
}

/// What became of a promotion.
enum Promotion {
    Done,
    TurnEnded,
    EnvironmentLeft,
}

/// What a running script has come to so far.
struct Run {
    log: OutputLog,
    transcript: Transcript,
    /// Text that readers have not seen.
    unseen: String,
    pace: Pace,
}

impl Engine {
    /// Prepares the harness, promotes the turn, runs the script and commits what came of it. False when the environment was
    /// stopped before the promotion, so that it has to be made ready once more.
    pub(crate) async fn run(&self, turn: &Turn, attachment: &Attachment, driving: &Driving<'_>) -> Result<bool> {
        let runtime = self.provider.link(attachment.environment_id).await.map_err(provider_failed)?;
        self.place_inputs(runtime.as_ref(), turn).await?;
        let before = match turn.number == 1 && turn.input.files.is_empty() {
            true => Baseline::new(),
            false => baseline(runtime.as_ref()).await.map_err(lost)?,
        };
        let request = self.request(turn).await?;
        match self.promote(turn, attachment).await? {
            Promotion::Done => {}
            Promotion::TurnEnded => return Ok(true),
            Promotion::EnvironmentLeft => return Ok(false),
        }
        self.faults.point("turn.promoted");
        if turn.number > 1 || !turn.input.files.is_empty() {
            // What an earlier turn left or ran into is not this one's.
            self.provider.limits_noted(attachment.environment_id).await;
        }
        let run = Run {
            log: self.output_log(turn.id),
            transcript: Transcript::default(),
            unseen: String::new(),
            pace: Pace::default(),
        };
        let (run, end) = self.watch(turn, runtime.as_ref(), request, run, &driving.cancel).await?;
        self.faults.point("turn.ran");
        self.settle_turn(turn, attachment.environment_id, runtime, &before, run, end).await?;
        Ok(true)
    }

    async fn place_inputs(&self, runtime: &dyn Runtime, turn: &Turn) -> Result<()> {
        const PIECE: usize = 512 << 10;
        for file in &turn.input.files {
            let bytes = self.blobs.read(turn.workspace_id, file.blob).await.map_err(blobs_failed)?;
            let mut offset = 0;
            loop {
                let end = (offset + PIECE).min(bytes.len());
                let last = end == bytes.len();
                let piece = &bytes[offset..end];
                runtime.write_file(WORKSPACE, &file.filename, offset as u64, piece, last).await.map_err(lost)?;
                if last {
                    break;
                }
                offset = end;
            }
        }
        Ok(())
    }

    async fn request(&self, turn: &Turn) -> Result<ExecRequest> {
        let mut env = base_env(&turn.network.within(&self.settings.session_network));
        if let Some(pin) = turn.reads {
            let (project, build) = self.pinned(turn.workspace_id, pin).await?;
            let version = build.version.as_ref().ok_or_else(|| Error::new(Code::Internal, "the version is gone"))?;
            let installed = self.layout.installed(turn.workspace_id, &version.layers).map_err(layout_failed)?;
            env.extend(stead_projects::environment::session_env(&project.slug, &project.entry, installed));
        }
        let budget = self.budget(turn);
        Ok(ExecRequest {
            name: Some(turn.id.to_string()),
            program: Program::Script(turn.input.text.clone().into_bytes()),
            env,
            directory: WORKSPACE.to_owned(),
            stdin: false,
            time_limit: Some(budget.time),
            output_limit: Some(budget.output),
        })
    }

    fn budget(&self, turn: &Turn) -> Budget {
        let most = self.settings.turn_time_limit;
        let named = turn.time_limit.filter(|limit| *limit < most);
        Budget { time: named.unwrap_or(most), named: named.is_some(), output: self.settings.turn_output_bytes }
    }

    /// The commit that authorises Start.
    async fn promote(&self, turn: &Turn, attachment: &Attachment) -> Result<Promotion> {
        self.decide(|| async {
            let row = self.turn_row(turn.workspace_id, turn.id).await?;
            if row.state != TurnState::Queued {
                return Ok((Changes::new(), Promotion::TurnEnded));
            }
            let mut environment = self.environment(attachment.environment_id).await?;
            if environment.state != EnvironmentState::Ready {
                return Ok((Changes::new(), Promotion::EnvironmentLeft));
            }
            environment.idle_since = None;
            let mut session = self.session_row(&row).await?;
            let at = self.now();
            let network = row.network.within(&self.settings.session_network);
            let row = Turn { network, ..row };
            let row = row.transition(TurnEvent::Promoted(Lease::taken(self.server, at)), at)?;
            session.observe(&row, at);
            let started = session.event(row.id, EventKind::TurnStarted, at);
            let item = message(String::new(), false);
            let begun = session.event(row.id, EventKind::ItemStarted { item }, at);
            let changes = Changes::new().update(environment).update(row).update(session).event(started).event(begun);
            Ok((changes, Promotion::Done))
        })
        .await
    }

    /// Starts the script and follows it to its end.
    async fn watch(
        &self,
        turn: &Turn,
        runtime: &dyn Runtime,
        request: ExecRequest,
        mut run: Run,
        cancel: &CancellationToken,
    ) -> Result<(Run, Result<ExecExit, RuntimeError>)> {
        let mut exec: Box<dyn Exec> = match runtime.exec(request).await {
            Ok(exec) => exec,
            Err(error) => return Ok((run, Err(error))),
        };
        self.faults.point("turn.launched");
        let mut killed = false;
        loop {
            tokio::select! {
                event = exec.next() => match event {
                    Ok(ExecEvent::Output(stream, bytes)) => {
                        run.log.append(stream, &bytes).await?;
                        self.faults.point("turn.output");
                        let text = run.transcript.push(stream, &bytes);
                        run.unseen.push_str(&text);
                        run.pace.said(Instant::now());
                    }
                    Ok(ExecEvent::Exited(exit)) => return Ok((run, Ok(exit))),
                    Err(error) => return Ok((run, Err(error))),
                },
                () = run.pace.due() => {
                    run.pace.shown(Instant::now());
                    self.show(turn, std::mem::take(&mut run.unseen)).await?;
                }
                () = cancel.cancelled(), if !killed => {
                    killed = true;
                    if let Err(error) = exec.kill().await {
                        return Ok((run, Err(error)));
                    }
                }
            }
        }
    }

    /// Lets readers see more text.
    async fn show(&self, turn: &Turn, text: String) -> Result<()> {
        if text.is_empty() {
            // Output beyond the message's head is still news to whoever reads it raw.
            self.hub.wake(Topic::Session(turn.session_id));
            return Ok(());
        }
        self.decide(|| async {
            let mut session = self.session_row(turn).await?;
            let kind = EventKind::TextDelta { item_id: ITEM.to_owned(), text: text.clone() };
            let event = session.event(turn.id, kind, self.now());
            Ok((Changes::new().update(session).event(event), ()))
        })
        .await
    }

    async fn settle_turn(
        &self,
        turn: &Turn,
        environment: EnvironmentId,
        runtime: Arc<dyn Runtime>,
        before: &Baseline,
        run: Run,
        end: Result<ExecExit, RuntimeError>,
    ) -> Result<()> {
        run.log.sync().await?;
        let output_bytes = run.log.bytes;
        let finished = run.transcript.finish();
        let mut outcome = TurnOutcome {
            output_bytes,
            omitted_bytes: finished.omitted,
            replaced_bytes: finished.replaced,
            ..TurnOutcome::default()
        };
        let mut changes = Changes::new();
        let verdict = match end {
            Ok(exit) => {
                let collected = match runtime.kill_all().await {
                    // The receipt: nothing of the turn runs any more, so nothing changes under the collector's hands.
                    Ok(()) => self.collect(runtime.as_ref(), turn, before).await?,
                    Err(_) => Collected::default(),
                };
                let reached = self.provider.limits_reached(environment, has_failed(exit)).await;
                if !collected.artifacts.is_empty() {
                    self.blobs.sync().await.map_err(blobs_failed)?;
                    self.faults.point("turn.stored");
                }
                outcome.excess = collected.excess;
                for artifact in collected.artifacts {
                    changes = changes.fact(artifact);
                }
                outcome.exit = exit_status(exit);
                judge(exit, &reached, &self.budget(turn))
            }
            Err(error) => {
                tracing::warn!(turn.id = %turn.id, error = %error, "a turn lost its runtime");
                judge_lost(&self.provider.limits_reached(environment, true).await)
            }
        };
        let state = verdict.state;
        outcome.failure = verdict.failure;
        outcome.limits_hit = verdict.limits_hit;
        outcome.items = vec![message(finished.text, state == TurnState::Completed)];
        self.faults.point("turn.collected");
        self.end_turn(turn.workspace_id, turn.id, state, outcome, changes).await
    }
}

fn lost(error: RuntimeError) -> Error {
    Error::new(Code::BackendUnavailable, "the environment does not answer").because(error)
}
