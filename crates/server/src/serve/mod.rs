//! `stead serve`.
//!
//! Order: configuration, data directory with its lock and the listening socket ([`entering`]), the parts ([`wiring`]), recovery,
//! the first key; only then is the server said to be ready. When it shall end ([`leaving`], or a successor on [`control`]) it stops
//! accepting, lets requests finish for a while, ends streams, hands its sessions over or stops them, and closes the store last.

mod app;
mod ballast;
mod belonging;
mod control;
mod data_directory;
mod descriptors;
mod entering;
mod first_key;
mod gate;
mod health;
mod hosts;
mod leaving;
mod line;
mod listen;
mod logging;
mod metrics;
mod monitoring;
mod native;
mod node;
mod observed;
mod places;
mod registries;
mod request;
#[cfg(feature = "otlp")]
mod telemetry;
mod tools;
mod upload;
mod use_cases;
mod wiring;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::Failure;
use crate::config::{Flag, Layers, Settings};
use control::Control;
pub(crate) use descriptors::{Verdict as OpenFiles, verdict as open_files};
use entering::Entered;
use leaving::{Ending, Signals};
use listen::Listening;
pub(crate) use native::{check_runtime, left_over};
use wiring::Parts;
pub(crate) use wiring::{python_candidates, uv_candidates};

/// How long requests may go on by themselves when everything is ended.
const REQUESTS: Duration = Duration::from_millis(300);
/// How long requests may take to say what came of things when everything has ended.
const TOLD: Duration = Duration::from_secs(1);
/// How long before the end of the grace requests that wait for a task's end are answered with the task as it is.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How long the sandboxes may take to be let go of when nothing else can be done.
const LETTING_GO: Duration = Duration::from_secs(10);

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
    /// Take the place of a server that runs on this data directory: it hands its sessions over, and no connection is refused
    #[arg(long)]
    take_over: bool,
}

/// Where configuration comes from.
#[derive(Debug, Args)]
pub(crate) struct ConfigurationArgs {
    /// The configuration file [default: stead.toml in the data directory, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory [default: /var/lib/stead for root, else ~/.local/share/stead]
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
    let _logging = logging::start(&settings)?;
    descriptors::raise(&settings).map_err(|error| Failure::new(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("start the server", &error))?;
    let data = settings.data_directory.clone();
    let served = runtime.block_on(Box::pin(run(settings, arguments.take_over)));
    runtime.shutdown_timeout(Duration::from_secs(2));
    served.map_err(|error| data_directory::say_if_full(error, &data)).map_err(|error| {
        tracing::debug!(error = ?error, "the server ended with an error");
        Failure::new(format!("{error:#}"))
    })
}

async fn run(settings: Settings, take_over: bool) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let Entered { directory, ballast, listener, address, watching } = tokio::select! {
        entered = entering::enter(&settings, take_over) => entered?,
        ending = signals.first() => {
            tracing::info!(%ending, "ended before anything was started");
            return Ok(());
        }
    };
    ballast.keep();
    let numbers = metrics::start()?;
    let parts = wiring::build(&settings, &ballast).await?;
    let stopping = CancellationToken::new();
    let monitoring = parts.monitoring(numbers, settings.data_directory.clone(), stopping.clone(), &ballast);
    let watched = monitoring::listen(monitoring.clone(), watching.as_ref())?;
    let grace = settings.server.shutdown_grace;
    let begun = async {
        parts.engine.start().await.context("failed to settle what an earlier server process left")?;
        let workspace = first_key::ensure(&parts.engine, directory.path()).await?;
        belonging::note(directory.path(), workspace)?;
        monitoring.health.recovered();
        let app = app::app(&parts, &settings, address, stopping.clone(), monitoring, ballast.short())
            .context("failed to describe the routes")?;
        let control = Control::open(&directory.path().join("run"), &listener, watching.as_ref(), grace)?;
        anyhow::Ok((app, control))
    };
    let begun = tokio::select! {
        biased;
        holder = parts.database_taken() => return Err(usurped(&parts, &holder).await),
        begun = begun => begun,
    };
    let (app, control) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            give_up(&parts, grace).await;
            return Err(error);
        }
    };
    let serving = tokio::spawn(Listening::default().serve(listener, app, stopping.clone(), grace));
    tracing::info!(server.address = %address, "Stead is ready at http://{address}");
    parts.look_for_tools(&settings);

    let ending = tokio::select! {
        ending = signals.first() => ending,
        () = control.asked() => Ending::HandOver,
        holder = parts.database_taken() => return Err(usurped(&parts, &holder).await),
    };
    match ending {
        Ending::HandOver => tracing::info!(%ending, "stopping: requests may finish for {grace:?}"),
        Ending::Everything => tracing::info!(%ending, "stopping: what runs is ended now"),
    }
    stopping.cancel();
    drop(control);
    end(&parts, ending, grace, serving, &mut signals).await?;
    // Until here it was there to be told that the server stops.
    drop(watched);
    drop(directory);
    Ok(())
}

/// Another server has the database: this one must not go on, and can write nothing of how it ends. To the next process on this data
/// directory it looks as after a crash.
async fn usurped(parts: &Parts, holder: &str) -> anyhow::Error {
    if tokio::time::timeout(LETTING_GO, parts.abandon()).await.is_err() {
        tracing::warn!("the sandboxes were not let go of in time");
    }
    anyhow::anyhow!(
        "another server ({holder}) took the database while this one had no connection to it; nothing was written since, and this \
         server ends as in a crash. Give each server a database of its own, and start this one again"
    )
}

/// Ends what runs, in good order. A signal meanwhile means that everything shall end, and soon.
async fn end(
    parts: &Parts,
    ending: Ending,
    grace: Duration,
    mut serving: JoinHandle<()>,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let until = Instant::now() + grace;
    let answered = async {
        if ending == Ending::Everything {
            // What a request waits for shall end as well.
            let _ = tokio::time::timeout(REQUESTS, &mut serving).await;
            return Ok(());
        }
        let late = until - LAST_ANSWERS.min(grace / 4);
        match tokio::time::timeout_at(late, &mut serving).await {
            Ok(served) => served,
            Err(_) => {
                parts.engine.answer_waiting();
                (&mut serving).await
            }
        }
    };
    let handed_over = tokio::select! {
        served = answered => {
            served.context("the task that serves failed")?;
            if ending == Ending::HandOver {
                tokio::select! {
                    handed_over = parts.hand_over(until, grace) => handed_over,
                    () = signals.another() => false,
                }
            } else {
                false
            }
        }
        () = signals.another() => {
            tracing::warn!("another signal: everything is ended now");
            serving.abort();
            false
        }
    };
    if !handed_over {
        let left = until.saturating_duration_since(Instant::now()).max(LETTING_GO.min(grace));
        parts.engine.stop(left).await;
        // Whoever waited for what has ended is told by now. Who sends or takes half of something is not waited for.
        if !serving.is_finished() && tokio::time::timeout(TOLD, &mut serving).await.is_err() {
            serving.abort();
        }
        parts.end_sandboxes().await;
    }
    parts.close().await;
    tracing::info!(handed_over, "stopped");
    Ok(())
}

/// Leaves what was taken over already to the next start: this one has failed behind it.
async fn give_up(parts: &Parts, grace: Duration) {
    if !parts.hand_over(Instant::now(), grace).await {
        parts.engine.stop(grace).await;
        parts.end_sandboxes().await;
    }
    parts.close().await;
}
