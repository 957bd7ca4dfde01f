//! Waits for the end of one sandbox and clears up after it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use stead_domain::ports::ProviderError;
use stead_sandbox::cgroup::CgroupStats;
use stead_sandbox::{Exit, Launched};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tracing::Span;

use crate::egress::Opened;
use crate::fault::failed;
use crate::host::{Host, blocking};
use crate::sandbox::{State, last_words};

/// How long one blocking wait for process 1 lasts, where its descriptor cannot be watched.
const PATIENCE: Duration = Duration::from_mins(1);

/// The one owner of a sandbox's end.
pub(crate) struct Watcher {
    host: Arc<Host>,
    name: String,
    launched: Arc<Launched>,
    egress: Option<Opened>,
    errors: Option<OwnedFd>,
    state: watch::Sender<State>,
}

impl Watcher {
    pub(crate) fn new(
        host: Arc<Host>,
        name: String,
        launched: Arc<Launched>,
        egress: Option<Opened>,
        errors: Option<OwnedFd>,
    ) -> (Self, watch::Receiver<State>) {
        let (state, receiver) = watch::channel(State::Running);
        (Self { host, name, launched, egress, errors, state }, receiver)
    }

    /// Returns when the sandbox has ended and nothing of it is left but its files.
    pub(crate) async fn run(self) {
        let Self { host, name, launched, egress, errors, state } = self;
        wait_until_readable(&launched).await;
        let (owner, subject) = (Arc::clone(&host), name.clone());
        let about = Span::current();
        let cleared = blocking(move || Ok(about.in_scope(|| reap(&owner, &subject, &launched, errors)))).await;
        if let Some(egress) = egress {
            egress.close().await;
        }
        let (stats, mut fault) = cleared.unwrap_or_else(|error| (CgroupStats::default(), Some(error)));
        let removed =
            blocking(move || host.run.remove(&name).map_err(failed("clear a run directory", &host.run.of(&name))));
        fault = fault.or(removed.await.err());
        state.send_replace(State::Ended { stats, fault });
    }
}

async fn wait_until_readable(launched: &Arc<Launched>) {
    match launched.pidfd.try_clone().and_then(watch_descriptor) {
        Ok(pidfd) => {
            if let Err(error) = pidfd.readable().await {
                tracing::warn!(%error, "a sandbox's process cannot be watched any longer");
            }
        }
        Err(error) => tracing::warn!(%error, "a sandbox's process cannot be watched; a thread waits for it"),
    }
}

#[expect(
    deprecated,
    reason = "its replacement is unsafe for types that lend a descriptor they do not keep; this one owns it"
)]
fn watch_descriptor(pidfd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}

fn told(exit: Exit) -> String {
    match exit {
        Exit::Code(status) => format!("status {status}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown => "not known".to_owned(),
    }
}

/// Takes the status of process 1, empties and removes the control group. Blocking.
fn reap(host: &Host, name: &str, launched: &Launched, errors: Option<OwnedFd>) -> (CgroupStats, Option<ProviderError>) {
    let exit = loop {
        match launched.wait(PATIENCE) {
            Ok(None) => {}
            Ok(Some(exit)) => break told(exit),
            Err(error) => break format!("not known: {error}"),
        }
    };
    // What one that was taken over had to say went to whoever launched it.
    let words = errors.map(|errors| last_words(&mut errors.into())).unwrap_or_default();
    tracing::info!(name, exit, words, "a sandbox has ended");
    let stats = host.cgroups.stats(name).unwrap_or_default();
    let cleared = host.cgroups.kill(name).and_then(|()| host.cgroups.remove(name));
    (stats, cleared.map_err(crate::fault::cgroup_failed).err())
}
