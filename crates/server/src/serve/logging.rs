//! Log lines on standard error: text for people, or one JSON object per line.
//!
//! What is logged names things by their ids and routes, and quotes nothing that a caller sent: no secret and no content, at no
//! level. For the libraries in use nobody can promise that, so what they say below a warning is left out unless a directive
//! names them.

mod json;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use super::use_cases;
use crate::client::Failure;
use crate::config::{LogFormat, Settings};

/// What the targets of this program's own crates begin with.
const OWN: &str = "stead";

/// What logging needs for as long as there is something to log.
#[derive(Debug, Default)]
pub(super) struct Logging {
    #[cfg(feature = "otlp")]
    _sending: Option<super::telemetry::Sending>,
}

/// Starts logging, and the export of spans where that is wanted. A second call changes nothing.
pub(super) fn start(settings: &Settings) -> Result<Logging, Failure> {
    let log = &settings.log;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match log.format {
        LogFormat::Text => lines.with_ansi(crate::console::colour()).with_target(false).boxed(),
        LogFormat::Json => lines.fmt_fields(json::Fields).event_format(json::Line).boxed(),
    };
    let filter = filter(&log.level).map_err(|error| Failure::new(format!("log.level: {error:#}")))?;
    let layers = registry().with(lines.with_filter(filter)).with(use_cases::layer());
    #[cfg(feature = "otlp")]
    if let Some(endpoint) = &settings.otlp_endpoint {
        let (spans, sending) = super::telemetry::layer(endpoint).map_err(|error| Failure::new(format!("{error:#}")))?;
        let _ = layers.with(spans).try_init();
        return Ok(Logging { _sending: Some(sending) });
    }
    let _ = layers.try_init();
    Ok(Logging::default())
}

/// Which lines there are: a level alone is that of this program's own crates.
fn filter(level: &str) -> anyhow::Result<Targets> {
    let wanted: Targets = level.parse()?;
    let Some(level) = wanted.default_level() else { return Ok(wanted) };
    let named = wanted.iter().any(|(target, _)| target == OWN);
    let filter = wanted.with_default(level.min(LevelFilter::WARN));
    let filter = if named { filter } else { filter.with_target(OWN, level) };
    // They are there to be measured, and would stand in every line.
    Ok(filter.with_target(use_cases::TARGET, LevelFilter::OFF))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_level_is_for_our_own_crates_and_directives_are_for_whom_they_name() {
        for (text, target, level, there) in [
            ("trace", "stead_engine::turns", Level::TRACE, true),
            ("trace", "stead_server", Level::TRACE, true),
            ("trace", "hyper::proto", Level::INFO, false),
            ("trace", "sqlx", Level::WARN, true),
            ("error", "sqlx", Level::WARN, false),
            ("error", "stead_engine", Level::WARN, false),
            ("WARN", "stead_engine", Level::WARN, true),
            ("info,hyper=debug", "hyper::proto", Level::DEBUG, true),
            ("info,stead_engine=debug", "stead_engine", Level::DEBUG, true),
            ("info,stead_engine=debug", "stead_store", Level::DEBUG, false),
            ("stead_engine=debug", "stead_engine", Level::DEBUG, true),
            ("stead_engine=debug", "sqlx", Level::WARN, false),
        ] {
            assert_eq!(filter(text).unwrap().would_enable(target, &level), there, "{text}: {target} at {level}");
        }
    }
}
