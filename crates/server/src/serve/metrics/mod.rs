//! The numbers of the server, in Prometheus' text format.
//!
//! Call sites in every crate count and measure through the `metrics` facade, under the names of the [`table`]; what is not
//! counted but looked at (how much there is of something now) is read when somebody asks.

mod process;
mod sampled;
mod table;

use std::time::Duration;

use anyhow::Context as _;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

pub(super) use sampled::Sampled;
use table::{Kind, Label, TABLE};

/// From half a millisecond, which is what a read takes, to five minutes, which a build may take.
const BUCKETS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 300.0];

/// How often measurements are put into their buckets. Until then each is kept by itself, whether anybody asks for numbers or not.
const SETTLE: Duration = Duration::from_secs(5);

/// Begins to count. Whatever takes values that are known is there from the start, at zero, so that its first step is seen.
pub(super) fn start() -> anyhow::Result<PrometheusHandle> {
    let recorder = recorder()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|_| anyhow::anyhow!("numbers are recorded already"))?;
    announce();
    tokio::spawn(settle(handle.clone(), SETTLE));
    Ok(handle)
}

/// Keeps measurements from piling up, for ever.
async fn settle(handle: PrometheusHandle, every: Duration) {
    let mut turns = tokio::time::interval(every);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        handle.run_upkeep();
    }
}

fn recorder() -> anyhow::Result<PrometheusRecorder> {
    let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS);
    Ok(builder.context("the buckets of histograms are refused")?.build_recorder())
}

fn announce() {
    for metric in TABLE {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
        for labels in combinations(metric.labels) {
            match metric.kind {
                Kind::Counter => metrics::counter!(metric.name, labels).increment(0),
                Kind::Gauge => metrics::gauge!(metric.name, labels).increment(0.0),
                // One without a measurement is there all the same.
                Kind::Histogram => drop(metrics::histogram!(metric.name, labels)),
            }
        }
    }
    metrics::gauge!("stead_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

/// Every combination of the values of some labels: one without labels, and none where values are not known.
fn combinations(labels: &[Label]) -> Vec<Vec<metrics::Label>> {
    labels.iter().fold(vec![Vec::new()], |combined, &(name, values)| {
        let with = |&value: &&'static str| {
            let label = metrics::Label::from_static_parts(name, value);
            combined
                .iter()
                .map(move |before: &Vec<metrics::Label>| [before.as_slice(), std::slice::from_ref(&label)].concat())
        };
        values.iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that nobody asks for its numbers keeps no measurement for ever.
    #[tokio::test]
    async fn measurements_do_not_pile_up() {
        const ROUNDS: usize = 40;
        const EACH: usize = 50_000;
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
        };
        let recorder = recorder().unwrap();
        let settling = tokio::spawn(settle(recorder.handle(), Duration::from_millis(1)));
        let histogram = metrics::with_local_recorder(&recorder, || metrics::histogram!("stead_turn_wait_seconds"));
        let before = resident();
        for _ in 0..ROUNDS {
            (0..EACH).for_each(|_| histogram.record(0.001));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Each takes 16 bytes for as long as it is kept.
        let grown = resident().saturating_sub(before);
        assert!(grown < ROUNDS * EACH * 16 / 2, "{grown} bytes");
        settling.abort();
        let text = recorder.handle().render();
        assert!(text.contains(&format!("stead_turn_wait_seconds_count {}", ROUNDS * EACH)), "{text}");
    }

    #[test]
    fn a_fresh_server_has_every_number_whose_values_are_known() {
        let recorder = recorder().unwrap();
        metrics::with_local_recorder(&recorder, announce);
        let text = recorder.handle().render();
        for metric in TABLE {
            let known = metric.labels.iter().all(|(_, values)| !values.is_empty()) || metric.name == "stead_info";
            let is_there = text.contains(&format!("# TYPE {} ", metric.name));
            assert_eq!(is_there, known, "{}\n{text}", metric.name);
        }
        for line in [
            "stead_builds_ended_total{state=\"failed\"} 0",
            "stead_sandbox_launches_total{kind=\"build\",outcome=\"failed\"} 0",
            "stead_build_stage_duration_seconds_count{stage=\"setup.sh\"} 0",
            "stead_turn_wait_seconds_count 0",
        ] {
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
    }
}
