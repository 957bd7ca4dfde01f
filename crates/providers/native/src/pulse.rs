//! Notices a runtime that is there and says nothing: somebody on the host has stopped it, or it hangs.
//!
//! Whoever waits for a runtime asks it from time to time whether it lives. One that does not say so has its sandbox ended from outside,
//! which whoever waits then sees as a lost connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use stead_link::Client;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::sandbox::Sandbox;

/// How long a runtime may say nothing before it is asked.
const QUIET: Duration = Duration::from_secs(15);
/// How long it may take to answer: while it kills everything, which takes up to ten seconds, it does nothing else.
const ANSWER: Duration = Duration::from_secs(20);
/// How long it has the second time. This process itself may have stood still the first time.
const AGAIN: Duration = Duration::from_secs(5);

/// What is known of a runtime that is waited for.
pub(crate) struct Pulse {
    sandbox: Arc<Sandbox>,
    client: Client,
    heard: Instant,
    asking: Option<JoinHandle<()>>,
}

impl Pulse {
    pub(crate) fn new(sandbox: &Arc<Sandbox>, client: &Client) -> Self {
        Self { sandbox: Arc::clone(sandbox), client: client.clone(), heard: Instant::now(), asking: None }
    }

    /// It has said something.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Asks whenever nothing was heard for a while, as long as it is polled. Dropping it loses nothing.
    pub(crate) async fn feel(&mut self) -> Infallible {
        loop {
            tokio::time::sleep_until(self.heard + QUIET).await;
            if self.asking.as_ref().is_none_or(JoinHandle::is_finished) {
                self.asking = Some(tokio::spawn(ask(Arc::clone(&self.sandbox), self.client.clone())));
            }
            self.heard();
        }
    }
}

async fn ask(sandbox: Arc<Sandbox>, client: Client) {
    for time in [ANSWER, AGAIN] {
        // A connection that is lost is somebody else's to see.
        if tokio::time::timeout(time, client.ping()).await.is_ok() {
            return;
        }
    }
    tracing::error!(name = sandbox.name, "a runtime is there and says nothing; its sandbox is ended");
    // A fault is logged.
    let _ = sandbox.end().await;
}

/// What comes of `work`, which waits for the runtime; its sandbox is ended when it says nothing.
pub(crate) async fn while_alive<T>(sandbox: &Arc<Sandbox>, client: &Client, work: impl Future<Output = T>) -> T {
    let mut pulse = Pulse::new(sandbox, client);
    tokio::select! {
        value = work => value,
        never = pulse.feel() => match never {},
    }
}
