//! Server-sent events (UHP §8).
//!
//! A task of its own reads the turn's log and feeds the answer through a bounded channel. It ends with the turn or with its
//! reader; neither touches the turn, so a client that goes away cancels nothing.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use http::{HeaderName, HeaderValue};
use stead_domain::event::EventKind as Happened;
use stead_domain::key::Caller;
use stead_engine::{Engine, TurnView};
use stead_face_frame::Place;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::assemble::Assembler;
use crate::errors;
use crate::resume::{Seen, Sequel};
use crate::wire::event::Event;

/// How long a stream may be silent.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Events that wait for a slow reader.
const WAITING: usize = 8;

/// The stream of a turn from its beginning, or behind an event of it. Its `place` is taken until it ends.
pub(crate) fn answer(engine: Engine, caller: Caller, view: TurnView, seen: Option<Seen>, place: Place) -> Response {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let closed = sender.clone();
        tokio::select! {
            () = closed.closed() => {}
            () = feed(&engine, &caller, view, Outlet { sender, sequel: Sequel::new(seen) }) => {}
        }
        drop(place);
    });
    let frames = ReceiverStream::new(receiver).map(|(event, id)| Ok::<_, Infallible>(frame(&event, id)));
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("keep-alive");
    let mut response = Sse::new(frames).keep_alive(keep_alive).into_response();
    // Proxies that buffer would turn a stream into one late answer.
    response.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn frame(event: &Event, id: Seen) -> Frame {
    let frame = Frame::default().id(id.to_string());
    match frame.json_data(event) {
        Ok(frame) => frame,
        Err(error) => {
            tracing::error!(%error, "an event cannot be written as JSON");
            Frame::default().comment("an event was lost")
        }
    }
}

/// The way out of a stream.
struct Outlet {
    sender: mpsc::Sender<(Event, Seen)>,
    sequel: Sequel,
}

impl Outlet {
    /// Sends what is new of these. What cannot be sent has no reader any more, and the task that feeds it ends.
    async fn send(&mut self, events: Vec<Event>) {
        for event in events {
            if let Some(sent) = self.sequel.pass(event)
                && self.sender.send(sent).await.is_err()
            {
                return;
            }
        }
    }
}

/// Sends everything; what happened to the reader is the caller's business.
async fn feed(engine: &Engine, caller: &Caller, view: TurnView, mut outlet: Outlet) {
    let mut assembler = Assembler::new(view.turn.clone());
    outlet.send(assembler.begin(&view)).await;
    if let Err(error) = follow(engine, caller, &view, &mut assembler, &mut outlet).await {
        tracing::warn!(code = error.code.as_str(), "the log of a turn broke off in a stream");
        let said = assembler.fault(errors::code(&error), "the stream of events broke off; the task goes on".to_owned());
        outlet.send(said).await;
    }
    let last = match engine.turn_wait(caller, view.turn.id).await {
        Ok(ended) => assembler.finish(&ended),
        Err(_) => assembler.abandon(&view),
    };
    outlet.send(last).await;
}

/// Passes on what happens until the turn has ended.
async fn follow(
    engine: &Engine,
    caller: &Caller,
    view: &TurnView,
    assembler: &mut Assembler,
    outlet: &mut Outlet,
) -> stead_domain::Result<()> {
    let mut events = Box::pin(engine.turn_events(caller, view.turn.id, 0).await?);
    while let Some(event) = events.next().await {
        let event = event?;
        outlet.send(assembler.apply(&event.kind)).await;
        if event.kind == Happened::TurnEnded {
            break;
        }
    }
    Ok(())
}
