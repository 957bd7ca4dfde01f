//! `stead run`: a command in a session, its output here, its exit status ours.

mod input;
mod quote;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::Method;
use serde::Serialize;
use serde_json::{Map, Value, json};
use stead_domain::ports::IdSource;
use stead_face_stead::wire::{Exit, OutputLine, Stream, Turn};
use tokio::signal::unix::{SignalKind, signal};

use super::Context;
use super::network::SessionNetwork;
use super::project::find;
use super::save::{Wanted, save};
use crate::adapters::RandomIds;
use crate::cli::parse_seconds;
use crate::client::{
    Anything, Directory, Environment, Failure, HarnessItem, Harnesses, OF_STEAD, Response, Turns, follow_output,
    segment, until_answered,
};
use crate::console::{note, print, print_bytes, print_error_bytes, printable};

const EXPLAINED: &str = "Standard input is not passed on. The exit status is the command's own, 128 and the signal's number \
when a signal ended it, 124 when it reached its time limit, 130 when it was cancelled, and 125 when Stead itself failed. \
Ctrl-C cancels the task, and so does SIGTERM.";

/// Exit statuses, as `timeout` and shells have them.
const TIME_LIMIT: u8 = 124;
const INTERRUPTED_HERE: u8 = 130;

/// The word for the version that new sessions read.
const ACTIVE: &str = "active";

#[derive(Debug, Args)]
#[command(after_help = EXPLAINED)]
pub(crate) struct RunArgs {
    /// The project's id, slug or name; `-` for none
    project: String,
    /// The command and its arguments, each passed on as it is; `bash -c '…'` for a script
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Read this version of the project, a number or `active`, instead of the active one or what the session read so
    /// far; a continued session stays at it from then on
    #[arg(long, value_name = "N|active", value_parser = Version::parse)]
    version: Option<Version>,
    /// Continue this session: same working directory, same files
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// End the command after this long, such as 90s or 10m; a bare number is seconds. The server's own limit, an hour unless it is
    /// configured otherwise, is the most
    #[arg(long, value_name = "DURATION", value_parser = parse_seconds)]
    time_limit: Option<Duration>,
    #[command(flatten)]
    network: SessionNetwork,
    /// Fetch the files that the command left beneath this directory
    #[arg(long, value_name = "DIRECTORY")]
    save: Option<PathBuf>,
    /// Remove the session afterwards, with its output and files; what --save fetched stays
    #[arg(long)]
    rm: bool,
}

/// A version of a project, as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Version {
    Number(u32),
    #[serde(serialize_with = "active")]
    Active,
}

impl Version {
    fn parse(text: &str) -> Result<Self, String> {
        let number = || text.parse().map(Self::Number);
        if text == ACTIVE { Ok(Self::Active) } else { number().map_err(|_| "neither a number nor `active`".to_owned()) }
    }
}

fn active<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(ACTIVE)
}

/// Runs the command and returns its exit status.
pub(crate) async fn run(context: &Context, arguments: RunArgs) -> Result<u8, Failure> {
    // Found out now and not when the work is done.
    let network = arguments.network.asked()?;
    arguments.save.as_deref().map(Directory::prepare).transpose()?;
    let started = start(context, &arguments, network).await.map_err(needs_verbs)?;
    if input::is_waiting() {
        note("standard input is not passed on: the command reads nothing; put a file into the project instead");
    }
    let session = &started.metadata.session_id;
    if context.console.json {
        print(&format!("{}\n", json!({ "session": session, "turn": started.id })))?;
    } else if !arguments.rm {
        note(&format!("session {}", printable(session)));
    }
    let status = match follow(context, &started.id).await {
        Ok(status) => status,
        Err(failure) => return Err(given_up(context, &started, &arguments, failure).await),
    };
    let lost = |failure: Failure| lost(failure, session);
    let turn = context.client.get::<Turn>(&format!("/stead/v1/turns/{}", segment(&started.id))).await.map_err(lost)?;
    let turn = turn.value;
    warn(&turn);
    if let Some(directory) = &arguments.save {
        let files: Vec<Wanted<'_>> = turn
            .artifacts
            .iter()
            .map(|artifact| Wanted { container: &turn.container_id, id: &artifact.id, path: &artifact.path })
            .collect();
        save(context, directory, &files).await.map_err(|failure| failure.of_run(Some(session)))?;
        if context.console.json {
            print(&format!("{}\n", json!({ "artifacts": turn.artifacts })))?;
        }
        if !turn.excess.is_empty() {
            return Err(not_all(session));
        }
    }
    if arguments.rm {
        context.client.delete::<Anything>(&format!("/v1/sessions/{}", segment(session))).await.map_err(lost)?;
    }
    Ok(status)
}

/// Looking a project up, reading output and fetching files are reading.
fn needs_verbs(failure: Failure) -> Failure {
    let scope = matches!(failure.code(), "insufficient_scope" | "scope_insufficient");
    if !scope || failure.message().contains("`write`") {
        return failure;
    }
    failure.hint(
        "`stead run` needs a key with the verbs `run` and `read`, as it looks the project up and reads the output: \
         `stead key create NAME --verb run,read`, with an admin key",
    )
}

/// Files that were to be fetched were not kept. The session stays, as it holds the only copy.
fn not_all(session: &str) -> Failure {
    let session_shown = printable(session);
    let message = "not every file that the command left was kept, so that not all of them could be fetched";
    let hint = format!(
        "the working directory still has what the command left: `stead run - --session {session_shown} -- COMMAND…` gets at it"
    );
    Failure::new(message).hint(hint).of_run(Some(session))
}

/// What becomes of the task when its output cannot be followed to its end.
async fn given_up(context: &Context, started: &Response, arguments: &RunArgs, failure: Failure) -> Failure {
    let session = &started.metadata.session_id;
    if !failure.is_silent() {
        return lost(failure, session);
    }
    // Nobody reads the output any more, as when a local command is ended by its broken pipe. When this does not reach the
    // server, nobody is there to be told.
    let path = format!("/v1/responses/{}/cancel", segment(&started.id));
    let _ = context.client.post::<Anything>(&path).await;
    if arguments.rm {
        let _ = context.client.delete::<Anything>(&format!("/v1/sessions/{}", segment(session))).await;
    }
    failure
}

fn lost(failure: Failure, session: &str) -> Failure {
    let session_shown = printable(session);
    let failure = if failure.may_pass() && !failure.has_answer() {
        let message = format!("the server went away during the task: {}", failure.message());
        failure.said(message).hint(format!(
            "the task belongs to session {session_shown}; once the server is back, `stead session show {session_shown}` says what became of it"
        ))
    } else {
        failure.hint(format!("`stead session show {session_shown}` says what became of the task"))
    };
    failure.of_run(Some(session))
}

async fn start(context: &Context, arguments: &RunArgs, network: Option<Value>) -> Result<Response, Failure> {
    let mut metadata = Map::new();
    let project = match arguments.project.as_str() {
        "-" => None,
        wanted => Some(find(context, wanted).await?),
    };
    // Saying nothing would be what the session has read so far; an empty name is none.
    let named = project.as_ref().map(|project| project.id.clone()).unwrap_or_default();
    metadata.insert("environment".to_owned(), named.into());
    if let Some(version) = arguments.version {
        metadata.insert("stead_version".to_owned(), json!(version));
    }
    if let Some(network) = network {
        metadata.insert("stead_network".to_owned(), network);
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
    let started = until_answered(&context.client, request).await;
    started.map_err(|failure| match &project {
        Some(project) => unreadable(failure, project, arguments),
        None => failure,
    })
}

/// Why nothing can read the project.
fn unreadable(failure: Failure, project: &Environment, arguments: &RunArgs) -> Failure {
    let slug = &project.slug;
    if !matches!(failure.code(), "environment_not_ready" | "project_not_ready") {
        return failure.about(slug);
    }
    if let (Some(session), None, Some(active)) = (&arguments.session, arguments.version, project.version) {
        let message = failure.message().replace("the project", slug);
        // What follows says in the protocol's words what the hint says in these.
        let message = message.split_once("; ").map_or(message.as_str(), |(message, _)| message).to_owned();
        return failure.said(message).hint(format!(
            "the session goes on with the version it read before; `stead run {slug} --session {} --version active -- …` moves \
             it for good, now to version {active}, and `--version N` to another",
            printable(session)
        ));
    }
    if arguments.version.is_some() || project.version.is_some() {
        let message = failure.message().replace("the project", slug);
        return failure.said(message).about(slug);
    }
    let hint = match project.build.as_ref().map(|build| build.status.as_str()) {
        Some("building") => format!("its first build is running: stead project log {slug}"),
        Some("failed") => {
            format!(
                "its latest build failed, `stead project log {slug}` says why; then build it again: stead project build {slug}"
            )
        }
        _ => format!("build it first: stead project build {slug}"),
    };
    failure.said(format!("{slug} has no version yet that could be read")).hint(hint)
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
    let plain = |agent: &&HarnessItem| {
        let bare = agent.environment.is_empty() && agent.timeout_seconds.is_none() && agent.stead_network.is_none();
        agent.base == "shell" && bare
    };
    if let Some(agent) = list.value.harnesses.iter().find(plain) {
        return Ok(agent.id.clone());
    }
    let body = json!({ "name": "Shell", "base": "shell" });
    let made = context.client.post_json::<HarnessItem>("/v1/harnesses", &body).await;
    Ok(made
        .map_err(|failure| failure.hint("the server has no plain shell agent; a key with `write` makes one"))?
        .value
        .id)
}

/// Passes the output on and waits for the end. The first Ctrl-C or SIGTERM cancels the task and waits for its end, the second does
/// not wait any more.
async fn follow(context: &Context, response: &str) -> Result<u8, Failure> {
    let json = context.console.json;
    let output = follow_output(&context.client, response, |line| pass_on(line, json));
    tokio::pin!(output);
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| Failure::io("wait for signals", &error))?;
    let mut interrupts = 0;
    let end = loop {
        tokio::select! {
            end = &mut output => break end?,
            signal = async {
                tokio::select! {
                    signal = tokio::signal::ctrl_c() => signal,
                    _ = terminate.recv() => Ok(()),
                }
            } => {
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
    match &failure {
        Some(failure) if state == "budget_reached" => note(&printable(&failure.message)),
        Some(failure) => note(&format!("the task failed: {}", printable(&failure.message))),
        None => {}
    }
    Ok(status(&state, exit))
}

/// Prints a line of a task's output: its bytes to the stream they were written to, or all of it as JSON.
pub(crate) fn pass_on(line: &OutputLine, json: bool) -> Result<(), Failure> {
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
        ("budget_reached", _) => TIME_LIMIT,
        ("cancelled", _) => {
            note("the task was cancelled");
            INTERRUPTED_HERE
        }
        ("interrupted", _) => {
            note("the task was interrupted: the server or its host stopped; it is not run again by itself");
            OF_STEAD
        }
        (_, Some(Exit::Code(code))) => code as u8,
        (_, Some(Exit::Signal(signal))) => 128u8.saturating_add(signal as u8),
        ("completed", None) => 0,
        _ => OF_STEAD,
    }
}

fn warn(turn: &Turn) {
    for hit in &turn.limits_hit {
        note(&format!("on the way {}", printable(&hit.message)));
    }
    for file in &turn.excess {
        note(&format!("not kept: {}: {}", printable(&file.path), printable(&file.reason)));
    }
}
