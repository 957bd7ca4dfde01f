//! `stead run`: a command in a session, its output here, its exit status ours.

mod quote;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};
use stead_domain::ports::IdSource;
use stead_face_stead::wire::{Exit, OutputLine, Stream, Turn};

use super::Context;
use super::project::find;
use super::save::{Wanted, save};
use crate::adapters::RandomIds;
use crate::client::{
    Anything, Failure, HarnessItem, Harnesses, Response, Turns, follow_output, segment, until_answered,
};
use crate::config::parse_duration;
use crate::console::{note, print, print_bytes, print_error_bytes, printable};

/// Exit statuses, as `timeout` and shells have them.
const TIME_LIMIT: u8 = 124;
const INTERRUPTED_HERE: u8 = 130;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The project's id, slug or name; `-` for none
    project: String,
    /// The command and its arguments, each passed on as it is; `bash -c '…'` for a script
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Read this version of the project instead of the active one
    #[arg(long, value_name = "N")]
    version: Option<u32>,
    /// Continue this session: same working directory, same files
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// End the command after this long, such as 90s or 10m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    time_limit: Option<Duration>,
    /// Fetch the files that the command left beneath this directory
    #[arg(long, value_name = "DIRECTORY")]
    save: Option<PathBuf>,
    /// Remove the session with its files afterwards
    #[arg(long)]
    rm: bool,
}

/// Runs the command and returns its exit status.
pub(crate) async fn run(context: &Context, arguments: RunArgs) -> Result<u8, Failure> {
    let started = start(context, &arguments).await?;
    let session = &started.metadata.session_id;
    if !arguments.rm {
        note(&format!("session {}", printable(session)));
    }
    let status = follow(context, &started.id).await;
    let turn = context.client.get::<Turn>(&format!("/stead/v1/turns/{}", segment(&started.id))).await;
    if let Ok(turn) = &turn {
        warn(&turn.value);
    }
    if let Some(directory) = &arguments.save {
        let turn = turn?.value;
        let files: Vec<Wanted<'_>> = turn
            .artifacts
            .iter()
            .map(|artifact| Wanted { container: &turn.container_id, id: &artifact.id, path: &artifact.path })
            .collect();
        save(context, directory, &files).await?;
    }
    if arguments.rm {
        context.client.delete::<Anything>(&format!("/v1/sessions/{}", segment(session))).await?;
    }
    status
}

async fn start(context: &Context, arguments: &RunArgs) -> Result<Response, Failure> {
    let mut metadata = Map::new();
    if arguments.project != "-" {
        metadata.insert("environment".to_owned(), find(context, &arguments.project).await?.id.into());
    }
    if let Some(version) = arguments.version {
        metadata.insert("stead_version".to_owned(), version.into());
    }
    let mut body = json!({ "input": quote::command(&arguments.command), "background": true, "store": true });
    match &arguments.session {
        Some(session) => body["previous_response_id"] = latest(context, session).await?.into(),
        None => {
            metadata.insert("harness_id".to_owned(), agent(context).await?.into());
        }
    }
    if let Some(limit) = arguments.time_limit {
        body["timeout_seconds"] =
            limit.as_millis().div_ceil(1000).max(1).to_string().parse::<u64>().unwrap_or(u64::MAX).into();
    }
    body["metadata"] = Value::Object(metadata);
    let key = RandomIds.uuid_v7().to_string();
    let request = || context.client.request(Method::POST, "/v1/responses").header("idempotency-key", &key).json(&body);
    until_answered(&context.client, request).await
}

/// The newest task of a session, which the next one continues.
async fn latest(context: &Context, session: &str) -> Result<String, Failure> {
    let turns = context.client.get::<Turns>(&format!("/v1/sessions/{}/turns", segment(session))).await?;
    let newest = turns.value.turns.into_iter().last();
    newest.map(|turn| turn.id).ok_or_else(|| Failure::new("the session has no task that could be continued"))
}

/// An agent that runs commands and adds nothing of its own: an existing one, or one made for this.
async fn agent(context: &Context) -> Result<String, Failure> {
    let list = context.client.get::<Harnesses>("/v1/harnesses").await?;
    let plain =
        |agent: &&HarnessItem| agent.base == "shell" && agent.environment.is_empty() && agent.timeout_seconds.is_none();
    if let Some(agent) = list.value.harnesses.iter().find(plain) {
        return Ok(agent.id.clone());
    }
    let body = json!({ "name": "Shell", "base": "shell" });
    Ok(context.client.post_json::<HarnessItem>("/v1/harnesses", &body).await?.value.id)
}

/// Passes the output on and waits for the end. The first Ctrl-C cancels the task and waits for its end, the second does not
/// wait any more.
async fn follow(context: &Context, response: &str) -> Result<u8, Failure> {
    let json = context.console.json;
    let output = follow_output(&context.client, response, |line| pass_on(line, json));
    tokio::pin!(output);
    let mut interrupts = 0;
    let end = loop {
        tokio::select! {
            end = &mut output => break end?,
            signal = tokio::signal::ctrl_c() => {
                signal.map_err(|error| Failure::io("wait for signals", &error))?;
                interrupts += 1;
                if interrupts > 1 {
                    note("not waiting for the task to end; it is being cancelled");
                    return Ok(INTERRUPTED_HERE);
                }
                note("cancelling the task; once more not to wait for it");
                let path = format!("/v1/responses/{}/cancel", segment(response));
                context.client.post::<Anything>(&path).await?;
            }
        }
    };
    let OutputLine::End { state, exit, failure } = end else {
        return Err(Failure::new("the server ended the output without saying how the task ended"));
    };
    if let Some(failure) = &failure {
        note(&format!("the task failed: {}", printable(&failure.message)));
    }
    Ok(status(&state, exit))
}

fn pass_on(line: &OutputLine, json: bool) -> Result<(), Failure> {
    if json {
        let text =
            serde_json::to_string(line).map_err(|error| Failure::new(format!("failed to print a line: {error}")))?;
        return print(&(text + "\n"));
    }
    match line {
        OutputLine::Chunk { stream: Stream::Stdout, data, .. } => print_bytes(data),
        OutputLine::Chunk { stream: Stream::Stderr, data, .. } => {
            print_error_bytes(data);
            Ok(())
        }
        OutputLine::End { .. } => Ok(()),
    }
}

/// The command's status as a shell would give it.
fn status(state: &str, exit: Option<Exit>) -> u8 {
    match (state, exit) {
        ("budget_reached", _) => {
            note("the task reached its time limit");
            TIME_LIMIT
        }
        ("cancelled", _) => {
            note("the task was cancelled");
            INTERRUPTED_HERE
        }
        ("interrupted", _) => {
            note("the task was interrupted: the server or its host stopped; it is not run again by itself");
            1
        }
        (_, Some(Exit::Code(code))) => code as u8,
        (_, Some(Exit::Signal(signal))) => 128u8.saturating_add(signal as u8),
        ("completed", None) => 0,
        _ => 1,
    }
}

fn warn(turn: &Turn) {
    for file in &turn.excess {
        note(&format!("not kept: {}: {}", printable(&file.path), printable(&file.reason)));
    }
}
