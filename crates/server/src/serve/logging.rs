//! Log lines on standard error.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::config::{LogFormat, LogSettings};

/// Starts logging. A second call changes nothing.
pub(super) fn start(settings: &LogSettings) {
    // The level was checked with the rest of the configuration.
    let filter: Targets = settings.level.parse().unwrap_or_default();
    let colour = crate::console::colour();
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colour);
    let lines = match settings.format {
        LogFormat::Text => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let _ = registry().with(lines.with_filter(filter)).try_init();
}
