//! Counting: what one sandbox did, and when a connection last moved a byte.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// How many refused hosts are named.
const REFUSED_HOSTS: usize = 8;

/// What one sandbox did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Connections accepted, those over the limit included.
    pub connections: u64,
    /// Connections open now.
    pub active: u64,
    /// Requests and tunnels refused by a rule.
    pub refused: u64,
    /// Requests and tunnels that failed on the network.
    pub failed: u64,
    /// Bytes the sandbox sent.
    pub bytes_up: u64,
    /// Bytes the sandbox received.
    pub bytes_down: u64,
    /// Hosts that were asked for and that no rule opens, at most eight; with the port where it is the port that is closed.
    pub refused_hosts: BTreeSet<String>,
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) active: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
    refused_hosts: Mutex<BTreeSet<String>>,
}

impl Counters {
    /// Remembers a host that is refused.
    pub(crate) fn refuse(&self, host: String) {
        let mut hosts = self.refused_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() < REFUSED_HOSTS {
            hosts.insert(host);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            connections: self.connections.load(Relaxed),
            active: self.active.load(Relaxed),
            refused: self.refused.load(Relaxed),
            failed: self.failed.load(Relaxed),
            bytes_up: self.up.load(Relaxed),
            bytes_down: self.down.load(Relaxed),
            refused_hosts: self.refused_hosts.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn total(&self) -> u64 {
        self.up.load(Relaxed).saturating_add(self.down.load(Relaxed))
    }
}

/// The traffic of one client connection.
#[derive(Debug)]
pub(crate) struct Traffic {
    counters: Arc<Counters>,
    total_limit: Option<u64>,
    /// Whether the kernel may keep much for it.
    is_wide: bool,
    up: AtomicU64,
    down: AtomicU64,
    since: Instant,
    /// Milliseconds after `since` at which a byte last moved.
    moved: AtomicU64,
}

impl Traffic {
    pub(crate) fn new(counters: Arc<Counters>, total_limit: Option<u64>, is_wide: bool) -> Self {
        let (up, down, moved) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { counters, total_limit, is_wide, up, down, since: Instant::now(), moved }
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.is_wide
    }

    pub(crate) fn up(&self) -> u64 {
        self.up.load(Relaxed)
    }

    pub(crate) fn down(&self) -> u64 {
        self.down.load(Relaxed)
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.total_limit.is_some_and(|limit| self.counters.total() >= limit)
    }

    /// Returns once no byte has moved for `limit`.
    pub(crate) async fn idle(&self, limit: Duration) {
        self.touch();
        loop {
            let deadline = self.since + Duration::from_millis(self.moved.load(Relaxed)) + limit;
            if Instant::now() >= deadline {
                return;
            }
            sleep_until(deadline).await;
        }
    }

    fn touch(&self) {
        self.moved.store(self.since.elapsed().as_millis() as u64, Relaxed);
    }

    /// Notes bytes that moved up without a [`Counted`] reader; fails when the limit is used up.
    pub(crate) fn sent(&self, count: u64) -> io::Result<()> {
        self.up.fetch_add(count, Relaxed);
        self.counters.up.fetch_add(count, Relaxed);
        self.touch();
        self.check()
    }

    /// Notes bytes that moved down without a [`Counted`] writer; fails when the limit is used up.
    pub(crate) fn received(&self, count: u64) -> io::Result<()> {
        self.down.fetch_add(count, Relaxed);
        self.counters.down.fetch_add(count, Relaxed);
        self.touch();
        self.check()
    }

    fn check(&self) -> io::Result<()> {
        if self.is_exhausted() { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
    }
}

/// The client's side of a connection: what is read went up, what is written went down.
#[derive(Debug)]
pub(crate) struct Counted<S> {
    inner: S,
    traffic: Arc<Traffic>,
}

impl<S> Counted<S> {
    pub(crate) fn new(inner: S, traffic: Arc<Traffic>) -> Self {
        Self { inner, traffic }
    }

    /// The stream itself, for the answer that tells of a used-up limit.
    pub(crate) fn uncounted(&mut self) -> &mut S {
        &mut self.inner
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.traffic.check()?;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        // What was read counts and stays usable; a used-up limit fails the next call.
        let _ = self.traffic.sent((buffer.filled().len() - before) as u64);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.traffic.check()?;
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        // What was written is out; a used-up limit fails the next call.
        let _ = self.traffic.received(written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
