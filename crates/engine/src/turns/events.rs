//! The log of a turn, as it grows.

use futures_util::stream::{BoxStream, StreamExt, iter, try_unfold};
use stead_domain::event::{Event, EventKind};
use stead_domain::ids::SessionId;
use stead_domain::key::Caller;
use stead_domain::{Result, TurnId};

use crate::commit::store_failed;
use crate::engine::Engine;
use crate::hub::{Topic, Waiter};

/// A turn's events, ending with its end.
pub type EventStream = BoxStream<'static, Result<Event>>;

/// The most that one read takes.
const READ: usize = 500;

struct State {
    engine: Engine,
    caller: Caller,
    session: SessionId,
    turn: TurnId,
    after: i64,
    waiter: Waiter,
    over: bool,
}

impl State {
    /// The next events of the turn; none when it is over.
    async fn next(mut self) -> Result<Option<(Vec<Event>, Self)>> {
        while !self.over {
            // Read the row before the log: the log of an ended turn is complete.
            let ended = match self.engine.live_turn(&self.caller, self.turn).await {
                Ok(turn) => turn.state.is_ended(),
                Err(_) => true,
            };
            let read = self.engine.store.events_after(self.session, self.after, READ).await.map_err(store_failed)?;
            let more = read.len() == READ;
            self.after = read.last().map_or(self.after, |event| event.sequence);
            let events: Vec<Event> = read.into_iter().filter(|event| event.turn_id == self.turn).collect();
            self.over = events.iter().any(|event| event.kind == EventKind::TurnEnded) || (ended && !more);
            if !events.is_empty() {
                return Ok(Some((events, self)));
            }
            if !self.over && !more {
                self.waiter.wait().await;
            }
        }
        Ok(None)
    }
}

impl Engine {
    /// A turn's events after a number of the session's log (0 for the beginning), live until the turn has ended. Deltas that
    /// a finished item has replaced are not told again: whoever comes late reads the item.
    pub async fn turn_events(&self, caller: &Caller, id: TurnId, after: i64) -> Result<EventStream> {
        let turn = self.live_turn(caller, id).await?;
        let waiter = self.hub.listen(Topic::Session(turn.session_id));
        let state = State {
            engine: self.clone(),
            caller: caller.clone(),
            session: turn.session_id,
            turn: id,
            after,
            waiter,
            over: false,
        };
        let stream = try_unfold(state, State::next).flat_map(|read| match read {
            Ok(events) => iter(events.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => iter(vec![Err(error)]),
        });
        Ok(stream.boxed())
    }
}
