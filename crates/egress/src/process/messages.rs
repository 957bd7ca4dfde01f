//! What is said on the control socket.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Stats;
use crate::journal::Record;

/// From the service.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Repeated in the answer.
    pub(super) number: u64,
    /// Names the socket for the life of the process; chosen by the service, never used twice.
    pub(super) socket: u64,
    pub(super) what: What,
}

/// What to do with a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// Serve it. The packet carries the listener and a memory file with the policy, in this order.
    Open,
    /// Tell what went through.
    Stats,
    /// Stop, and tell the final numbers.
    Close,
    /// Serve every socket on with nobody to give orders, until no connection was open for as long as `quiet`, and no longer than
    /// `most`. The last order.
    LetGo {
        /// How long nothing may be open.
        quiet: Duration,
        /// How long altogether.
        most: Duration,
    },
}

impl What {
    /// Descriptors that come with the order.
    pub(super) fn descriptors(self) -> usize {
        if self == Self::Open { 2 } else { 0 }
    }
}

/// From the proxy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Report {
    /// To the order of this number.
    Answer { number: u64, outcome: Outcome },
    /// For the log.
    Note(Record),
}

/// What became of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Outcome {
    /// Done; the numbers of the socket.
    Done(Stats),
    /// Not done.
    Refused(String),
}
