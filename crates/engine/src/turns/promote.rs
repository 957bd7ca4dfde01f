//! The commit that authorises Start. It settles the start of the environment as well, where that is what the turn waited for.

use stead_domain::changes::Changes;
use stead_domain::environment::EnvironmentState;
use stead_domain::event::EventKind;
use stead_domain::lease::Lease;
use stead_domain::operation::OperationState;
use stead_domain::turn::{Turn, TurnEvent, TurnState};
use stead_domain::{Result, time::Timestamp};

use super::output::begun_message;
use super::rows::Rows;
use crate::answers::Answer;
use crate::engine::Engine;

/// What became of a promotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promotion {
    /// The turn has its input; nothing else may start it.
    Done,
    /// It was cancelled in the moment in which it was promoted; its input is not given.
    Cancelled,
    /// It has ended before.
    TurnEnded,
    /// Its environment was stopped before.
    EnvironmentLeft,
}

impl Engine {
    /// Promotes the turn whose environment runs; `started` is the answer to the operation in hand, where it is not settled yet.
    pub(super) async fn promote(&self, rows: &mut Rows, started: Option<&Answer>) -> Result<Promotion> {
        self.decide_on(rows, |rows| self.promotion(rows, started)).await
    }

    fn promotion(&self, rows: &Rows, started: Option<&Answer>) -> Result<(Changes, Promotion)> {
        let at = self.now();
        let (mut environment, mut changes, mut settles) = (rows.environment.clone(), Changes::new(), false);
        if let (Some(answer), Some(operation)) = (started, &rows.operation)
            && operation.state == OperationState::Dispatched
            && environment.operation_id == Some(operation.id)
        {
            let (operation, settled) = answer.clone().settled(operation.clone(), environment, at)?;
            (environment, changes, settles) = (settled, changes.update(operation), true);
        }
        // Nothing but an earlier attempt at this very commit, of which the store has not said what became of it, has put the
        // turn into this process's hands.
        let ours = rows.turn.lease.is_some_and(|lease| lease.holder == self.server);
        let promotion = match rows.turn.state {
            TurnState::Queued if environment.state == EnvironmentState::Ready => Promotion::Done,
            TurnState::Queued => Promotion::EnvironmentLeft,
            TurnState::InProgress if ours => return Ok((Changes::new(), Promotion::Done)),
            TurnState::Cancelling if ours => return Ok((Changes::new(), Promotion::Cancelled)),
            _ => Promotion::TurnEnded,
        };
        if promotion != Promotion::Done {
            let changes = if settles { changes.update(environment) } else { Changes::new() };
            return Ok((changes, promotion));
        }
        environment.idle_since = None;
        Ok((self.promoted(changes.update(environment), rows, at)?, Promotion::Done))
    }

    fn promoted(&self, changes: Changes, rows: &Rows, at: Timestamp) -> Result<Changes> {
        let network = rows.turn.network.within(&self.settings.session_network);
        let turn = Turn { network, ..rows.turn.clone() };
        let turn = turn.transition(TurnEvent::Promoted(Lease::taken(self.server, at)), at)?;
        let mut session = rows.session.clone();
        session.observe(&turn, at);
        let started = session.event(turn.id, EventKind::TurnStarted, at);
        let begun = session.event(turn.id, EventKind::ItemStarted { item: begun_message() }, at);
        Ok(changes.update(turn).update(session).event(started).event(begun))
    }
}
