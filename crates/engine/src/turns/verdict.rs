//! What a script's end means for its turn.
//!
//! A script that fails while a limit is reached in its turn failed for that limit, and the sentence says both: the kernel and the
//! programs in between rarely tell more than a status. One that ends well all the same has succeeded, and what it ran into is
//! noted beside it.

use std::time::Duration;

use stead_domain::limit::{Holder, Limit, LimitHit, Reached};
use stead_domain::ports::{ExecExit, ExitReason};
use stead_domain::turn::{ExitStatus, TurnFailure, TurnFailureKind, TurnState};

use super::resume::INTERRUPTED;

/// What the kernel ends programs with whose file grows beyond its bound.
const SIGXFSZ: i32 = 25;

const TOO_LARGE: &str = ", which tells of a file that would have become larger than it may";

/// What a script may take of what the core itself counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// Wall-clock time.
    pub(super) time: Duration,
    /// Whether its caller named the time.
    pub(super) named: bool,
    /// Output, in bytes.
    pub(super) output: u64,
}

/// What became of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) state: TurnState,
    pub(super) failure: Option<TurnFailure>,
    pub(super) limits_hit: Vec<LimitHit>,
}

/// How the program ended, as a turn keeps it.
pub(super) fn exit_status(exit: ExecExit) -> Option<ExitStatus> {
    exit.signal.map(ExitStatus::Signal).or(exit.code.map(ExitStatus::Code))
}

/// Whether the script failed, so that its reason is worth a thorough look.
pub(super) fn has_failed(exit: ExecExit) -> bool {
    match exit.reason {
        ExitReason::Exited => (exit.code, exit.signal) != (Some(0), None),
        ExitReason::Killed => true,
        ExitReason::TimeLimit | ExitReason::OutputLimit => false,
    }
}

fn sentence(reached: &Reached) -> String {
    format!("the script {}", reached.phrase(Holder::Session))
}

fn limited(reached: &Reached, end: &str) -> TurnFailure {
    TurnFailure::limit(reached.limit(), format!("{}, and {end}", sentence(reached)))
}

fn hits<'a>(reached: impl Iterator<Item = &'a Reached>) -> Vec<LimitHit> {
    reached.map(|reached| LimitHit { limit: reached.limit(), message: sentence(reached) }).collect()
}

/// The verdict on a script that has ended, with what was `reached` meanwhile.
pub(super) fn judge(exit: ExecExit, reached: &[Reached], budget: &Budget) -> Verdict {
    let (state, own) = match exit.reason {
        ExitReason::TimeLimit => (TurnState::BudgetReached, Reached::Time { limit: budget.time, named: budget.named }),
        ExitReason::OutputLimit => {
            let option = "sessions.output";
            (TurnState::Failed, Reached::Output { bytes: budget.output, option })
        }
        ExitReason::Exited | ExitReason::Killed if has_failed(exit) => return failed(exit, reached),
        ExitReason::Exited | ExitReason::Killed => {
            return Verdict { state: TurnState::Completed, failure: None, limits_hit: hits(reached.iter()) };
        }
    };
    Verdict { state, failure: Some(limited(&own, "was ended")), limits_hit: hits(reached.iter()) }
}

fn failed(exit: ExecExit, reached: &[Reached]) -> Verdict {
    let end = match (exit.reason, exit.code, exit.signal) {
        (ExitReason::Killed, ..) => "was ended from outside".to_owned(),
        (_, _, Some(signal)) => format!("was ended by signal {signal}"),
        (_, Some(code), None) => format!("ended with exit status {code}"),
        (_, None, None) => "ended without a status".to_owned(),
    };
    // A shell says of a program that a signal ended: 128 and the signal.
    let cut_off = exit.signal == Some(SIGXFSZ) || exit.code == Some(128 + SIGXFSZ);
    let of = |limit| reached.iter().find(|reached| reached.limit() == limit);
    let found = match exit.reason {
        // Who ends a script from outside for a limit has measured its disk or, where the kernel does not, its memory.
        ExitReason::Killed => of(Limit::Disk).or(of(Limit::Memory)).cloned(),
        _ if cut_off => of(Limit::Disk).or(reached.first()).cloned(),
        _ => reached.first().cloned(),
    };
    let failure = match &found {
        Some(found) if exit.reason == ExitReason::Killed => limited(found, "was ended"),
        Some(found) => limited(found, &end),
        // Its own bound, or its own hand: what it may have was looked at.
        None if cut_off => TurnFailure::new(TurnFailureKind::Harness, format!("the script {end}{TOO_LARGE}")),
        None => TurnFailure::new(TurnFailureKind::Harness, format!("the script {end}")),
    };
    let rest = reached.iter().filter(|reached| Some(*reached) != found.as_ref());
    Verdict { state: TurnState::Failed, failure: Some(failure), limits_hit: hits(rest) }
}

/// The verdict on a script whose environment was lost: a limit may have ended all of it at once.
/// `stopping`: the server has ended it, because it ends itself.
pub(super) fn judge_lost(reached: &[Reached], stopping: bool) -> Verdict {
    if let Some(memory) = reached.iter().find(|reached| reached.limit() == Limit::Memory) {
        let failure = Some(limited(memory, "its environment was ended"));
        let rest = reached.iter().filter(|reached| *reached != memory);
        return Verdict { state: TurnState::Failed, failure, limits_hit: hits(rest) };
    }
    let message = if stopping { INTERRUPTED } else { "interrupted: the environment was lost while the task ran" };
    let failure = Some(TurnFailure::new(TurnFailureKind::Interrupted, message));
    Verdict { state: TurnState::Interrupted, failure, limits_hit: hits(reached.iter()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { time: Duration::from_secs(2), named: true, output: 1 << 20 };
    const MEMORY: Reached = Reached::Memory { bytes: 96 << 20 };
    const PROCESSES: Reached = Reached::Processes { most: 64 };
    const DISK: Reached = Reached::DiskBytes { bytes: 10 << 30 };

    /// An end and what was reached, and of the verdict the limit, the state and a part of the sentence.
    type Case = (ExecExit, &'static [Reached], Option<Limit>, TurnState, &'static str);

    fn exit(reason: ExitReason, code: Option<i32>, signal: Option<i32>) -> ExecExit {
        ExecExit { code, signal, reason }
    }

    #[test]
    fn a_verdict_is_of_the_limit_that_was_reached_or_of_the_script() {
        use ExitReason::{Exited, Killed, OutputLimit, TimeLimit};
        let cases: [Case; 13] = [
            (exit(Exited, Some(0), None), &[], None, TurnState::Completed, ""),
            // Ended by its own hand, whatever the status looks like.
            (exit(Exited, Some(137), None), &[], None, TurnState::Failed, "the script ended with exit status 137"),
            (exit(Exited, None, Some(9)), &[MEMORY], Some(Limit::Memory), TurnState::Failed, "96 MiB"),
            (exit(Exited, Some(254), None), &[PROCESSES], Some(Limit::Processes), TurnState::Failed, "the 64 that"),
            (exit(Killed, None, Some(9)), &[MEMORY, DISK], Some(Limit::Disk), TurnState::Failed, "10 GiB"),
            (
                exit(Killed, None, Some(9)),
                &[PROCESSES, MEMORY],
                Some(Limit::Memory),
                TurnState::Failed,
                "and was ended",
            ),
            (exit(Killed, None, Some(9)), &[], None, TurnState::Failed, "the script was ended from outside"),
            (exit(Exited, Some(153), None), &[PROCESSES, DISK], Some(Limit::Disk), TurnState::Failed, "10 GiB"),
            (exit(Exited, Some(153), None), &[], None, TurnState::Failed, "exit status 153, which tells of a file"),
            (exit(Exited, None, Some(25)), &[], None, TurnState::Failed, "signal 25, which tells of a file"),
            (exit(OutputLimit, None, Some(9)), &[], Some(Limit::Output), TurnState::Failed, "(sessions.output)"),
            (exit(TimeLimit, None, Some(9)), &[], Some(Limit::Time), TurnState::BudgetReached, "than the 2 seconds"),
            (exit(Exited, None, None), &[], None, TurnState::Failed, "the script ended without a status"),
        ];
        for (exit, reached, limit, state, said) in cases {
            let verdict = judge(exit, reached, &BUDGET);
            let failure = verdict.failure;
            assert_eq!((verdict.state, failure.as_ref().and_then(|failure| failure.limit)), (state, limit), "{exit:?}");
            assert_eq!(failure.is_some(), state != TurnState::Completed);
            let message = failure.map(|failure| failure.message).unwrap_or_default();
            assert!(message.contains(said), "{message}");
        }
    }

    #[test]
    fn what_a_script_survived_is_noted_beside_its_success() {
        let well = judge(exit(ExitReason::Exited, Some(0), None), &[MEMORY, PROCESSES], &BUDGET);
        assert_eq!(well.state, TurnState::Completed);
        assert_eq!(well.limits_hit.iter().map(|hit| hit.limit).collect::<Vec<_>>(), [Limit::Memory, Limit::Processes]);
        let late = judge(exit(ExitReason::TimeLimit, None, Some(9)), &[PROCESSES], &BUDGET);
        assert_eq!(late.limits_hit.len(), 1);
        let failed = judge(exit(ExitReason::Exited, Some(1), None), &[MEMORY, PROCESSES], &BUDGET);
        assert_eq!(failed.limits_hit.iter().map(|hit| hit.limit).collect::<Vec<_>>(), [Limit::Processes]);
        assert_eq!(judge_lost(&[], false).state, TurnState::Interrupted);
        assert_eq!(judge_lost(&[MEMORY], true).failure.and_then(|failure| failure.limit), Some(Limit::Memory));
    }
}
