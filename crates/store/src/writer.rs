//! The one task that writes, with group commit.
//!
//! ```text
//! commit() ─queue→ take what is there (at most GROUP) → BEGIN → for each: SAVEPOINT, apply, RELEASE | ROLLBACK TO
//!                                                            → COMMIT, one fsync for all → answer each
//! ```
//!
//! Nobody is answered before the transaction is durable. A conflict rolls back its own commit alone. When the database is
//! lost, everybody in the group hears so, because nobody knows how it ended; the next group connects again. A server that has
//! the database for itself connects again also when nobody writes, and gives up for good when another one was faster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stead_domain::Timestamp;
use stead_domain::changes::Changes;
use stead_domain::ports::{Clock, CommitError, Committed, StoreError};
use tokio::sync::{mpsc, oneshot, watch};

use crate::apply::{Refusal, apply};
use crate::claim::{Claim, ClaimError};
use crate::columns::Reader;
use crate::config::{DatabaseUrl, Relief};
use crate::driver::{Connection, DriverError, Fault};

/// Commits in one transaction at most.
const GROUP: usize = 256;
/// Commits that wait in the queue at most; more wait to enter it.
const QUEUE: usize = 1024;
/// After this long a group counts as lost. An import of a hundred thousand files takes a few seconds.
const DEADLINE: Duration = Duration::from_mins(2);
/// How often the lock of a database that is this server's alone is looked after while nobody writes.
const LOOK: Duration = Duration::from_secs(2);

/// PostgreSQL's own clock, in microseconds.
pub(crate) const DATABASE_CLOCK: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";

type Answer = oneshot::Sender<Result<Committed, CommitError>>;
/// When a group became durable, and what came of each commit in it.
type Outcomes = (Timestamp, Vec<Result<u64, Refusal>>);

enum Message {
    Commit(Changes, Answer),
    Close(oneshot::Sender<()>),
}

/// What the writer has done since the store opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Commits that became durable.
    pub(crate) commits: AtomicU64,
    /// Transactions that made them so.
    pub(crate) groups: AtomicU64,
}

/// The way to the writer.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: mpsc::Sender<Message>,
}

/// The writer's state.
pub(crate) struct Writer {
    /// Where to connect again.
    pub(crate) url: DatabaseUrl,
    /// What the database knows its connections by.
    pub(crate) name: String,
    /// None after it was lost.
    pub(crate) connection: Option<Connection>,
    /// What makes the database this server's alone, if it is.
    pub(crate) claim: Option<Claim>,
    /// Whether another server has it.
    pub(crate) taken: Taken,
    /// Who is asked for room when there is none.
    pub(crate) relief: Option<Arc<dyn Relief>>,
    /// The clock of a database that has none of its own.
    pub(crate) clock: Arc<dyn Clock>,
    /// What it counts.
    pub(crate) counters: Arc<Counters>,
}

/// Whether another server has taken the database, and which.
#[derive(Debug, Clone)]
pub(crate) struct Taken(Arc<watch::Sender<Option<String>>>);

impl Default for Taken {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Taken {
    /// Returns when one has.
    pub(crate) async fn wait(&self) -> String {
        let mut holders = self.0.subscribe();
        match holders.wait_for(Option::is_some).await {
            Ok(holder) => holder.clone().unwrap_or_default(),
            // The sender lives as long as this.
            Err(_) => std::future::pending().await,
        }
    }
}

/// The writer ended, by closing or by a fault.
#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
struct Closed;

fn lost(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CommitError {
    CommitError::Store(StoreError { action: "commit", source: source.into() })
}

impl Inbox {
    /// Queues a commit and waits for its outcome. One that changes nothing asks whether the writer works, and is not counted.
    pub(crate) async fn commit(&self, changes: Changes) -> Result<Committed, CommitError> {
        let (answer, outcome) = oneshot::channel();
        let (began, counts) = (Instant::now(), changes != Changes::default());
        self.queue.send(Message::Commit(changes, answer)).await.map_err(|_| lost(Closed))?;
        let outcome = outcome.await.unwrap_or_else(|_| Err(lost(Closed)));
        if counts {
            metrics::histogram!("stead_store_commit_duration_seconds").record(began.elapsed().as_secs_f64());
        }
        match &outcome {
            Err(CommitError::Conflict(_)) => metrics::counter!("stead_store_conflicts_total").increment(1),
            Err(CommitError::Store(_)) => metrics::counter!("stead_store_failures_total").increment(1),
            Ok(_) => {}
        }
        outcome
    }

    /// Lets the writer finish what is queued, disconnect and end.
    pub(crate) async fn close(&self) {
        let (done, ended) = oneshot::channel();
        if self.queue.send(Message::Close(done)).await.is_ok() {
            // An error says that it ended before it read the message.
            let _ = ended.await;
        }
    }
}

impl Writer {
    /// Starts the task; it ends when it is told to or when every way to it is gone.
    pub(crate) fn start(self) -> Inbox {
        let (queue, inbox) = mpsc::channel(QUEUE);
        tokio::spawn(self.run(inbox));
        Inbox { queue }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        let mut messages = Vec::with_capacity(GROUP);
        let mut closing = Vec::new();
        while closing.is_empty() {
            tokio::select! {
                biased;
                received = inbox.recv_many(&mut messages, GROUP) => {
                    if received == 0 {
                        break;
                    }
                }
                () = tokio::time::sleep(LOOK), if self.holds() => {
                    Box::pin(self.look_after()).await;
                    continue;
                }
            }
            let (mut changes, mut answers) = (Vec::new(), Vec::new());
            for message in messages.drain(..) {
                match message {
                    Message::Commit(change, answer) => {
                        changes.push(change);
                        answers.push(answer);
                    }
                    Message::Close(done) => closing.push(done),
                }
            }
            if !changes.is_empty() {
                Box::pin(self.group(&changes, answers)).await;
            }
        }
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::debug!(error = &error as &dyn std::error::Error, "the database was gone before the store closed");
        }
        drop(inbox);
        for done in closing {
            // Whoever asked may have stopped waiting.
            let _ = done.send(());
        }
    }

    /// Carries out a group and answers everybody in it.
    async fn group(&mut self, changes: &[Changes], answers: Vec<Answer>) {
        // A caller that stopped waiting is not an error: its commit stands or falls with the others.
        match self.carry_out_with_room(changes).await {
            Ok((at, outcomes)) => {
                for (outcome, answer) in outcomes.into_iter().zip(answers) {
                    let _ = answer.send(match outcome {
                        Ok(removed) => Ok(Committed { at, removed }),
                        Err(Refusal::Conflict(table)) => Err(CommitError::Conflict(table)),
                        Err(Refusal::Failed(source)) => Err(lost(source)),
                    });
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for answer in answers {
                    let _ = answer.send(Err(lost(Arc::clone(&error))));
                }
            }
        }
    }

    /// Once more when that was for want of room and somebody has made some.
    async fn carry_out_with_room(&mut self, changes: &[Changes]) -> Result<Outcomes, ClaimError> {
        let outcome = self.carry_out(changes).await;
        let Some(relief) = &self.relief else { return outcome };
        let fault = match &outcome {
            Err(error) => Some(Fault::of(error)),
            Ok((_, outcomes)) => {
                let failed = outcomes.iter().find_map(|outcome| match outcome {
                    Err(Refusal::Failed(error)) => Some(Fault::of(error.as_ref())),
                    _ => None,
                });
                let is_undone = outcomes.iter().all(Result::is_err);
                failed.map(|fault| Fault { is_undone: is_undone && fault.is_undone, ..fault })
            }
        };
        match fault {
            Some(fault) if relief.make_room(fault.is_full) && fault.is_undone => self.carry_out(changes).await,
            _ => outcome,
        }
    }

    /// On an error the connection is dropped, and with it the transaction unless its commit had arrived.
    async fn carry_out(&mut self, changes: &[Changes]) -> Result<Outcomes, ClaimError> {
        let mut connection = self.begun().await?;
        let outcome = tokio::time::timeout(DEADLINE, self.transaction(&mut connection, changes)).await;
        let outcome = outcome.map_err(|_| DriverError::Late)?.map_err(DriverError::from)?;
        self.connection = Some(connection);
        Ok(outcome)
    }

    /// A connection with an open transaction. The old connection may have died while it was idle; then nothing was begun,
    /// and a new one is as good.
    async fn begun(&mut self) -> Result<Connection, ClaimError> {
        if let Some(mut connection) = self.connection.take() {
            match connection.begin().await {
                Ok(()) => return Ok(connection),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "the database connection was lost; connecting again");
                    metrics::counter!("stead_store_reconnects_total").increment(1);
                }
            }
        }
        let mut connection = self.connect().await?;
        connection.begin().await?;
        Ok(connection)
    }

    /// A new connection, which has the database for this server.
    async fn connect(&mut self) -> Result<Connection, ClaimError> {
        if let Some(holder) = &*self.taken.0.borrow() {
            return Err(ClaimError::Held(holder.clone()));
        }
        let mut connection = Connection::open(&self.url, &self.name).await?;
        if let Some(claim) = &mut self.claim
            && let Err(error) = claim.take(&mut connection).await
        {
            if let ClaimError::Held(holder) = &error {
                tracing::error!(holder, "another server has taken the database; nothing is written any more");
                self.taken.0.send_replace(Some(holder.clone()));
            }
            return Err(error);
        }
        connection.bound().await?;
        Ok(connection)
    }

    /// Whether there is a lock to look after.
    fn holds(&self) -> bool {
        self.claim.is_some() && matches!(self.url, DatabaseUrl::Postgres(_)) && self.taken.0.borrow().is_none()
    }

    /// Connects again if the connection was lost while nobody wrote.
    async fn look_after(&mut self) {
        if let Some(connection) = &mut self.connection {
            match connection.command("SELECT 1").await {
                Ok(()) => return,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "the database connection was lost while it was idle; connecting again");
                    metrics::counter!("stead_store_reconnects_total").increment(1);
                    self.connection = None;
                }
            }
        }
        match self.connect().await {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "the database does not answer"),
        }
    }

    async fn transaction(&self, connection: &mut Connection, changes: &[Changes]) -> Result<Outcomes, sqlx::Error> {
        // A commit that is alone in its group is the whole transaction and needs no savepoint.
        let alone = changes.len() == 1;
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            if !alone {
                connection.command("SAVEPOINT one").await?;
            }
            let outcome = apply(connection, change).await;
            if !alone {
                if outcome.is_err() {
                    connection.command("ROLLBACK TO SAVEPOINT one").await?;
                }
                connection.command("RELEASE SAVEPOINT one").await?;
            }
            outcomes.push(outcome);
        }
        let durable = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
        if durable == 0 {
            connection.command("ROLLBACK").await?;
            return Ok((Timestamp::default(), outcomes));
        }
        let at = self.now(connection).await?;
        let began = Instant::now();
        connection.command("COMMIT").await?;
        let made =
            changes.iter().zip(&outcomes).filter(|(change, outcome)| outcome.is_ok() && **change != Changes::default());
        let made = made.count() as u64;
        if made > 0 {
            metrics::histogram!("stead_store_sync_duration_seconds").record(began.elapsed().as_secs_f64());
            metrics::counter!("stead_store_commits_total").increment(made);
            metrics::counter!("stead_store_groups_total").increment(1);
            self.counters.commits.fetch_add(made, Ordering::Relaxed);
            self.counters.groups.fetch_add(1, Ordering::Relaxed);
        }
        Ok((at, outcomes))
    }

    async fn now(&self, connection: &mut Connection) -> Result<Timestamp, sqlx::Error> {
        if matches!(connection, Connection::Sqlite(_)) {
            return Ok(self.clock.now());
        }
        let rows = connection.rows(DATABASE_CLOCK).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        Reader::new(row).take().map_err(|error| sqlx::Error::Decode(Box::new(error)))
    }
}
