//! A place where nothing runs: every environment and every build is refused at once. What a face does with a turn or a build
//! that fails can be seen on it, and everything else needs no environment.

use std::sync::Arc;

use stead_domain::declared::PackageSpec;
use stead_domain::limit::Reached;
use stead_domain::network::NetworkMode;
use stead_domain::ports::{
    BuildSandbox, BuildSandboxSpec, BuildSandboxes, Checked, Endpoint, Observed, Outcome, PortFuture, Provider,
    ProviderCapabilities, ProviderError, Registries, Runtime, StartSpec, Swept,
};
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};

/// Refuses everything.
pub(crate) struct Nowhere;

fn refused() -> ProviderError {
    ProviderError::permanent("nowhere", "nothing runs here")
}

fn soon<T: Send + 'static>(value: T) -> PortFuture<'static, T> {
    Box::pin(std::future::ready(value))
}

impl Provider for Nowhere {
    fn name(&self) -> &'static str {
        "nowhere"
    }

    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities { networks: NetworkMode::ALL.to_vec(), ..ProviderCapabilities::default() }
    }

    fn create<'a>(
        &'a self,
        _: OperationId,
        _: EnvironmentId,
        _: WorkspaceId,
        _: &'a StartSpec,
    ) -> PortFuture<'a, Outcome<String>> {
        soon(Outcome::Known(Err(refused())))
    }

    fn start<'a>(
        &'a self,
        _: OperationId,
        _: EnvironmentId,
        _: WorkspaceId,
        _: &'a StartSpec,
    ) -> PortFuture<'a, Outcome<String>> {
        soon(Outcome::Known(Err(refused())))
    }

    fn stop(&self, _: OperationId, _: EnvironmentId) -> PortFuture<'_, Outcome<()>> {
        soon(Outcome::Known(Ok(())))
    }

    fn delete(&self, _: OperationId, _: EnvironmentId) -> PortFuture<'_, Outcome<()>> {
        soon(Outcome::Known(Ok(())))
    }

    fn inspect(&self, _: EnvironmentId) -> PortFuture<'_, Result<Observed, ProviderError>> {
        soon(Ok(Observed { exists: false, running: false, last_operation: None, handle: None }))
    }

    fn limits_noted(&self, _: EnvironmentId) -> PortFuture<'_, ()> {
        soon(())
    }

    fn limits_reached(&self, _: EnvironmentId, _: bool) -> PortFuture<'_, Vec<Reached>> {
        soon(Vec::new())
    }

    fn link(&self, _: EnvironmentId) -> PortFuture<'_, Result<Arc<dyn Runtime>, ProviderError>> {
        soon(Err(refused()))
    }

    fn sweep<'a>(&'a self, _: &'a [EnvironmentId]) -> PortFuture<'a, Result<Swept, ProviderError>> {
        soon(Ok(Swept::default()))
    }
}

impl BuildSandboxes for Nowhere {
    fn open(&self, _: BuildSandboxSpec) -> PortFuture<'_, Result<Box<dyn BuildSandbox>, ProviderError>> {
        soon(Err(refused()))
    }

    fn probe<'a>(&'a self, _: &'a Endpoint) -> PortFuture<'a, Result<(), ProviderError>> {
        soon(Err(refused()))
    }

    fn sweep_builds(&self) -> PortFuture<'_, Result<usize, ProviderError>> {
        soon(Ok(0))
    }
}

/// A registry with one package, `known` in version 1.0.
impl Registries for Nowhere {
    fn check<'a>(&'a self, spec: &'a PackageSpec) -> PortFuture<'a, Checked> {
        let version = Some("1.0".to_owned());
        soon(match spec.name() {
            "known" => Checked {
                exists: Some(true),
                latest: version.clone(),
                version: version.clone().filter(|_| !spec.constraint().is_empty()),
                fitting: version,
                error: None,
            },
            "unasked" => Checked::unasked("the registry does not answer"),
            _ => Checked::unknown(),
        })
    }
}
