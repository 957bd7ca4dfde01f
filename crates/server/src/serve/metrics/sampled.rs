//! What is not counted as it happens but looked at when somebody asks: how much there is of what lives.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use stead_domain::ports::{Clock, Store};
use stead_provider_native::NativeProvider;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::super::health::Health;
use super::process;
use crate::adapters::SystemClock;

/// How long a look stays good: asking often costs no more than this.
const FRESH: Duration = Duration::from_secs(1);
/// How long the store and the egress proxy may take. What they do not say in time keeps its last value.
const PATIENCE: Duration = Duration::from_secs(1);

/// The metrics of the states that something may be in, none of which is left out when nothing is in it.
pub(super) const STATES: [(&str, &str, &[&str]); 4] = [
    ("turn", "stead_turns", &["queued", "in_progress", "cancelling"]),
    ("build", "stead_builds", &["waiting", "running"]),
    ("operation", "stead_operations", &["recorded", "dispatched", "uncertain"]),
    ("environment", "stead_environments", &["creating", "starting", "ready", "stopping", "stopped", "deleting"]),
];

/// Looks at what there is, and renders everything.
pub(in super::super) struct Sampled {
    handle: PrometheusHandle,
    store: Arc<dyn Store>,
    native: Arc<NativeProvider>,
    node: String,
    health: Arc<Health>,
    last: Mutex<Option<Instant>>,
}

impl Sampled {
    pub(in super::super) fn new(
        handle: PrometheusHandle,
        store: Arc<dyn Store>,
        native: Arc<NativeProvider>,
        node: String,
        health: Arc<Health>,
    ) -> Self {
        metrics::gauge!("process_start_time_seconds").set(SystemClock.now().as_seconds() as f64);
        Self { handle, store, native, node, health, last: Mutex::default() }
    }

    /// Everything, as text.
    pub(in super::super) async fn render(&self) -> String {
        // Those who ask at once wait for one look.
        let mut last = self.last.lock().await;
        if last.is_none_or(|last| last.elapsed() >= FRESH) {
            let egress = tokio::time::timeout(PATIENCE, self.native.sample_egress());
            let (report, (), _) = tokio::join!(self.health.report(), self.count(), egress);
            metrics::gauge!("stead_ready").set(f64::from(u8::from(report.is_ready())));
            process::sample();
            *last = Some(Instant::now());
        }
        drop(last);
        self.handle.run_upkeep();
        self.handle.render()
    }

    async fn count(&self) {
        let Ok(Ok(tallies)) = tokio::time::timeout(PATIENCE, self.store.census(&self.node)).await else { return };
        let count = |noun: &str, state: &str| {
            let found = tallies.iter().find(|tally| tally.noun == noun && tally.state == state);
            found.map_or(0.0, |tally| tally.count as f64)
        };
        for (noun, _, states) in STATES {
            for state in states {
                let count = count(noun, state);
                match noun {
                    "turn" => metrics::gauge!("stead_turns", "state" => *state).set(count),
                    "build" => metrics::gauge!("stead_builds", "state" => *state).set(count),
                    "operation" => metrics::gauge!("stead_operations", "state" => *state).set(count),
                    _ => metrics::gauge!("stead_environments", "state" => *state).set(count),
                }
            }
        }
        metrics::gauge!("stead_sessions").set(count("session", "live"));
    }
}
