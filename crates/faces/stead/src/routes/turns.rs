//! Turns: what became of one, and its raw output.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use stead_domain::key::Caller;
use stead_domain::limit::LimitHit;
use stead_domain::ports::OutputStream;
use stead_domain::turn::{ExitStatus, Turn, TurnFailure};
use stead_domain::{Timestamp, TurnId};
use stead_engine::{Engine, OutputChunk, TurnView};

use super::named;
use super::query::Begin;
use crate::auth::Reader;
use crate::extract::{Path, Query};
use crate::refusal::{Answer, too_many_streams};
use crate::state::FaceState;
use crate::wire;

/// How long a stream may be silent before an empty line is sent, so that nothing between takes it for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How many chunks that are there are sent at once.
const TOGETHER: usize = 2;

pub(crate) async fn get(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    Path(turn): Path<String>,
) -> Answer<Json<wire::Turn>> {
    let view = state.engine.turn_get(&caller, named::turn(&turn)?).await?;
    Ok(Json(shown(&view)))
}

/// The raw output from an offset on, as it comes; the last line says how the turn ended.
pub(crate) async fn output(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    Path(turn): Path<String>,
    Query(query): Query<Begin>,
) -> Answer<Response> {
    let from = query.offset()?;
    let id = named::turn(&turn)?;
    let chunks = state.engine.turn_output(&caller, id, from).await?;
    let place = state.streams.enter(caller.key_id).ok_or_else(too_many_streams)?;
    // What is lost with an error, a client asks for again when it resumes.
    let chunks = chunks.try_ready_chunks(TOGETHER).map(|chunks| chunks.map(chunk_lines).map_err(|error| error.1));
    let end = stream::once(end(state.engine, caller, id));
    let lines = tokio_stream::StreamExt::timeout_repeating(chunks.chain(end), heartbeat()).map(move |line| {
        // Taken for as long as the stream is there.
        let _taken = &place;
        line.unwrap_or_else(|_| Ok(Bytes::from_static(b"\n")))
    });
    let headers = [
        (CONTENT_TYPE.as_str(), "application/x-ndjson"),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// The first beat is one period away.
fn heartbeat() -> tokio::time::Interval {
    tokio::time::interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT)
}

async fn end(engine: Engine, caller: Caller, id: TurnId) -> stead_domain::Result<Bytes> {
    let view = engine.turn_wait(&caller, id).await?;
    let outcome = &view.turn.outcome;
    Ok(line(&wire::OutputLine::End {
        state: view.turn.state.as_str().to_owned(),
        exit: outcome.exit.map(exit),
        failure: outcome.failure.as_ref().map(failure),
    }))
}

fn chunk_lines(chunks: Vec<OutputChunk>) -> Bytes {
    let mut lines = Vec::with_capacity(chunks.iter().map(|chunk| chunk.bytes.len().div_ceil(3) * 4 + 128).sum());
    for chunk in chunks {
        let stream = match chunk.stream {
            OutputStream::Stdout => wire::Stream::Stdout,
            OutputStream::Stderr => wire::Stream::Stderr,
        };
        wire::OutputLine::append_chunk(&mut lines, chunk.offset, stream, &chunk.bytes);
    }
    lines.into()
}

fn line(line: &wire::OutputLine) -> Bytes {
    let mut bytes = serde_json::to_vec(line).expect("numbers and strings have a JSON form");
    bytes.push(b'\n');
    bytes.into()
}

const fn exit(status: ExitStatus) -> wire::Exit {
    match status {
        ExitStatus::Code(code) => wire::Exit::Code(code),
        ExitStatus::Signal(signal) => wire::Exit::Signal(signal),
    }
}

fn failure(failure: &TurnFailure) -> wire::TurnFailure {
    wire::TurnFailure {
        kind: failure.kind.as_str().to_owned(),
        limit: failure.limit.map(|limit| limit.as_str().to_owned()),
        message: failure.message.clone(),
    }
}

fn hit(hit: &LimitHit) -> wire::LimitHit {
    wire::LimitHit { limit: hit.limit.as_str().to_owned(), message: hit.message.clone() }
}

fn shown(view: &TurnView) -> wire::Turn {
    let Turn { id, session_id, number, state, ref outcome, reads, created_at, started_at, finished_at, .. } = view.turn;
    wire::Turn {
        id: id.to_string(),
        object: "stead.turn".to_owned(),
        response_id: id.spelled("resp"),
        session_id: session_id.to_string(),
        container_id: session_id.spelled("cntr"),
        number,
        state: state.as_str().to_owned(),
        exit: outcome.exit.map(exit),
        failure: outcome.failure.as_ref().map(failure),
        limits_hit: outcome.limits_hit.iter().map(hit).collect(),
        reads: reads.map(|pin| wire::Reads { project: pin.project_id.to_string(), version: pin.version }),
        artifacts: view
            .artifacts
            .iter()
            .map(|artifact| wire::TurnArtifact {
                id: artifact.id.to_string(),
                path: artifact.path.clone(),
                bytes: artifact.bytes,
            })
            .collect(),
        excess: outcome
            .excess
            .iter()
            .map(|file| wire::ExcessFile { path: file.path.clone(), reason: file.reason.clone() })
            .collect(),
        output_bytes: outcome.output_bytes,
        created_at: created_at.as_seconds(),
        started_at: started_at.map(Timestamp::as_seconds),
        finished_at: finished_at.map(Timestamp::as_seconds),
    }
}
