//! How a client asks while its server may die at any moment, and how much is asked at once.

use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

use crate::api::{Answer, Api, Framing};

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Sent {
    /// It was answered.
    Done(Value),
    /// It was refused, so that nothing changed.
    Refused,
    /// The server could not say, or said nothing.
    Lost,
}

/// What one client has in flight: a request, and work that was acknowledged and runs until a known moment at least.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    asking: Mutex<Option<Instant>>,
    running: Mutex<Vec<Instant>>,
}

impl InFlight {
    /// How much of it is in flight at a moment.
    pub(crate) fn at(&self, moment: Instant) -> usize {
        let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|since| since < moment);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        usize::from(asking) + running.iter().filter(|until| **until > moment).count()
    }

    pub(super) fn runs_until(&self, moment: Instant) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|until| *until > Instant::now());
        running.push(moment);
    }

    fn set(&self, asking: Option<Instant>) {
        *self.asking.lock().unwrap_or_else(PoisonError::into_inner) = asking;
    }
}

/// Asks for one client.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(super) api: Api,
    pub(super) in_flight: Arc<InFlight>,
    /// Set when the clients shall come to an end.
    pub(super) stop: Arc<AtomicBool>,
    /// What was refused that need not have been.
    pub(super) refused: Vec<String>,
}

fn judged(answer: &Answer) -> Sent {
    match answer.status {
        200..300 => serde_json::from_slice(&answer.body).map_or(Sent::Lost, Sent::Done),
        400..500 => Sent::Refused,
        _ => Sent::Lost,
    }
}

impl Asker {
    /// Whether the client shall come to an end.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn asks<T>(&self, ask: impl FnOnce() -> Option<T>) -> Option<T> {
        self.in_flight.set(Some(Instant::now()));
        let answer = ask();
        // What the end of the server cut off stays in flight, to be counted.
        if answer.is_some() {
            self.in_flight.set(None);
        }
        answer
    }

    /// Sends a request and reads its answer.
    pub(super) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Sent {
        let answer = self.asks(|| self.api.try_send(method, path, headers, body));
        let sent = answer.as_ref().map_or(Sent::Lost, judged);
        if let (Some(answer), true) = (&answer, !matches!(sent, Sent::Done(_))) {
            self.refused.push(format!("{method} {path}: {} {}", answer.status, answer.text()));
        }
        sent
    }

    /// Sends a task that is to be streamed and hands every event to `see` until the stream ends; whether it was admitted, and
    /// whether its end came.
    pub(super) fn stream(&mut self, headers: &[(&str, &str)], body: &str, mut see: impl FnMut(&Value)) -> Sent {
        let mut last = None;
        let mut refused = None;
        let whole = self.asks(|| {
            let opened = self.api.open("POST", "/v1/responses", headers, body.as_bytes(), Framing::Length)?;
            if opened.status != 200 {
                refused = opened.finish();
                return refused.as_ref().map(|_| ());
            }
            for line in BufReader::new(opened.body).lines() {
                let line = line.ok()?;
                let Some(event) = line.strip_prefix("data:") else { continue };
                let event: Value = serde_json::from_str(event.trim()).ok()?;
                see(&event);
                last = Some(event);
            }
            let is_end = |event: &Value| event["response"]["status"] != "in_progress" && !event["response"].is_null();
            last.as_ref().filter(|event| is_end(event)).map(|_| ())
        });
        if let Some(answer) = refused {
            self.refused.push(format!("POST /v1/responses: {} {}", answer.status, answer.text()));
            return judged(&answer);
        }
        match (whole, last) {
            (Some(()), Some(event)) => Sent::Done(event["response"].clone()),
            _ => Sent::Lost,
        }
    }
}
