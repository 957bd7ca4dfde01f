//! How long somebody waits for an operation, and what he does about one that is known not to have happened. Nobody waits without
//! a bound but who has nothing else to do.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The longest that an operation is left alone while a turn waits for it. With a longer one, a turn that has waited for minutes would
/// look for a free place much more rarely than those that come after it, and be the last to find one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A turn that has waited its time while no server was there gets this long, for one attempt.
const LEAST: Duration = Duration::from_secs(1);

/// What is done about an operation that is known not to have happened: one never asked for, or refused in passing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It is asked for when its backoff has passed.
    Patient,
    /// It is asked for at once, and after a refusal in passing as long as this has not passed.
    Eager(Instant),
    /// It is left as it is.
    Leave,
    /// It is given up for good.
    GiveUp,
}

/// A wait for the end of an operation.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    manner: Manner,
    until: Option<Instant>,
    /// Any of them ends the wait.
    called_off: Vec<CancellationToken>,
}

impl Waiting {
    fn new(manner: Manner, until: Option<Instant>) -> Self {
        Self { manner, until, called_off: Vec::new() }
    }

    /// To the very end.
    pub(crate) fn without_end() -> Self {
        Self::new(Manner::Patient, None)
    }

    /// At most so long; whoever comes next goes on.
    pub(crate) fn at_most(time: Duration) -> Self {
        Self::new(Manner::Patient, Some(Instant::now() + time))
    }

    /// Until it is known whether the operation has happened, and no longer.
    pub(crate) fn for_certainty() -> Self {
        Self::new(Manner::Leave, None)
    }

    /// For a turn: at most `most`. An operation that is refused in passing is tried again for `budget` only, but once in any case.
    /// Ends when one of the tokens is cancelled.
    pub(crate) fn of_turn(budget: Duration, most: Duration, called_off: [CancellationToken; 3]) -> Self {
        let now = Instant::now();
        let most = most.max(LEAST);
        let manner = Manner::Eager(now + budget.min(most));
        Self { manner, until: Some(now + most), called_off: called_off.into() }
    }

    /// The same, but what is known not to have happened shall not happen any more.
    pub(crate) fn giving_up(&self) -> Self {
        Self { manner: Manner::GiveUp, ..self.clone() }
    }

    /// The same, but what is known not to have happened is left as it is.
    pub(crate) fn leaving(&self) -> Self {
        Self { manner: Manner::Leave, ..self.clone() }
    }

    /// Whether an operation that is known not to have happened is left alone.
    pub(crate) fn leaves(&self) -> bool {
        self.manner == Manner::Leave
    }

    /// Whether an operation that is known not to have happened is given up.
    pub(crate) fn gives_up(&self) -> bool {
        self.manner == Manner::GiveUp
    }

    /// How long an operation with so much left of its backoff is left alone. `asked` says whether this waiter has seen an attempt.
    pub(crate) fn backoff(&self, asked: bool, left: Duration) -> Duration {
        match self.manner {
            Manner::Eager(_) if asked => left.min(LONGEST_PAUSE),
            Manner::Eager(_) => Duration::ZERO,
            _ => left,
        }
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_over(&self) -> bool {
        self.called_off.iter().any(CancellationToken::is_cancelled)
            || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Waits this long before another attempt; false when the wait is over before that.
    pub(crate) async fn pause(&self, time: Duration) -> bool {
        self.while_trying(tokio::time::sleep(time)).await.is_some()
    }

    /// What comes of `work`, unless nothing is tried any more before.
    pub(crate) async fn while_trying<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let until = match self.manner {
            Manner::Eager(retries) => Some(retries),
            _ => self.until,
        };
        self.before(until, work).await
    }

    /// What comes of `work`, unless the wait is over before.
    pub(crate) async fn at<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.before(self.until, work).await
    }

    async fn before<T>(&self, until: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
        let over = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let called_off = async {
            if self.called_off.is_empty() {
                return std::future::pending().await;
            }
            let any = self.called_off.iter().map(|token| Box::pin(token.cancelled()));
            futures_util::future::select_all(any).await;
        };
        tokio::select! {
            biased;
            () = called_off => None,
            value = work => Some(value),
            () = over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    fn tokens() -> [CancellationToken; 3] {
        [0; 3].map(|_| CancellationToken::new())
    }

    const LONG: Duration = Duration::from_mins(5);

    #[tokio::test]
    async fn a_turn_tries_again_within_its_budget_and_waits_for_an_answer_within_the_servers_bound() {
        let waiting = Waiting::of_turn(SHORT, SHORT * 10, tokens());
        assert!(waiting.pause(Duration::from_millis(1)).await);
        assert!(!waiting.pause(LONG).await, "the budget is spent");
        assert!(!waiting.is_over(), "an attempt may be under way yet");
        assert_eq!(waiting.at(std::future::ready(1)).await, Some(1));
        assert_eq!(waiting.at(std::future::pending::<u8>()).await, None);
        assert!(waiting.is_over());
        let waiting = Waiting::of_turn(LONG, SHORT, tokens());
        assert!(!waiting.pause(LONG).await, "the server's bound is less than the budget");
    }

    #[tokio::test]
    async fn a_cancelled_turn_waits_for_nothing() {
        for which in 0..3 {
            let called_off = tokens();
            let waiting = Waiting::of_turn(LONG, LONG, called_off.clone());
            let (paused, answer, ()) =
                tokio::join!(waiting.pause(LONG), waiting.at(std::future::pending::<u8>()), async {
                    called_off[which].cancel();
                });
            assert!(!paused && answer.is_none() && waiting.is_over() && waiting.giving_up().is_over());
        }
    }

    #[test]
    fn a_turns_first_attempt_waits_for_no_backoff_and_its_later_ones_for_a_short_one() {
        let turn = Waiting::of_turn(LONG, LONG, tokens());
        assert_eq!(turn.backoff(false, LONG), Duration::ZERO);
        assert_eq!(turn.backoff(true, LONG), LONGEST_PAUSE);
        assert_eq!(turn.backoff(true, SHORT), SHORT);
        assert_eq!(Waiting::without_end().backoff(false, LONG), LONG);
    }
}
