//! The port, carried out.

use std::sync::Arc;
use std::time::Duration;

use stead_domain::declared::{PackageManager, PackageSpec};
use stead_domain::ports::{Checked, PortFuture, Registries};
use stead_outbound::Dialer;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::address::Address;
use crate::apt::Apt;
use crate::cache::{Cache, Key};
use crate::config::{InvalidConfig, RegistryConfig};
use crate::failure::Failure;
use crate::fetch::Fetcher;
use crate::listing::Listing;
use crate::node::{self, NodePackage};
use crate::python::{self, PythonPackage};

/// The longest a question may take, waiting for its turn included.
const PATIENCE: Duration = Duration::from_secs(10);
/// Questions under way at once. Each may hold an answer of 32 MiB.
const AT_ONCE: usize = 6;

/// Asks registries about packages.
pub struct RegistryClient {
    config: RegistryConfig,
    /// The index in effect, once it is known.
    index: OnceCell<Option<String>>,
    fetcher: Fetcher,
    apt: Apt,
    cache: Cache,
    places: Semaphore,
    patience: Duration,
}

impl RegistryClient {
    /// Prepares a client; nothing is asked yet. Blocking, since it reads certificate authorities. The process's provider of
    /// cryptography must be installed before.
    pub fn open(config: RegistryConfig, dialer: Arc<Dialer>) -> Result<Self, InvalidConfig> {
        Ok(Self {
            fetcher: Fetcher::new(&config, dialer)?,
            config,
            index: OnceCell::new(),
            apt: Apt::default(),
            cache: Cache::default(),
            places: Semaphore::new(AT_ONCE),
            patience: PATIENCE,
        })
    }

    async fn listing(&self, spec: &PackageSpec) -> Result<Arc<Listing>, Failure> {
        let manager = spec.manager();
        let name = match manager {
            PackageManager::Pip => python::normalized(spec.name()),
            PackageManager::Npm | PackageManager::Apt => spec.name().to_owned(),
        };
        let key: Key = (manager, name);
        if let Some(listing) = self.cache.get(&key) {
            return Ok(listing);
        }
        let deadline = Instant::now() + self.patience;
        let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err(Failure::Busy);
        };
        let asked = timeout_at(deadline, async {
            match manager {
                PackageManager::Pip => self.ask_index(&key.1).await,
                PackageManager::Npm => self.ask_npm(&key.1).await,
                PackageManager::Apt => Ok(self.apt.ask(&key.1).await?.map_or(Listing::Absent, Listing::Apt)),
            }
        });
        let listing = Arc::new(asked.await.unwrap_or(Err(Failure::TimedOut))?);
        self.cache.put(key, Arc::clone(&listing));
        Ok(listing)
    }

    async fn ask_index(&self, name: &str) -> Result<Listing, Failure> {
        let address = Address::parse(&self.index().await.ok_or(Failure::Unconfigured)?)?;
        let Some(page) = self.fetcher.get(&address, &format!("{name}/"), python::ACCEPT).await? else {
            return Ok(Listing::Absent);
        };
        let name = name.to_owned();
        reading(move || PythonPackage::read(&name, &page).map(Listing::Python)).await
    }

    async fn ask_npm(&self, name: &str) -> Result<Listing, Failure> {
        let address = Address::parse(self.config.npm_registry.as_deref().ok_or(Failure::Unconfigured)?)?;
        let Some(document) = self.fetcher.get(&address, &node::path(name), node::ACCEPT).await? else {
            return Ok(Listing::Absent);
        };
        reading(move || Ok(NodePackage::read(&document.body)?.map_or(Listing::Absent, Listing::Node))).await
    }

    /// The operator's index, else pip's default, which is asked for once.
    async fn index(&self) -> Option<String> {
        if let Some(index) = &self.config.python_index {
            return Some(index.clone());
        }
        let ask = self.config.python_default;
        let asked = self.index.get_or_init(|| async move {
            // A thread that panicked knows no index.
            tokio::task::spawn_blocking(ask).await.ok().flatten()
        });
        asked.await.clone()
    }
}

/// Reads a large answer off the asynchronous threads.
async fn reading(read: impl FnOnce() -> Result<Listing, Failure> + Send + 'static) -> Result<Listing, Failure> {
    tokio::task::spawn_blocking(read).await.unwrap_or(Err(Failure::Unreadable))
}

impl Registries for RegistryClient {
    fn check<'a>(&'a self, spec: &'a PackageSpec) -> PortFuture<'a, Checked> {
        Box::pin(async move {
            match self.listing(spec).await {
                Ok(listing) => listing.check(spec),
                Err(failure) => Checked::unasked(failure.to_string()),
            }
        })
    }
}

impl std::fmt::Debug for RegistryClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The configuration may hold credentials.
        formatter.debug_struct("RegistryClient").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
