//! What the operator's log is told about a sandbox's use of the proxy: a name, a decision and sizes. Never a path, a header or
//! a body, which may hold credentials.
//!
//! Every line is a [`Record`]. A proxy inside the service writes records to its own log; one in a process of its own hands them
//! to the service, which writes the same lines.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// Records that wait for the service; more are lost, and counted.
const QUEUE: usize = 1024;
/// The longest text in a record, in bytes. A host name has at most 253.
const MAX_TEXT: usize = 256;

/// One line of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Record {
    /// Whether an operator should look into it.
    pub(crate) is_warning: bool,
    pub(crate) label: String,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) decision: Cow<'static, str>,
    /// How a tunnel ended.
    pub(crate) ended: Option<Cow<'static, str>>,
    /// Bytes from the sandbox, and bytes to it.
    pub(crate) sent: Option<u64>,
    pub(crate) received: Option<u64>,
    /// What went wrong in the proxy itself.
    pub(crate) error: Option<String>,
}

impl Record {
    /// A decision about one sandbox.
    pub(crate) fn new(label: &str, decision: &'static str) -> Self {
        Self { label: clipped(label), decision: Cow::Borrowed(decision), ..Self::default() }
    }

    /// Something that an operator should look into.
    pub(crate) fn warning(label: &str, decision: &'static str, error: &dyn std::fmt::Display) -> Self {
        Self { is_warning: true, error: Some(clipped(&error.to_string())), ..Self::new(label, decision) }
    }

    /// Writes the line to this process's log.
    pub(crate) fn write(&self) {
        let Self { is_warning, label, host, port, decision, ended, sent, received, error } = self;
        let (host, ended, error) = (host.as_deref(), ended.as_deref(), error.as_deref());
        let decision = decision.as_ref();
        if *is_warning {
            tracing::warn!(label, host, port, decision, ended, sent, received, error, "egress");
        } else {
            tracing::info!(label, host, port, decision, ended, sent, received, error, "egress");
        }
    }

    /// Whether every text is as short as this crate writes it.
    pub(crate) fn is_short(&self) -> bool {
        let texts = [Some(self.label.as_str()), self.host.as_deref(), Some(&*self.decision), self.ended.as_deref()];
        texts.into_iter().chain([self.error.as_deref()]).flatten().all(|text| text.len() <= MAX_TEXT)
    }
}

fn clipped(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// Where records go.
#[derive(Clone, Debug)]
pub(crate) enum Journal {
    /// To the log of this process.
    Here,
    /// To another process.
    Relayed { queue: mpsc::Sender<Record>, lost: Arc<AtomicU64> },
}

impl Journal {
    /// A journal whose records come out of the other end.
    pub(crate) fn relayed() -> (Self, Relay) {
        let (queue, records) = mpsc::channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        (Self::Relayed { queue, lost: Arc::clone(&lost) }, Relay { records, lost })
    }

    pub(crate) fn write(&self, record: Record) {
        match self {
            Self::Here => record.write(),
            Self::Relayed { queue, lost } => {
                if queue.try_send(record).is_err() {
                    lost.fetch_add(1, Relaxed);
                }
            }
        }
    }
}

/// The records of a relayed journal.
#[derive(Debug)]
pub(crate) struct Relay {
    records: mpsc::Receiver<Record>,
    lost: Arc<AtomicU64>,
}

impl Relay {
    /// The next record; never returns when there is no writer left.
    pub(crate) async fn next(&mut self) -> Record {
        let lost = self.lost.swap(0, Relaxed);
        if lost > 0 {
            return Record::warning("", "lines_lost", &lost);
        }
        match self.records.recv().await {
            Some(record) => record,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_finds_no_room_is_counted_and_texts_are_short() {
        let (journal, mut relay) = Journal::relayed();
        for _ in 0..QUEUE + 7 {
            journal.write(Record::new(&"é".repeat(1000), "forwarded"));
        }
        let lost = relay.next().await;
        assert_eq!((&*lost.decision, lost.error.as_deref()), ("lines_lost", Some("7")));
        let record = relay.next().await;
        assert!(record.is_short() && record.label.len() == MAX_TEXT);
        let long = Record { host: Some("x".repeat(MAX_TEXT + 1)), ..record };
        assert!(!long.is_short());
    }
}
