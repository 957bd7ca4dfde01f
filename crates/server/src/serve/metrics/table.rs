//! Every metric: its name, kind and labels, and what it says. `docs/observability.md` lists the same, and a test compares.
//!
//! Labels take few values: words of this program, routes with the names of their parameters. Never an id, a name or a path.

/// What sort of number it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One metric.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

const fn metric(kind: Kind, name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind, labels, help }
}

use Kind::{Counter, Gauge, Histogram};

/// All of them, by name.
pub(super) const TABLE: &[Metric] = &[
    metric(Counter, "process_cpu_seconds_total", &[], "CPU time of the server process, whole seconds"),
    metric(Gauge, "process_open_fds", &[], "Open file descriptors of the server process"),
    metric(Gauge, "process_resident_memory_bytes", &[], "Resident memory of the server process"),
    metric(Gauge, "process_start_time_seconds", &[], "When the server process started, in Unix seconds"),
    metric(Gauge, "process_threads", &[], "Threads of the server process"),
    metric(Counter, "stead_blob_stored_bytes_total", &[], "Contents of files that were stored, identical ones once"),
    metric(Histogram, "stead_build_stage_duration_seconds", &["stage"], "How long a stage of a build took"),
    metric(Gauge, "stead_builds", &["state"], "Builds that wait or run"),
    metric(Counter, "stead_builds_ended_total", &["state"], "Builds that have ended"),
    metric(Counter, "stead_commit_retries_total", &["table"], "Decisions made anew because another commit came first"),
    metric(Counter, "stead_egress_connections_total", &[], "Connections from sandboxes to the egress proxy"),
    metric(Counter, "stead_egress_failures_total", &[], "Requests and tunnels of sandboxes that failed on the network"),
    metric(Counter, "stead_egress_received_bytes_total", &[], "Bytes that sandboxes received"),
    metric(Counter, "stead_egress_refusals_total", &[], "Requests and tunnels of sandboxes that a rule refused"),
    metric(Counter, "stead_egress_sent_bytes_total", &[], "Bytes that sandboxes sent"),
    metric(Gauge, "stead_environments", &["state"], "Environments that are not deleted"),
    metric(Gauge, "stead_http_connections", &[], "Connections that are open"),
    metric(Counter, "stead_http_received_bytes_total", &[], "Bytes of request bodies"),
    metric(
        Counter,
        "stead_http_refusals_total",
        &["reason"],
        "Requests refused for who asks: credential, scope or host",
    ),
    metric(
        Histogram,
        "stead_http_request_duration_seconds",
        &["method", "route"],
        "From a request's head to its answer's head",
    ),
    metric(Gauge, "stead_http_requests_in_flight", &[], "Requests that are not over"),
    metric(Counter, "stead_http_requests_total", &["method", "route", "status"], "Requests that are over"),
    metric(Counter, "stead_http_sent_bytes_total", &[], "Bytes of answer bodies"),
    metric(Gauge, "stead_info", &["version"], "1, with the version of the server"),
    metric(
        Counter,
        "stead_layer_cache_requests_total",
        &["result"],
        "Steps of builds that took a layer that there was (hit) or made one (miss)",
    ),
    metric(Gauge, "stead_operations", &["state"], "Operations on environments that are not ended"),
    metric(
        Counter,
        "stead_operations_ended_total",
        &["kind", "outcome"],
        "Operations on environments, each time one was tried",
    ),
    metric(Gauge, "stead_ready", &[], "Whether the server is ready: 1 or 0"),
    metric(Histogram, "stead_sandbox_launch_duration_seconds", &["kind"], "Until a sandbox's runtime answered"),
    metric(Counter, "stead_sandbox_launches_total", &["kind", "outcome"], "Sandboxes that were launched"),
    metric(Gauge, "stead_sessions", &[], "Sessions that are not deleted"),
    metric(
        Histogram,
        "stead_store_commit_duration_seconds",
        &[],
        "From a commit's coming to its being durable, waiting included",
    ),
    metric(Counter, "stead_store_commits_total", &[], "Commits that became durable"),
    metric(Counter, "stead_store_conflicts_total", &[], "Commits that met a newer row"),
    metric(Counter, "stead_store_failures_total", &[], "Commits that the database refused or lost"),
    metric(Counter, "stead_store_groups_total", &[], "Transactions that made commits durable, several at once"),
    metric(Counter, "stead_store_reconnects_total", &[], "Connections to the database that were lost and made again"),
    metric(Histogram, "stead_store_sync_duration_seconds", &[], "The database's commit with its flush to disk"),
    metric(Histogram, "stead_turn_duration_seconds", &[], "From a turn's start to its end"),
    metric(Counter, "stead_turn_output_bytes_total", &[], "Raw output of turns"),
    metric(Histogram, "stead_turn_wait_seconds", &[], "From a turn's admission to its start"),
    metric(Gauge, "stead_turns", &["state"], "Turns that are not ended"),
    metric(Counter, "stead_turns_ended_total", &["state"], "Turns that have ended"),
    metric(Histogram, "stead_use_case_duration_seconds", &["use_case"], "Use cases of the engine"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    fn word(kind: Kind) -> &'static str {
        match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }

    #[test]
    fn names_are_as_prometheus_wants_them() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name), "not sorted, or twice");
        for Metric { name, kind, labels, .. } in TABLE {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(*kind != Kind::Histogram || name.ends_with("_seconds"), "{name} has no unit");
            assert!(!labels.iter().any(|label| label.ends_with("id")), "{name}");
        }
    }

    #[test]
    fn the_documentation_lists_the_same() {
        let text = include_str!("../../../../../docs/observability.md");
        let rows: Vec<&str> =
            text.lines().filter(|line| line.starts_with("| `stead_") || line.starts_with("| `process_")).collect();
        let expected: Vec<String> = TABLE
            .iter()
            .map(|metric| {
                let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
                format!("| `{}` | {} | {} | {} |", metric.name, word(metric.kind), labels.join(", "), metric.help)
            })
            .collect();
        assert_eq!(rows, expected, "docs/observability.md shall have:\n{}", expected.join("\n"));
    }

    fn sources(directory: &Path, found: &mut String) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.file_name().unwrap().to_str().unwrap() {
                "tests" | "examples" => {}
                _ if path.is_dir() => sources(&path, found),
                _ if path.extension().is_some_and(|end| end == "rs") => {
                    found.push_str(&std::fs::read_to_string(&path).unwrap());
                }
                _ => {}
            }
        }
    }

    /// Every call site names a metric of the table, of its kind, and every metric has a call site.
    #[test]
    fn what_is_counted_is_what_is_listed() {
        let mut text = String::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut text);
        let mut found = BTreeMap::new();
        for kind in [Kind::Counter, Kind::Gauge, Kind::Histogram] {
            let call = format!("metrics::{}!(", word(kind));
            for rest in text.split(&call).skip(1) {
                if let Some((name, _)) = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"')) {
                    found.insert(name.to_owned(), word(kind));
                }
            }
        }
        let listed = TABLE.iter().map(|metric| (metric.name.to_owned(), word(metric.kind))).collect();
        assert_eq!(found, listed);
    }
}
