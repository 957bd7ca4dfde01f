//! The numbers of the server, in Prometheus' text format.
//!
//! Call sites in every crate count and measure through the `metrics` facade, under the names of the [`table`]; what is not
//! counted but looked at (how much there is of something now) is read when somebody asks.

mod process;
mod sampled;
mod table;

use anyhow::Context as _;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

pub(super) use sampled::Sampled;
use table::{Kind, TABLE};

/// From half a millisecond, which is what a read takes, to five minutes, which a build may take.
const BUCKETS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 300.0];

/// Begins to count. Every counter without labels is there from the start, at zero, so that its first step is seen.
pub(super) fn start() -> anyhow::Result<PrometheusHandle> {
    let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS);
    let recorder = builder.context("the buckets of histograms are refused")?.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|_| anyhow::anyhow!("numbers are recorded already"))?;
    for metric in TABLE {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
        if metric.labels.is_empty() && metric.kind == Kind::Counter {
            metrics::counter!(metric.name).increment(0);
        }
    }
    metrics::gauge!("stead_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}
