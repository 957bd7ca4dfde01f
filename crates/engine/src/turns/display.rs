//! Lets readers see text while its script runs. A commit is under way while the next output is taken; a store that does not answer
//! holds up what readers see, and nothing else. The claim on the turn is renewed on the same way.

use std::pin::Pin;

use stead_domain::Result;
use stead_domain::changes::Changes;
use stead_domain::event::EventKind;
use stead_domain::lease::Lease;
use stead_domain::time::Timestamp;
use stead_domain::turn::{Turn, TurnEvent, TurnState};

use super::output::ITEM;
use super::rows::Rows;
use crate::engine::Engine;

type AtWork = Pin<Box<dyn Future<Output = Box<Rows>> + Send>>;

/// Holds the rows of a turn while its script runs.
pub(super) struct Display {
    engine: Engine,
    state: State,
}

enum State {
    Free(Box<Rows>),
    AtWork(AtWork),
    /// Between two of the others.
    Moved,
}

impl Display {
    pub(super) fn new(engine: Engine, rows: Box<Rows>) -> Self {
        Self { engine, state: State::Free(rows) }
    }

    /// Whether the next commit may begin.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, State::Free(_))
    }

    /// Begins to show text; only when [free](Self::is_free).
    pub(super) fn show(&mut self, text: String) {
        self.begin(Some(text));
    }

    /// Begins to renew the claim; only when [free](Self::is_free).
    pub(super) fn renew(&mut self) {
        self.begin(None);
    }

    fn begin(&mut self, text: Option<String>) {
        self.state = match std::mem::replace(&mut self.state, State::Moved) {
            State::Free(rows) => State::AtWork(Box::pin(commit(self.engine.clone(), rows, text))),
            other => other,
        };
    }

    /// Returns when the commit that is under way is over; at once when there is none.
    pub(super) async fn done(&mut self) {
        if let State::AtWork(work) = &mut self.state {
            let rows = work.await;
            self.state = State::Free(rows);
        }
    }

    /// The rows as the last commit has left them.
    pub(super) async fn into_rows(self) -> Box<Rows> {
        match self.state {
            State::Free(rows) => rows,
            State::AtWork(work) => work.await,
            State::Moved => unreachable!("nothing is awaited while the rows are moved"),
        }
    }
}

async fn commit(engine: Engine, mut rows: Box<Rows>, text: Option<String>) -> Box<Rows> {
    let done = engine.decide_on(&mut rows, |rows| decide(&engine, rows, text.as_deref())).await;
    match done {
        Ok(()) => engine.faults.point("turn.stored"),
        // The finished item has all of it.
        Err(error) => tracing::warn!(error = %error, cause = ?error.cause, "text could not be shown"),
    }
    rows
}

fn decide(engine: &Engine, rows: &Rows, text: Option<&str>) -> Result<(Changes, ())> {
    let at = engine.now();
    let mut changes = Changes::new();
    let due = text.is_none() || rows.turn.lease.is_some_and(|lease| is_old(lease, at));
    if due && matches!(rows.turn.state, TurnState::InProgress | TurnState::Cancelling) {
        changes = changes.update(renewed(engine, rows.turn.clone(), at)?);
    }
    if let Some(text) = text {
        let mut session = rows.session.clone();
        let kind = EventKind::TextDelta { item_id: ITEM.to_owned(), text: text.to_owned() };
        let event = session.event(rows.turn.id, kind, at);
        changes = changes.update(session).event(event);
    }
    Ok((changes, ()))
}

fn is_old(lease: Lease, at: Timestamp) -> bool {
    lease.until.since(at) < Lease::LENGTH.saturating_sub(Lease::RENEWAL)
}

fn renewed(engine: &Engine, turn: Turn, at: Timestamp) -> Result<Turn> {
    turn.transition(TurnEvent::Renewed(Lease::taken(engine.server, at)), at)
}
