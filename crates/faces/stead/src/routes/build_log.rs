//! A build's log, live: as plain text, or as server-sent events for those who ask for them.
//!
//! Events: `log` (`{offset, text}`, and `omitted` where something before it was not kept; its id is the offset after it),
//! `build` (the build, whenever its state or stage has changed) and `end` (the build as it ended, last). A reader that comes back
//! with `Last-Event-ID`, or with `?from=`, goes on where it was.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::HeaderMap;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use serde::Serialize;
use stead_domain::key::Caller;
use stead_domain::{Error, ProjectId, Result};
use stead_engine::{Engine, LogPart};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::builds::{Named, shown};
use super::named;
use super::query::Begin;
use crate::auth::Reader;
use crate::extract::{Path, Query};
use crate::refusal::{Answer, too_many_streams};
use crate::state::FaceState;
use crate::wire;

/// How long a stream of events may be silent.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often it is looked whether a silent build has gone on to another stage.
const LOOK: Duration = Duration::from_secs(1);
/// Events that wait for a slow reader.
const WAITING: usize = 8;

#[derive(Serialize)]
struct LogEvent {
    offset: u64,
    #[serde(skip_serializing_if = "is_zero")]
    omitted: u64,
    text: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The log from an offset on, as it grows; the body ends when the build has ended. A body that is cut before that ends
/// without its last chunk, which an HTTP client reports.
pub(crate) async fn log(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    Path((project, number)): Named,
    Query(query): Query<Begin>,
    headers: HeaderMap,
) -> Answer<Response> {
    let (project, number) = (named::project(&project)?, named::build(&number)?);
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepts.into_iter().any(|value| value.contains("text/event-stream")) {
        let from = last_event(&headers)?.map_or_else(|| query.offset(), Ok)?;
        return events(state, caller, (project, number), from).await;
    }
    let from = query.offset()?;
    let log = state.engine.build_follow(&caller, project, number, from).await?;
    let place = state.streams.enter(caller.key_id).ok_or_else(too_many_streams)?;
    let parts = log.map(move |part| {
        // Taken for as long as the stream is there.
        let _taken = &place;
        part.map(plain)
    });
    let headers = [
        (CONTENT_TYPE.as_str(), "text/plain; charset=utf-8"),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    let offset = [(wire::LOG_OFFSET, from.to_string())];
    Ok((headers, offset, Body::from_stream(parts)).into_response())
}

fn last_event(headers: &HeaderMap) -> Result<Option<u64>> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| Error::invalid("Last-Event-ID", "`Last-Event-ID` is the id of an event of this log"))
}

/// A part as text, with a line for what is left out.
fn plain(part: LogPart) -> Bytes {
    if part.omitted == 0 {
        return part.bytes;
    }
    let notice = format!("\n[... {} bytes left out ...]\n", part.omitted);
    [notice.as_bytes(), &part.bytes].concat().into()
}

async fn events(state: FaceState, caller: Caller, (project, number): (ProjectId, u32), from: u64) -> Answer<Response> {
    let engine = state.engine;
    // Refused before the stream begins.
    engine.build_get(&caller, project, number).await?;
    let place = state.streams.enter(caller.key_id).ok_or_else(too_many_streams)?;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let closed = sender.clone();
        let feed = Feed { engine, caller, project, number, sender };
        tokio::select! {
            () = closed.closed() => {}
            said = feed.run(from) => if let Err(error) = said {
                tracing::warn!(code = error.code.as_str(), "the log of a build broke off in a stream");
            }
        }
        drop(place);
    });
    let frames = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("keep-alive");
    let mut response = Sse::new(frames).keep_alive(keep_alive).into_response();
    response.headers_mut().insert("x-accel-buffering", http::HeaderValue::from_static("no"));
    Ok(response)
}

struct Feed {
    engine: Engine,
    caller: Caller,
    project: ProjectId,
    number: u32,
    sender: mpsc::Sender<Event>,
}

impl Feed {
    async fn run(&self, from: u64) -> Result<()> {
        let mut log = self.engine.build_follow(&self.caller, self.project, self.number, from).await?;
        let mut text = Text::default();
        let mut last = None;
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                part = log.next() => match part {
                    Some(part) => {
                        self.build(&mut last).await?;
                        if let Some((event, after)) = text.take(part?) {
                            self.send("log", Some(after), &event).await;
                        }
                    }
                    None => break,
                },
                _ = look.tick() => self.build(&mut last).await?,
            }
        }
        if let Some((event, after)) = text.rest() {
            self.send("log", Some(after), &event).await;
        }
        let ended = shown(&self.engine.build_get(&self.caller, self.project, self.number).await?);
        self.send("end", None, &ended).await;
        Ok(())
    }

    /// Tells of the build when it stands elsewhere than before.
    async fn build(&self, last: &mut Option<wire::Build>) -> Result<()> {
        let build = shown(&self.engine.build_get(&self.caller, self.project, self.number).await?);
        if !build.is_ended() && last.as_ref() != Some(&build) {
            self.send("build", None, &build).await;
            *last = Some(build);
        }
        Ok(())
    }

    async fn send(&self, kind: &str, id: Option<u64>, body: &impl Serialize) {
        let mut event = Event::default().event(kind);
        if let Some(id) = id {
            event = event.id(id.to_string());
        }
        // What cannot be sent has no reader any more, and the task that feeds it ends.
        if let Ok(event) = event.json_data(body) {
            let _ = self.sender.send(event).await;
        }
    }
}

/// Cuts bytes into texts, never inside a character.
#[derive(Default)]
struct Text {
    offset: u64,
    begun: Vec<u8>,
}

impl Text {
    fn take(&mut self, part: LogPart) -> Option<(LogEvent, u64)> {
        if self.begun.is_empty() || part.omitted > 0 {
            self.offset = part.offset;
            self.begun.clear();
        }
        self.begun.extend_from_slice(&part.bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // What is no text at all becomes replacement characters.
            _ => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let event = self.event(part.omitted);
        self.begun = rest;
        event
    }

    fn rest(&mut self) -> Option<(LogEvent, u64)> {
        self.event(0)
    }

    fn event(&mut self, omitted: u64) -> Option<(LogEvent, u64)> {
        if self.begun.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.begun);
        let event = LogEvent { offset: self.offset, omitted, text: String::from_utf8_lossy(&bytes).into_owned() };
        self.offset += bytes.len() as u64;
        Some((event, self.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u64, omitted: u64, bytes: &[u8]) -> LogPart {
        LogPart { offset, omitted, bytes: Bytes::copy_from_slice(bytes) }
    }

    #[test]
    fn a_character_is_never_cut_and_ids_are_offsets() {
        let mut text = Text::default();
        let euro = "a\u{20ac}b".as_bytes();
        let (event, after) = text.take(part(10, 0, &euro[..2])).unwrap();
        assert_eq!((event.text.as_str(), event.offset, after), ("a", 10, 11));
        let (event, after) = text.take(part(12, 0, &euro[2..])).unwrap();
        assert_eq!((event.text.as_str(), event.offset, after), ("\u{20ac}b", 11, 15));
        let (event, after) = text.take(part(100, 85, b"\xff.")).unwrap();
        assert_eq!((event.text.as_str(), event.offset, event.omitted, after), ("\u{fffd}.", 100, 85, 102));
        assert!(text.take(part(102, 0, b"\xe2\x82")).is_none());
        assert_eq!(text.rest().unwrap().1, 104);
    }
}
