//! One sandbox's socket while it is served: accepting, counting, and the end of all its connections.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use stead_outbound::Dialer;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::connection::{Shared, serve};
use crate::counters::Counters;
use crate::journal::{Journal, Record};
use crate::refusal::Refusal;
use crate::shares::{Holding, Shares};
use crate::{Policy, RefusalCode, Stats};

/// Connections of a sandbox at once for which the kernel may keep much; it is nobody's account. The others are as good and slower.
const WIDE_CONNECTIONS: usize = 16;
/// Pause after a failed accept, which usually means that descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A socket that is served. Dropping it ends the serving soon; its connections are cut with it.
#[derive(Debug)]
pub(crate) struct Listening {
    counters: Arc<Counters>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Listening {
    /// Serves a listening socket under `policy`. Call it inside a Tokio runtime.
    pub(crate) fn start(
        listener: UnixListener,
        policy: Policy,
        dialer: Arc<Dialer>,
        shares: &Arc<Shares>,
        journal: Journal,
    ) -> Self {
        let room = shares.socket();
        let shared = Arc::new(Shared::new(policy, dialer, shares, journal));
        let (counters, stop) = (Arc::clone(&shared.counters), CancellationToken::new());
        let task = tokio::spawn(accept(listener, shared, stop.clone(), room));
        Self { counters, stop, task: Some(task) }
    }

    /// What went through so far.
    pub(crate) fn stats(&self) -> Stats {
        self.counters.stats()
    }

    /// Ends the serving and returns when the last connection is cut, with the final numbers.
    pub(crate) async fn close(mut self) -> Stats {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // The task ends by itself; a panic in it has nothing to tell that matters now.
            let _ = task.await;
        }
        self.counters.stats()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Accepts until stopped. The set of connections dies with this task, and every connection with the set.
async fn accept(listener: UnixListener, shared: Arc<Shared>, stop: CancellationToken, _room: Holding) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {
                shared.counters.active.store(connections.len() as u64, Relaxed);
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    shared.counters.connections.fetch_add(1, Relaxed);
                    let fits = connections.len() < shared.policy.limits.connections;
                    if let Some(room) = fits.then(|| shared.share.connection()).flatten() {
                        let is_wide = connections.len() < WIDE_CONNECTIONS;
                        connections.spawn(serve(stream, Arc::clone(&shared), is_wide, room));
                        shared.counters.active.store(connections.len() as u64, Relaxed);
                    } else {
                        turn_away(&stream, &shared);
                    }
                }
                Err(error) => {
                    shared.write_refusal(Record::warning(&shared.policy.label, "accept_failed", &error));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    connections.shutdown().await;
    shared.counters.active.store(0, Relaxed);
}

/// Answers without waiting: a client beyond the limit must not cost a task.
fn turn_away(stream: &UnixStream, shared: &Shared) {
    shared.note(RefusalCode::TooManyConnections, None);
    // A fresh socket has room for the answer; if not, the close alone has to do.
    let _ = stream.try_write(&Refusal::from(RefusalCode::TooManyConnections).answer());
}
