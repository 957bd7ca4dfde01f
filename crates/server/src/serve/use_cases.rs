//! How long the engine's use cases take. Each is a span of its own target; what is measured is the span's life.

use std::time::Instant;

use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The target of these spans.
pub(super) const TARGET: &str = "stead::use_case";

/// When a use case began.
struct Began(Instant);

struct Measure;

/// Measures use cases, and sees nothing else.
pub(super) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    Measure.with_filter(filter_fn(|about: &Metadata<'_>| about.is_span() && about.target() == TARGET))
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Measure {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Began(Instant::now()));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(Began(began)) = span.extensions().get::<Began>() {
            let seconds = began.elapsed().as_secs_f64();
            metrics::histogram!("stead_use_case_duration_seconds", "use_case" => span.name()).record(seconds);
        }
    }
}
