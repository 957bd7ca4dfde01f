//! The log of a turn, as it grows.

use futures_util::stream::{BoxStream, StreamExt, iter, try_unfold};
use stead_domain::event::{Event, EventKind};
use stead_domain::key::Caller;
use stead_domain::turn::Turn;
use stead_domain::{Result, TurnId};

use super::cancel::FOLLOWER;
use crate::commit::store_failed;
use crate::engine::Engine;
use crate::hub::{Topic, Waiter};

/// A turn's events, ending with its end.
pub type EventStream = BoxStream<'static, Result<Event>>;

/// The most that one read takes.
const READ: usize = 500;

struct State {
    engine: Engine,
    /// As it was when it was followed first.
    turn: Turn,
    after: i64,
    waiter: Waiter,
    /// Whether the row says that the turn has ended, so that its log is complete.
    ended: bool,
    over: bool,
}

impl State {
    /// The next events of the turn; none when it is over.
    async fn next(mut self) -> Result<Option<(Vec<Event>, Self)>> {
        while !self.over {
            let read = self.engine.patiently_for(FOLLOWER, || self.read()).await?;
            let more = read.len() == READ;
            self.after = read.last().map_or(self.after, |event| event.sequence);
            let events: Vec<Event> = read.into_iter().filter(|event| event.turn_id == self.turn.id).collect();
            self.over = events.iter().any(|event| event.kind == EventKind::TurnEnded) || (self.ended && !more);
            if !events.is_empty() {
                return Ok(Some((events, self)));
            }
            if self.over || more {
                continue;
            }
            // The row is read before the log is read for the last time.
            let row = self.engine.patiently_for(FOLLOWER, || self.engine.followed(&self.turn)).await?;
            self.ended = row.state.is_ended();
            if !self.ended {
                self.waiter.wait().await;
            }
        }
        Ok(None)
    }

    async fn read(&self) -> Result<Vec<Event>> {
        self.engine.store.events_after(self.turn.session_id, self.after, READ).await.map_err(store_failed)
    }
}

impl Engine {
    /// A turn's events after a number of the session's log (0 for the beginning), live until the turn has ended. Deltas that
    /// a finished item has replaced are not told again: whoever comes late reads the item.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn turn_events(&self, caller: &Caller, id: TurnId, after: i64) -> Result<EventStream> {
        let turn = self.live_turn(caller, id).await?;
        let waiter = self.hub.listen(Topic::Session(turn.session_id));
        let state = State { engine: self.clone(), turn, after, waiter, ended: false, over: false };
        let stream = try_unfold(state, State::next).flat_map(|read| match read {
            Ok(events) => iter(events.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => iter(vec![Err(error)]),
        });
        Ok(stream.boxed())
    }
}
