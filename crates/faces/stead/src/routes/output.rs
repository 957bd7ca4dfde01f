//! A turn's raw output as it comes, in the form that the client accepts: [lines](wire::OutputLine), or [frames](wire::OUTPUT_FRAMES)
//! of bytes.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::HeaderMap;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, VARY};
use stead_domain::TurnId;
use stead_domain::key::Caller;
use stead_domain::ports::OutputStream;
use stead_engine::{Engine, OutputRecords};

use super::query::Begin;
use super::{named, turns};
use crate::auth::Reader;
use crate::extract::{Path, Query};
use crate::refusal::{Answer, too_many_streams};
use crate::state::FaceState;
use crate::wire;

/// How long a stream may be silent before it is shown not to be dead, for those between.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Frames,
}

impl Form {
    /// Frames for whoever names them, lines for everybody else.
    fn accepted(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        let mut media = values.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next());
        match media.any(|media| media.trim().eq_ignore_ascii_case(wire::OUTPUT_FRAMES)) {
            true => Self::Frames,
            false => Self::Lines,
        }
    }

    const fn media(self) -> &'static str {
        match self {
            Self::Lines => wire::OUTPUT_LINES,
            Self::Frames => wire::OUTPUT_FRAMES,
        }
    }

    const fn heartbeat(self) -> &'static [u8] {
        match self {
            Self::Lines => b"\n",
            Self::Frames => wire::HEARTBEAT,
        }
    }

    /// The log's records are frames already.
    fn records(self, records: OutputRecords) -> Bytes {
        match self {
            Self::Lines => lines(&records),
            Self::Frames => records.bytes,
        }
    }

    fn end(self, end: &wire::OutputLine) -> Bytes {
        match self {
            Self::Lines => {
                let mut line = serde_json::to_vec(end).expect("numbers and strings have a JSON form");
                line.push(b'\n');
                line.into()
            }
            Self::Frames => wire::end_frame(end).into(),
        }
    }
}

/// From an offset on; the last line or frame says how the turn ended.
pub(crate) async fn get(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    Path(turn): Path<String>,
    Query(query): Query<Begin>,
    headers: HeaderMap,
) -> Answer<Response> {
    let from = query.offset()?;
    let id = named::turn(&turn)?;
    let form = Form::accepted(&headers);
    let records = state.engine.turn_output(&caller, id, from).await?;
    let place = state.streams.enter(caller.key_id).ok_or_else(too_many_streams)?;
    let said = records.map_ok(move |records| form.records(records));
    let whole = said.chain(stream::once(end(state.engine, caller, id, form)));
    let body = tokio_stream::StreamExt::timeout_repeating(whole, heartbeat()).map(move |bytes| {
        // Taken for as long as the stream is there.
        let _taken = &place;
        bytes.unwrap_or_else(|_| Ok(Bytes::from_static(form.heartbeat())))
    });
    let headers = [
        (CONTENT_TYPE.as_str(), form.media()),
        (VARY.as_str(), "accept"),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// The first beat is one period away.
fn heartbeat() -> tokio::time::Interval {
    tokio::time::interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT)
}

async fn end(engine: Engine, caller: Caller, id: TurnId, form: Form) -> stead_domain::Result<Bytes> {
    let view = engine.turn_wait(&caller, id).await?;
    let outcome = &view.turn.outcome;
    Ok(form.end(&wire::OutputLine::End {
        state: view.turn.state.as_str().to_owned(),
        exit: outcome.exit.map(turns::exit),
        failure: outcome.failure.as_ref().map(turns::failure),
    }))
}

fn lines(records: &OutputRecords) -> Bytes {
    let chunks = records.chunks();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_for_whoever_names_them() {
        for (accept, form) in [
            ("", Form::Lines),
            ("*/*", Form::Lines),
            ("application/x-ndjson, */*;q=0.1", Form::Lines),
            ("application/vnd.stead.output", Form::Frames),
            ("text/html;q=0.1 , Application/Vnd.Stead.Output;q=1", Form::Frames),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(Form::accepted(&headers), form, "{accept}");
        }
        assert_eq!(Form::accepted(&HeaderMap::new()), Form::Lines);
    }
}
