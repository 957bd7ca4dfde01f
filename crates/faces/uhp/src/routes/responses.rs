//! Tasks (UHP §7 and §8).

use std::collections::HashSet;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response as Reply;
use bytes::Bytes;
use http::{HeaderMap, header};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use stead_domain::key::Caller;
use stead_domain::session::Face;
use stead_domain::turn::{InputFile, TurnInput};
use stead_domain::{Code, Error, Result};
use stead_engine::{Engine, RetryKey, StartedTurn, TurnRequest, TurnView};
use stead_face_frame::{Operation, Parameter, Place};

use super::{Answer, Routes, json};
use crate::auth::{Reader, Runner, Writer};
use crate::errors::Failure;
use crate::input::{self, FileSource, TaskInput};
use crate::names::Names;
use crate::query::Query;
use crate::resume::Seen;
use crate::state::FaceState;
use crate::wire::event::Event;
use crate::wire::response::Response;
use crate::wire::task::{CreateResponse, Delivery, ignored_fields};
use crate::wire::{Deleted, ids};
use crate::{body, fingerprint, stream};

pub(super) fn routes() -> Routes {
    let one = "/v1/responses/{response_id}";
    let start = Operation::new("Start a task")
        .with(Parameter::header("Idempotency-Key", "the same key again gives the first request's task"))
        .with(Parameter::header("Last-Event-ID", "with a repeated stream, the id of the last event seen"))
        .takes::<CreateResponse>()
        .answers::<Response>()
        .answers_as::<Event>("text/event-stream")
        .refuses(&[404, 409, 410, 422]);
    let look = Operation::new("A task, or the stream of its events")
        .with(Parameter::query("stream", "whether its events are wanted").flag())
        .with(Parameter::query("starting_after", "the number or the id of an event; the stream goes on behind it"))
        .with(Parameter::header("Last-Event-ID", "the id of the last event seen; the stream goes on behind it"))
        .answers::<Response>()
        .answers_as::<Event>("text/event-stream")
        .refuses(&[404, 410, 429]);
    Routes::new()
        .post("/v1/responses", create, start)
        .get(one, show, look)
        .delete(one, delete, Operation::new("Forget a task").answers::<Deleted>().refuses(&[404, 409]))
        .get(
            "/v1/responses/{response_id}/input_items",
            input_items,
            Operation::new("What a task was given").answers::<InputItems>().refuses(&[404]),
        )
        .post(
            "/v1/responses/{response_id}/cancel",
            cancel,
            Operation::new("Cancel a task").answers::<Response>().refuses(&[404, 409]),
        )
}

async fn create(Runner(caller): Runner, State(state): State<FaceState>, headers: HeaderMap, body: Body) -> Answer {
    let engine = state.engine;
    let bytes = body::bytes(&headers, body, engine.limits().json_bytes).await?;
    let Asked { task, mut input, ignored_fields, fingerprint } = understand(bytes).await?;
    let (version, time_limit, network, delivery) =
        (task.version()?, task.time_limit()?, task.network()?, task.delivery());
    let seen = last_event(&headers)?;
    let retry = fingerprint::key(&headers)?.map(|key| RetryKey {
        face: Face::Uhp,
        route: "POST /v1/responses",
        key,
        fingerprint,
    });
    // Whoever would not hear of the task must not start it.
    let place = match delivery {
        Delivery::Streaming => Some(state.streams.enter(caller.key_id).ok_or_else(Failure::too_many_streams)?),
        Delivery::Blocking | Delivery::Background => None,
    };
    // Before anything that the body names is looked for, and before any file of it is kept once more.
    if let Some(retry) = &retry
        && let Some(started) = engine.turn_repeated(&caller, retry).await?
    {
        return deliver(engine, caller, started, (delivery, place, seen)).await;
    }
    let mut request = TurnRequest {
        face: Face::Uhp,
        agent_id: task.harness()?,
        previous: task.previous()?,
        project: task.environment()?,
        version,
        input: TurnInput::default(),
        time_limit,
        network,
        model: task.model.clone().filter(|model| !model.is_empty()),
        store: task.store(),
        ignored_fields,
        retry,
    };
    let files = receive(&engine, &caller, &mut input).await?;
    request.input = TurnInput {
        text: input.text,
        files,
        verbatim: Some(Value::Array(input.items)),
        instructions: guidance(task.instructions.as_deref(), &input.guidance),
    };
    let started = engine.turn_start(&caller, request).await.map_err(|error| task.refused(error))?;
    deliver(engine, caller, started, (delivery, place, seen)).await
}

/// A body, read.
struct Asked {
    task: CreateResponse,
    input: TaskInput,
    ignored_fields: Vec<String>,
    fingerprint: String,
}

/// Bodies up to this many bytes are read where they arrive; larger ones, which carry files, on a thread that may take its time.
const READ_IN_PLACE: usize = 256 << 10;

async fn understand(bytes: Bytes) -> Result<Asked> {
    if bytes.len() <= READ_IN_PLACE {
        return read(&bytes);
    }
    tokio::task::spawn_blocking(move || read(&bytes)).await.map_err(Error::internal)?
}

fn read(bytes: &[u8]) -> Result<Asked> {
    let mut task: CreateResponse = body::parse(bytes)?;
    let mut input = input::read(std::mem::take(&mut task.input))?;
    let mut ignored_fields = ignored_fields(bytes);
    ignored_fields.append(&mut input.guiding);
    Ok(Asked { task, input, ignored_fields, fingerprint: fingerprint::of(bytes) })
}

async fn deliver(
    engine: Engine,
    caller: Caller,
    started: StartedTurn,
    (delivery, place, seen): (Delivery, Option<Place>, Option<Seen>),
) -> Answer {
    let id = started.turn.id;
    if let Some(place) = place {
        // A task that was started just now has no events that anybody could have seen.
        let seen = seen.filter(|_| started.replayed);
        seen.map(|seen| seen.check(started.turn.state.is_ended())).transpose()?;
        return Ok::<Reply, _>(stream::answer(engine, caller, fresh(started), seen, place));
    }
    match delivery {
        Delivery::Blocking | Delivery::Streaming => json(Response::of(&engine.turn_await(&caller, id).await?)),
        Delivery::Background if started.replayed => json(Response::of(&engine.turn_get(&caller, id).await?)),
        Delivery::Background => json(Response::of(&fresh(started))),
    }
}

fn fresh(started: StartedTurn) -> TurnView {
    TurnView { turn: started.turn, session: started.session, artifacts: Vec::new() }
}

fn guidance(instructions: Option<&str>, messages: &[String]) -> Option<String> {
    let parts: Vec<&str> = instructions.into_iter().chain(messages.iter().map(String::as_str)).collect();
    if parts.is_empty() { None } else { Some(parts.join("\n\n")) }
}

/// Takes the files that come along: inline ones are kept like uploads, and named in the input in place of their bytes.
async fn receive(engine: &Engine, caller: &Caller, input: &mut TaskInput) -> Result<Vec<InputFile>> {
    let limit = engine.limits().upload_bytes;
    let mut files = Vec::new();
    let mut names = HashSet::new();
    for (index, given) in std::mem::take(&mut input.files).into_iter().enumerate() {
        let upload = match given.source {
            FileSource::Uploaded(id) => engine.upload_get(caller, id).await.map_err(|error| match error.code {
                Code::FileNotFound => error.at(&given.param),
                _ => error,
            })?,
            FileSource::Inline { media_type, bytes } => {
                let name = given.filename.clone().unwrap_or_else(|| input::invented_name(index + 1, &media_type));
                let spooled = body::spool_bytes(engine, &bytes, limit).await.map_err(|error| error.at(&given.param))?;
                let upload = engine.upload_create(caller, name, "user_data".to_owned(), media_type, spooled).await?;
                input.name_bytes(&given.pointer, upload.id, &upload.filename);
                upload
            }
        };
        let filename = unique(&mut names, given.filename.unwrap_or(upload.filename));
        files.push(InputFile { filename, blob: upload.blob, bytes: upload.bytes });
    }
    Ok(files)
}

/// A name that no file of the same task has: two files never land on each other.
fn unique(names: &mut HashSet<String>, name: String) -> String {
    let (stem, extension) = match name.rfind('.') {
        Some(dot) if dot > 0 => name.split_at(dot),
        _ => (name.as_str(), ""),
    };
    let mut candidate = name.clone();
    let mut number = 2;
    while !names.insert(candidate.clone()) {
        candidate = format!("{stem} ({number}){extension}");
        number += 1;
    }
    candidate
}

/// The event that a client has seen last.
fn last_event(headers: &HeaderMap) -> Result<Option<Seen>> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let seen = value.to_str().ok().and_then(Seen::parse);
    let refused = || Error::invalid("Last-Event-ID", "`Last-Event-ID` is the id of an event of this stream");
    seen.map(Some).ok_or_else(refused)
}

/// The task, or, as an extension, the stream of its events.
async fn show(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    names: Names,
    query: Query,
    headers: HeaderMap,
) -> Answer {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let streams = query
        .flag("stream")?
        .unwrap_or_else(|| accepts.into_iter().any(|value| value.to_ascii_lowercase().contains("text/event-stream")));
    let seen = match query.get("starting_after").filter(|_| streams) {
        _ if !streams => None,
        Some(text) => Some(Seen::parse(text).ok_or_else(|| {
            Error::invalid("starting_after", "`starting_after` is the number or the id of an event of this stream")
        })?),
        None => last_event(&headers)?,
    };
    let id = ids::parse_response(&names.first)?;
    let view = state.engine.turn_get(&caller, id).await?;
    if !streams {
        return json(Response::of(&view));
    }
    seen.map(|seen| seen.check(view.turn.state.is_ended())).transpose()?;
    let place = state.streams.enter(caller.key_id).ok_or_else(Failure::too_many_streams)?;
    Ok(stream::answer(state.engine, caller, view, seen, place))
}

async fn delete(Writer(caller): Writer, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_response(&names.first)?;
    state.engine.turn_delete(&caller, id).await?;
    json(Deleted::of(names.first))
}

async fn cancel(Runner(caller): Runner, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_response(&names.first)?;
    json(Response::of(&state.engine.turn_cancel(&caller, id).await?))
}

/// The answer of `GET …/input_items`.
#[derive(Debug, Serialize, JsonSchema)]
struct InputItems {
    object: &'static str,
    data: Vec<Value>,
}

async fn input_items(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_response(&names.first)?;
    let view = state.engine.turn_get(&caller, id).await?;
    let data = match view.turn.input.verbatim {
        Some(Value::Array(items)) => items,
        Some(other) => vec![other],
        None => input::read(Value::String(view.turn.input.text)).map(|input| input.items).unwrap_or_default(),
    };
    json(InputItems { object: "list", data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_task_never_land_on_each_other() {
        let mut names = HashSet::new();
        let mut next = |name: &str| unique(&mut names, name.to_owned());
        assert_eq!(
            ["a.txt", "a.txt", "a (2).txt", ".env", ".env"].map(&mut next),
            ["a.txt", "a (2).txt", "a (2) (2).txt", ".env", ".env (2)"]
        );
        assert_eq!(guidance(Some("a"), &["b".to_owned()]).as_deref(), Some("a\n\nb"));
        assert_eq!(guidance(None, &[]), None);
    }
}
