//! The `shell` harness: the turn's input is a bash script, and its message is what the script says.

use std::collections::BTreeMap;
use std::sync::Arc;

use stead_domain::environment::{HOME, PROXY, USER, WORKSPACE};
use stead_domain::network::NetworkPolicy;
use stead_domain::ports::{ExecRequest, Program, Runtime, RuntimeError};
use stead_domain::turn::{Turn, TurnOutcome, TurnState};
use stead_domain::{Code, Error, Result};
use stead_projects::environment::SYSTEM_PATH;

use super::Driving;
use super::artifacts::{Baseline, baseline};
use super::follow::Followed;
use super::output::begun_message;
use super::promote::Promotion;
use super::rows::Rows;
use super::run::Run;
use super::verdict::Budget;
use crate::answers::{Asked, provider_failed};
use crate::builds::layout_failed;
use crate::commit::blobs_failed;
use crate::engine::Engine;

/// The certificates that an environment trusts, at the place where its own `/etc` has them.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

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

impl Engine {
    /// Prepares the harness, promotes the turn, runs the script and commits what came of it. The rows come back when the
    /// environment was stopped before the promotion, so that it has to be made ready once more.
    pub(super) async fn run(
        &self,
        mut rows: Box<Rows>,
        started: Option<Asked>,
        driving: &Driving,
    ) -> Result<Option<Box<Rows>>> {
        let prepared = self.prepare_script(&rows).await;
        let (runtime, request) = match prepared {
            Ok(prepared) if !self.leaves_queued() => prepared,
            prepared => {
                self.give_back(&rows, started).await?;
                return prepared.map(|_| None);
            }
        };
        // What an earlier turn left or ran into is not this one's.
        let fresh = rows.turn.number == 1 && rows.turn.input.files.is_empty();
        let environment = rows.environment.id;
        let answer = started.as_ref().map(|asked| &asked.answer);
        let before = async {
            match fresh {
                true => Ok(Baseline::new()),
                false => {
                    self.provider.limits_noted(environment).await;
                    baseline(runtime.as_ref()).await
                }
            }
        };
        let (promotion, before) = tokio::join!(self.promote(&mut rows, answer), before);
        match promotion {
            Err(error) => {
                self.give_back(&rows, started).await?;
                return Err(error);
            }
            Ok(Promotion::Done) => {}
            Ok(Promotion::TurnEnded) => return Ok(None),
            Ok(Promotion::EnvironmentLeft) => return Ok(Some(rows)),
            Ok(Promotion::Cancelled) => {
                let outcome = TurnOutcome { items: vec![begun_message()], ..TurnOutcome::default() };
                self.end_turn(&mut rows, TurnState::Cancelled, outcome, Vec::new()).await?;
                return Ok(None);
            }
        }
        drop(started);
        self.faults.point("turn.promoted");
        let run = Run::new(self.output_log(rows.turn.id));
        let exec = match &before {
            Ok(_) => runtime.exec(request).await,
            Err(error) => Err(error.clone()),
        };
        let exec = match exec {
            // Whether it began is for the runtime to say.
            Err(error @ RuntimeError::Lost(_)) => self.adopt_again(environment, rows.turn.id, 0).await.ok_or(error),
            exec => exec,
        };
        let before = before.unwrap_or_default();
        let followed = match exec {
            Ok(exec) => {
                self.faults.point("turn.launched");
                self.follow(rows, exec, run, driving).await
            }
            Err(error) => Followed::lost(self, rows, run, error),
        };
        self.faults.point("turn.ran");
        self.finish(followed, &before).await?;
        Ok(None)
    }

    /// Everything that the script needs beside its environment.
    async fn prepare_script(&self, rows: &Rows) -> Result<(Arc<dyn Runtime>, ExecRequest)> {
        let runtime = self.provider.link(rows.environment.id).await.map_err(provider_failed)?;
        self.place_inputs(runtime.as_ref(), &rows.turn).await?;
        let request = self.exec_request(rows)?;
        Ok((runtime, request))
    }

    /// Settles a start by itself that no promotion has settled.
    async fn give_back(&self, rows: &Rows, started: Option<Asked>) -> Result<()> {
        match (started, &rows.operation) {
            (Some(asked), Some(operation)) => self.settle_asked(operation.clone(), asked).await,
            _ => Ok(()),
        }
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

    fn exec_request(&self, rows: &Rows) -> Result<ExecRequest> {
        let turn = &rows.turn;
        let mut env = base_env(&turn.network.within(&self.settings.session_network));
        if let Some((project, build)) = &rows.reads {
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

    pub(super) fn budget(&self, turn: &Turn) -> Budget {
        let most = self.settings.turn_time_limit;
        let named = turn.time_limit.filter(|limit| *limit < most);
        Budget { time: named.unwrap_or(most), named: named.is_some(), output: self.settings.turn_output_bytes }
    }
}

fn lost(error: RuntimeError) -> Error {
    Error::new(Code::BackendUnavailable, "the environment does not answer").because(error)
}
