//! The ports, on top of [`Sessions`] and [`Builds`].
//!
//! Every call runs in a task of its own: a caller that stops waiting does not leave half an operation behind.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use stead_domain::limit::Reached;
use stead_domain::network::NetworkMode;
use stead_domain::ports::{
    BuildSandbox, BuildSandboxSpec, BuildSandboxes, Endpoint, Observed, Outcome, PortFuture, Provider,
    ProviderCapabilities, ProviderError, Runtime, StartSpec, Swept,
};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};
use stead_outbound::Dialer;
use stead_sandbox::cgroup::Controller;
use tracing::Instrument as _;

use crate::adoption::adopt_sessions;
use crate::builds::Builds;
use crate::config::NativeConfig;
use crate::fault::lost;
use crate::host::{self, Host, blocking};
use crate::ids::Users;
use crate::runtime::NativeRuntime;
use crate::sessions::Sessions;
use crate::sweep;

/// Runs environments and builds as sandboxes of this machine. All its calls need a Tokio runtime.
#[derive(Debug, Clone)]
pub struct NativeProvider {
    sessions: Arc<Sessions>,
    builds: Arc<Builds>,
}

impl NativeProvider {
    /// Opens the directories, finds the control groups, and reads and checks the runtime program. Ends nothing: that is
    /// `sweep` and `sweep_builds`. Blocking. `dialer` is the way out of sandboxes whose network is enabled.
    ///
    /// # Errors
    /// Permanent: `native_configuration`, `native_feature_missing`, `data_directory_copied`, `user_ids_taken`, `user_ids_in_use`,
    /// `no_user_ids`, `runtime_missing`, `runtime_changed`, `runtime_unknown`.
    pub fn open(config: NativeConfig, dialer: Arc<Dialer>) -> Result<Self, ProviderError> {
        let host = Arc::new(Host::open(config, dialer)?);
        let sessions = Arc::new(Sessions::open(Arc::clone(&host))?);
        Ok(Self { sessions, builds: Arc::new(Builds::new(host)) })
    }

    /// Finds out what [`open`](Self::open) would refuse of the configuration, the data directory and the runtime program, while
    /// another process may still serve. Changes nothing. Blocking.
    ///
    /// # Errors
    /// As of `open`, but for `native_feature_missing`.
    pub fn check(config: &NativeConfig) -> Result<(), ProviderError> {
        host::check(config)
    }

    /// Ends every session's sandbox that this process runs; the files stay. For an orderly end of the server; builds are
    /// closed by whoever opened them.
    ///
    /// # Errors
    /// The first sandbox that could not be ended; the others are ended all the same.
    pub async fn shutdown(&self) -> Result<(), ProviderError> {
        let mut ends = tokio::task::JoinSet::new();
        for sandbox in self.sessions.all_live() {
            ends.spawn(async move { sandbox.end().await });
        }
        let mut outcome = Ok(());
        while let Some(end) = ends.join_next().await {
            outcome = outcome.and(end.unwrap_or_else(|error| Err(lost(error))));
        }
        self.sessions.host.egress.shut_down().await;
        self.sessions.host.cgroups.retire();
        outcome
    }

    /// Whether a sandbox could be launched, as far as the last ones and the egress proxy tell.
    pub fn is_usable(&self) -> bool {
        self.sessions.host.launches.work() && self.sessions.host.egress.is_up()
    }

    /// Asks the egress proxy what went through the sockets that are open, so that the numbers of it are those of now.
    pub async fn sample_egress(&self) {
        self.sessions.host.egress.sample().await;
    }

    /// Stops watching sessions' sandboxes without ending them, for a service that takes them over; the egress proxy goes on for the
    /// connections that are open, for a bounded time. The last call: nothing may be under way, and nothing is made after it.
    pub async fn let_go(&self) {
        let host = &self.sessions.host;
        if self.sessions.all_live().is_empty() {
            // Nobody is left whose connections could be open.
            host.egress.shut_down().await;
            host.cgroups.retire();
            return;
        }
        host.egress.let_go(host.config.orphan_grace).await;
        for sandbox in self.sessions.all_live() {
            sandbox.let_go();
        }
    }

    /// Carries an operation out whether or not the caller waits for it.
    fn operate<T: Send + 'static>(
        operation: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
    ) -> PortFuture<'static, Outcome<T>> {
        Box::pin(async move {
            match tokio::spawn(operation.in_current_span()).await {
                Ok(outcome) => Outcome::Known(outcome),
                Err(error) => Outcome::Unknown(lost(error)),
            }
        })
    }
}

impl Provider for NativeProvider {
    fn name(&self) -> &str {
        &self.sessions.host.config.name
    }

    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities {
            stop_keeps_files: true,
            mounts_versions: true,
            networks: vec![NetworkMode::Disabled, NetworkMode::Restricted, NetworkMode::Enabled],
            isolation: isolation(self.sessions.host.users, &self.sessions.host.cgroups.missing()),
            session_limits: Some(self.sessions.host.config.limits),
        }
    }

    fn create<'a>(
        &'a self,
        operation: OperationId,
        environment: EnvironmentId,
        workspace: WorkspaceId,
        spec: &'a StartSpec,
    ) -> PortFuture<'a, Outcome<String>> {
        Self::operate(Arc::clone(&self.sessions).create(operation, environment, workspace, spec.clone()))
    }

    fn start<'a>(
        &'a self,
        operation: OperationId,
        environment: EnvironmentId,
        workspace: WorkspaceId,
        spec: &'a StartSpec,
    ) -> PortFuture<'a, Outcome<String>> {
        Self::operate(Arc::clone(&self.sessions).start(operation, environment, workspace, spec.clone()))
    }

    fn stop(&self, _operation: OperationId, environment: EnvironmentId) -> PortFuture<'_, Outcome<()>> {
        Self::operate(Arc::clone(&self.sessions).stop(environment))
    }

    fn delete(&self, _operation: OperationId, environment: EnvironmentId) -> PortFuture<'_, Outcome<()>> {
        Self::operate(Arc::clone(&self.sessions).delete(environment))
    }

    fn inspect(&self, environment: EnvironmentId) -> PortFuture<'_, Result<Observed, ProviderError>> {
        Box::pin(Arc::clone(&self.sessions).inspect(environment))
    }

    fn limits_noted(&self, environment: EnvironmentId) -> PortFuture<'_, ()> {
        Box::pin(async move {
            if let Some(sandbox) = self.sessions.live(environment) {
                sandbox.limits_noted().await;
            }
        })
    }

    /// Memory and processes are counted by the kernel; the disk is measured from time to time.
    fn limits_reached(&self, environment: EnvironmentId, thorough: bool) -> PortFuture<'_, Vec<Reached>> {
        Box::pin(async move {
            match self.sessions.live(environment) {
                Some(sandbox) => sandbox.limits_told(thorough).await,
                None => Vec::new(),
            }
        })
    }

    fn link(&self, environment: EnvironmentId) -> PortFuture<'_, Result<Arc<dyn Runtime>, ProviderError>> {
        Box::pin(async move {
            let not_running = || ProviderError::passing("environment_not_running", "the environment does not run");
            let sandbox = self.sessions.live(environment).ok_or_else(not_running)?;
            let runtime: Arc<dyn Runtime> = Arc::new(NativeRuntime::new(sandbox, None));
            Ok(runtime)
        })
    }

    fn sweep<'a>(&'a self, owned: &'a [EnvironmentId]) -> PortFuture<'a, Result<Swept, ProviderError>> {
        let (sessions, owned): (_, BTreeSet<EnvironmentId>) =
            (Arc::clone(&self.sessions), owned.iter().copied().collect());
        Box::pin(async move {
            // Ahead of the first session; one that finds no proxy starts it itself, and says what is wrong.
            let _ = sessions.host.egress.start().await;
            let adopted = adopt_sessions(&sessions, &owned).await?;
            let egress = Arc::clone(&sessions.host.egress);
            tokio::spawn(async move { egress.clear_let_go().await });
            let ended = blocking(move || sweep::sweep_sessions(&sessions, &owned)).await?;
            Ok(Swept { ended, adopted })
        })
    }
}

impl BuildSandboxes for NativeProvider {
    fn open(&self, spec: BuildSandboxSpec) -> PortFuture<'_, Result<Box<dyn BuildSandbox>, ProviderError>> {
        let opening = tokio::spawn(Arc::clone(&self.builds).open(spec).in_current_span());
        Box::pin(async move { opening.await.unwrap_or_else(|error| Err(lost(error))) })
    }

    fn probe<'a>(&'a self, endpoint: &'a Endpoint) -> PortFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.builds.host.probe(endpoint))
    }

    fn sweep_builds(&self) -> PortFuture<'_, Result<usize, ProviderError>> {
        let builds = Arc::clone(&self.builds);
        Box::pin(blocking(move || sweep::sweep_builds(&builds)))
    }
}

fn isolation(users: Users, missing: &[Controller]) -> String {
    let ids = match users {
        Users::Ranges { .. } => "a user range of its own for each sandbox",
        Users::Own => "one user id for all sandboxes, which is the service's, so that namespaces alone keep them apart",
    };
    let mut text = format!(
        "Linux namespaces, {ids}, read-only system directories, a filter of system calls and Landlock; disk use is measured \
         and bounded softly"
    );
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|controller| format!("{controller:?}").to_lowercase()).collect();
        text.push_str("; bounded softly on this machine: ");
        text.push_str(&names.join(", "));
    }
    text
}
