//! The service's side.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::control::{Control, ControlError, write_policy};
use super::messages::{Order, Outcome, Report, What};
use crate::journal::Record;
use crate::lines::{Line, Lines};
use crate::{Policy, Stats};

/// Time for an answer. The proxy answers from memory; a process that does not is stuck.
const ANSWER: Duration = Duration::from_secs(5);
/// Lines of the proxy process in the log, each minute. Every sandbox has its own bound there; this one is for a process that
/// keeps no bounds.
const LINES: u32 = 6000;

/// The proxy in another process. Dropping it ends that process; its sockets are closed with it.
#[derive(Debug)]
pub struct Remote(Arc<Link>);

/// The proxy did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The process has ended, or its end of the control socket is closed.
    #[error("the egress proxy is gone")]
    Gone,
    /// It is there and says nothing.
    #[error("the egress proxy did not answer in time")]
    Silent,
    /// It says why not.
    #[error("the egress proxy refused: {reason}")]
    Refused {
        /// In its words.
        reason: String,
    },
    /// The policy could not be handed over; longer than 1 MiB, or no memory file could be made.
    #[error("could not hand over the egress policy")]
    Policy(#[source] io::Error),
    /// The order could not be sent.
    #[error("could not send an order to the egress proxy")]
    Send(#[source] io::Error),
}

/// A socket that the proxy serves. Dropping it closes the socket in the background, and cuts its connections.
#[derive(Debug)]
pub struct RemoteHandle {
    link: Arc<Link>,
    socket: u64,
    /// The last numbers heard.
    last: Mutex<Stats>,
    is_open: bool,
}

#[derive(Debug)]
struct Link {
    control: Control,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Outcome>>>,
    /// Sockets to close for which the control socket had no room.
    unclosed: Mutex<Vec<u64>>,
    unclosed_more: Notify,
    gone: CancellationToken,
}

impl Remote {
    /// Talks to a proxy process through `control`, one end of a SEQPACKET socket pair whose other end
    /// [`serve`](super::serve) has. Call it inside a Tokio runtime.
    pub fn new(control: OwnedFd) -> io::Result<Self> {
        let link = Arc::new(Link {
            control: Control::new(control)?,
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
            unclosed: Mutex::default(),
            unclosed_more: Notify::new(),
            gone: CancellationToken::new(),
        });
        tokio::spawn(listen(Arc::clone(&link)));
        Ok(Self(link))
    }

    /// Has a listening unix stream socket served under `policy`. Keep a copy of the listener: should the process end, the same
    /// socket can be opened in the next one, and clients that came meanwhile wait in its backlog. Once the handle is closed, drop
    /// the copy as well, or new clients wait for nobody.
    ///
    /// Fails within five seconds when the process does not answer. A future that is dropped leaves nothing open.
    pub async fn open(&self, listener: OwnedFd, policy: Policy) -> Result<RemoteHandle, RemoteError> {
        let policy = write_policy(&policy).map_err(RemoteError::Policy)?;
        let (link, socket) = (Arc::clone(&self.0), self.0.number());
        // Whatever happens to the order, the socket is closed when this is dropped.
        let handle = RemoteHandle { link, socket, last: Mutex::default(), is_open: true };
        self.0.ask(socket, What::Open, &[listener, policy]).await?;
        Ok(handle)
    }

    /// Lets the process serve on by itself, until no connection was open for as long as `quiet`, and no longer than `most`. From
    /// here on it counts as gone, and closing its sockets does nothing.
    pub async fn let_go(&self, quiet: Duration, most: Duration) -> Result<(), RemoteError> {
        let socket = self.0.number();
        self.0.ask(socket, What::LetGo { quiet, most }, &[]).await?;
        self.0.gone.cancel();
        Ok(())
    }

    /// Returns when the process is gone, or has lost the right to be heard.
    pub async fn closed(&self) {
        self.0.gone.cancelled().await;
    }

    /// Whether [`closed`](Self::closed) would return at once.
    pub fn is_closed(&self) -> bool {
        self.0.gone.is_cancelled()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.0.control.end();
    }
}

impl RemoteHandle {
    /// What went through so far.
    pub async fn stats(&self) -> Result<Stats, RemoteError> {
        let stats = self.link.ask(self.socket, What::Stats, &[]).await?;
        self.heard(&stats);
        Ok(stats)
    }

    /// Closes the socket and returns when the last connection is cut, with the final numbers; the last ones heard, when the
    /// process is gone or does not answer within five seconds.
    pub async fn close(mut self) -> Stats {
        let closed = self.link.ask(self.socket, What::Close, &[]).await;
        // An order that was not answered may not have been sent either.
        self.is_open = matches!(closed, Err(RemoteError::Silent));
        match closed {
            Ok(stats) => {
                self.heard(&stats);
                stats
            }
            Err(error) => {
                tracing::debug!(%error, "the final numbers of an egress socket are not known");
                lock(&self.last).clone()
            }
        }
    }
}

impl RemoteHandle {
    /// Remembers the numbers, and counts what is new in them. One answer may overtake another, and then tells nothing new.
    fn heard(&self, stats: &Stats) {
        let mut last = lock(&self.last);
        if stats.connections < last.connections || stats.bytes_up < last.bytes_up || stats.bytes_down < last.bytes_down
        {
            return;
        }
        let more = |now: u64, before: u64| now.saturating_sub(before);
        metrics::counter!("stead_egress_connections_total").increment(more(stats.connections, last.connections));
        metrics::counter!("stead_egress_refusals_total").increment(more(stats.refused, last.refused));
        metrics::counter!("stead_egress_failures_total").increment(more(stats.failed, last.failed));
        metrics::counter!("stead_egress_sent_bytes_total").increment(more(stats.bytes_up, last.bytes_up));
        metrics::counter!("stead_egress_received_bytes_total").increment(more(stats.bytes_down, last.bytes_down));
        last.clone_from(stats);
    }
}

impl Drop for RemoteHandle {
    fn drop(&mut self) {
        if self.is_open && !self.link.gone.is_cancelled() {
            self.link.close_later(self.socket);
        }
    }
}

impl Link {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Sends an order and waits for its answer.
    async fn ask(&self, socket: u64, what: What, descriptors: &[OwnedFd]) -> Result<Stats, RemoteError> {
        let number = self.number();
        let (sender, answer) = oneshot::channel();
        lock(&self.waiting).insert(number, sender);
        // After a record, or after its own deadline, nobody waits any more.
        let _forget = Forget { link: self, number };
        if self.gone.is_cancelled() {
            return Err(RemoteError::Gone);
        }
        let asking = async {
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            let order = Order { number, socket, what };
            self.control.send(&order, &descriptors).await.map_err(unsent)?;
            match answer.await {
                Ok(Outcome::Done(stats)) => Ok(stats),
                Ok(Outcome::Refused(reason)) => Err(RemoteError::Refused { reason }),
                Err(_) => Err(RemoteError::Gone),
            }
        };
        timeout(ANSWER, asking).await.unwrap_or(Err(RemoteError::Silent))
    }

    /// Orders a close without waiting: at once if there is room, otherwise by the listening task.
    fn close_later(&self, socket: u64) {
        let order = Order { number: self.number(), socket, what: What::Close };
        match self.control.try_send(&order) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                lock(&self.unclosed).push(socket);
                self.unclosed_more.notify_one();
            }
            // Sent, or the process is gone and the socket with it.
            _ => {}
        }
    }

    /// Sends the closes for which there was no room.
    async fn close_rest(&self) {
        loop {
            let next = lock(&self.unclosed).pop();
            match next {
                Some(socket) => {
                    let order = Order { number: self.number(), socket, what: What::Close };
                    // A socket that failed is noticed by the reading side.
                    let _ = self.control.send(&order, &[]).await;
                }
                None => self.unclosed_more.notified().await,
            }
        }
    }

    fn answered(&self, number: u64, outcome: Outcome) -> Result<(), ControlError> {
        match lock(&self.waiting).remove(&number) {
            // Whoever asked may have left.
            Some(waiting) => drop(waiting.send(outcome)),
            // Somebody asked, and left: the order's number was given out.
            None if number < self.next.load(Relaxed) => {}
            None => return Err(ControlError::Contradiction),
        }
        Ok(())
    }
}

struct Forget<'a> {
    link: &'a Link,
    number: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(&self.link.waiting).remove(&self.number);
    }
}

/// Reads what the proxy says until it ends or breaks a rule.
async fn listen(link: Arc<Link>) {
    let lines = Lines::a_minute(LINES);
    let ended = tokio::select! {
        ended = hear(&link, &lines) => ended,
        () = link.close_rest() => Ok(()),
    };
    if let Err(error) = ended {
        tracing::error!(error = &error as &dyn std::error::Error, "the egress proxy is not understood and is let go");
    }
    link.control.end();
    link.gone.cancel();
    lock(&link.waiting).clear();
}

async fn hear(link: &Link, lines: &Lines) -> Result<(), ControlError> {
    while let Some(packet) = link.control.receive::<Report>().await? {
        if !packet.descriptors.is_empty() {
            return Err(ControlError::Descriptors);
        }
        match packet.message {
            Report::Answer { number, outcome } => link.answered(number, outcome)?,
            Report::Note(record) if !record.is_short() => return Err(ControlError::TooLong),
            Report::Note(record) => match lines.take() {
                Line::Write => record.write(),
                Line::WriteLast => {
                    record.write();
                    Record::new("", "more_is_counted_only").write();
                }
                Line::Leave => {}
            },
        }
    }
    Ok(())
}

fn unsent(error: io::Error) -> RemoteError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected => RemoteError::Gone,
        _ => RemoteError::Send(error),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
