//! `stead serve`.
//!
//! Order: configuration, data directory and its lock, the parts ([`wiring`]), recovery, the first key, the socket; only then
//! is the server said to be ready. On SIGTERM or SIGINT it stops accepting, lets requests finish for a while, ends streams,
//! and closes the store last.

mod app;
mod data_directory;
mod descriptors;
mod first_key;
mod gate;
mod hosts;
mod listen;
mod logging;
mod native;
mod node;
mod registries;
mod request;
mod upload;
mod wiring;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::client::Failure;
use crate::config::{Flag, Layers, Settings};
use data_directory::DataDirectory;
use listen::Listening;
pub(crate) use wiring::{python_candidates, uv_candidates};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) configuration: ConfigurationArgs,
    /// Where to listen [default: 127.0.0.1:7077]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The program that runs inside each environment [default: stead-runtime beside this program]
    #[arg(long, value_name = "FILE")]
    runtime: Option<PathBuf>,
}

/// Where configuration comes from.
#[derive(Debug, Args)]
pub(crate) struct ConfigurationArgs {
    /// The configuration file [default: stead.toml in the data directory, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
}

impl ConfigurationArgs {
    /// All layers, lowest first, with these flags on top.
    pub(crate) fn settings(&self, mut flags: Vec<Flag>) -> Result<Settings, Failure> {
        let data = match &self.data {
            None => None,
            Some(path) => {
                let absolute =
                    std::path::absolute(path).map_err(|error| Failure::io("find the data directory", &error))?;
                Some(absolute.display().to_string())
            }
        };
        flags.extend(data.map(|value| Flag { key: "data.directory", value, flag: "--data" }));
        let lay_over = |layers: &mut Layers| {
            layers.environment(
                std::env::vars_os()
                    .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
            );
            layers.flags(&flags);
        };
        let mut layers = Layers::new();
        if let Some(file) = &self.config {
            layers.file(file);
        } else {
            let mut first = Layers::new();
            lay_over(&mut first);
            let named = Some(first.peek("data.directory")).filter(|path| !path.is_empty()).map(PathBuf::from);
            let file = named.unwrap_or_else(crate::config::default_data_directory).join("stead.toml");
            if file.exists() {
                layers.file(&file);
            }
        }
        lay_over(&mut layers);
        layers.settings().map_err(|errors| Failure::new(errors.to_string()))
    }
}

/// Serves until a signal ends it.
pub(crate) fn serve(arguments: &ServeArgs) -> Result<(), Failure> {
    let mut flags = Vec::new();
    if let Some(value) = arguments.listen.clone() {
        flags.push(Flag { key: "server.listen", value, flag: "--listen" });
    }
    if let Some(path) = &arguments.runtime {
        let path = std::path::absolute(path).map_err(|error| Failure::io("find the runtime program", &error))?;
        flags.push(Flag { key: "runtime.path", value: path.display().to_string(), flag: "--runtime" });
    }
    let settings = arguments.configuration.settings(flags)?;
    logging::start(&settings.log);
    descriptors::raise();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("start the server", &error))?;
    let served = runtime.block_on(Box::pin(run(settings)));
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    served.map_err(|error| {
        tracing::debug!(error = ?error, "the server ended with an error");
        Failure::new(format!("{error:#}"))
    })
}

async fn run(settings: Settings) -> anyhow::Result<()> {
    let directory = DataDirectory::open(&settings.data_directory)?;
    // Before the parts start anything: an address that is taken is found out first, and connections made meanwhile wait.
    let listener = TcpListener::bind(settings.server.listen)
        .await
        .with_context(|| format!("failed to listen on {}", settings.server.listen))?;
    let address = listener.local_addr().context("failed to read the address listened on")?;

    let parts = wiring::build(&settings).await?;
    parts.engine.start().await.context("failed to settle what an earlier server process left")?;
    first_key::ensure(&parts.engine, directory.path()).await?;

    let stopping = CancellationToken::new();
    let app = app::app(&parts, &settings, address, stopping.clone());
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    let grace = settings.server.shutdown_grace;
    let serving = Listening::default().serve(listener, app, stopping.clone(), grace);
    let serving = tokio::spawn(serving);
    tracing::info!(server.address = %address, "Stead is ready at http://{address}");

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping: requests may finish for {grace:?}");
    stopping.cancel();
    serving.await.context("the task that serves failed")?;
    parts.engine.stop(grace).await;
    parts.close().await;
    tracing::info!("stopped");
    drop(directory);
    Ok(())
}
