//! Traces for an OpenTelemetry collector, over HTTP in protobuf: every span of the log, and each use case of the engine within
//! its request. Compiled with the feature `otlp` alone.
//!
//! What a span says is what the log says of it: ids and routes, nothing that a caller sent. Spans are sent in batches by a thread of
//! its own; a collector that does not answer costs the spans and nothing else.

use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

/// How long the collector may take for a batch.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends what is left when it is dropped.
#[derive(Debug)]
pub(super) struct Sending(SdkTracerProvider);

impl Drop for Sending {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(PATIENCE) {
            tracing::warn!(error = %error, "the last spans could not be sent");
        }
    }
}

/// A layer that sends spans to `endpoint`, and what to keep as long as it shall.
pub(super) fn layer<S>(endpoint: &str) -> anyhow::Result<(impl Layer<S> + Send + Sync, Sending)>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let client = std::thread::scope(|scope| {
        // It must not be made on a thread of the asynchronous runtime.
        scope.spawn(|| reqwest::blocking::Client::builder().timeout(PATIENCE).build()).join()
    });
    let client = client.map_err(|_| anyhow::anyhow!("a thread panicked"))?;
    let client = client.context("failed to prepare the client of the collector")?;
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(endpoint)
        .with_timeout(PATIENCE)
        .build()
        .context("failed to prepare the export of spans")?;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_service_name("stead").with_attribute(version).build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let tracer = provider.tracer("stead");
    // Ours alone, and none of the exporter's own, which would never end.
    let ours = |about: &Metadata<'_>| about.target().starts_with("stead") && *about.level() <= LevelFilter::INFO;
    let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_filter(filter_fn(ours));
    Ok((layer, Sending(provider)))
}
