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
    pub(super) labels: &'static [Label],
    pub(super) help: &'static str,
}

/// A label with every value that it takes, each of which is there from the start, at zero; with none, its values come as they are
/// met, and there are as many as there are routes or use cases.
pub(super) type Label = (&'static str, &'static [&'static str]);

/// How turns end.
const TURN_ENDS: Label = ("state", &["completed", "failed", "cancelled", "budget_reached", "interrupted"]);
/// How builds end.
const BUILD_ENDS: Label = ("state", &["ready", "failed"]);
/// The stages of a build that are measured.
const STAGES: Label = ("stage", &["copying files", "python packages", "node packages", "system packages", "setup.sh"]);
/// What is decided anew when another was faster.
const TABLES: Label = (
    "table",
    &[
        "agents",
        "api_keys",
        "artifacts",
        "attachments",
        "audit_entries",
        "builds",
        "environments",
        "events",
        "idempotency_records",
        "layers",
        "operations",
        "projects",
        "sessions",
        "source_entries",
        "turns",
        "uploads",
        "workspaces",
    ],
);

const fn metric(kind: Kind, name: &'static str, labels: &'static [Label], help: &'static str) -> Metric {
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
    metric(Histogram, "stead_build_stage_duration_seconds", &[STAGES], "How long a stage of a build took"),
    metric(Gauge, "stead_builds", &[("state", &[])], "Builds that wait or run"),
    metric(Counter, "stead_builds_ended_total", &[BUILD_ENDS], "Builds that have ended"),
    metric(Counter, "stead_commit_retries_total", &[TABLES], "Decisions made anew because another commit came first"),
    metric(Counter, "stead_egress_connections_total", &[], "Connections from sandboxes to the egress proxy"),
    metric(Counter, "stead_egress_failures_total", &[], "Requests and tunnels of sandboxes that failed on the network"),
    metric(Counter, "stead_egress_received_bytes_total", &[], "Bytes that sandboxes received"),
    metric(Counter, "stead_egress_refusals_total", &[], "Requests and tunnels of sandboxes that a rule refused"),
    metric(Counter, "stead_egress_sent_bytes_total", &[], "Bytes that sandboxes sent"),
    metric(Gauge, "stead_environments", &[("state", &[])], "Environments that are not deleted"),
    metric(Gauge, "stead_http_connections", &[], "Connections that are open"),
    metric(Counter, "stead_http_received_bytes_total", &[], "Bytes of request bodies"),
    metric(
        Counter,
        "stead_http_refusals_total",
        &[("reason", &["credential", "scope", "host"])],
        "Requests refused for who asks: credential, scope or host",
    ),
    metric(
        Histogram,
        "stead_http_request_duration_seconds",
        &[("method", &[]), ("route", &[])],
        "From a request's head to its answer's head",
    ),
    metric(Gauge, "stead_http_requests_in_flight", &[], "Requests that are not over"),
    metric(
        Counter,
        "stead_http_requests_total",
        &[("method", &[]), ("route", &[]), ("status", &[])],
        "Requests that are over",
    ),
    metric(Counter, "stead_http_sent_bytes_total", &[], "Bytes of answer bodies"),
    metric(Gauge, "stead_info", &[("version", &[])], "1, with the version of the server"),
    metric(
        Counter,
        "stead_layer_cache_requests_total",
        &[("result", &["hit", "miss"])],
        "Steps of builds that took a layer that there was (hit) or made one (miss)",
    ),
    metric(Gauge, "stead_operations", &[("state", &[])], "Operations on environments that are not ended"),
    metric(
        Counter,
        "stead_operations_ended_total",
        &[("kind", &["create", "start", "stop", "delete"]), ("outcome", &["done", "failed", "uncertain"])],
        "Operations on environments, each time one was tried",
    ),
    metric(Gauge, "stead_ready", &[], "Whether the server is ready: 1 or 0"),
    metric(
        Histogram,
        "stead_sandbox_launch_duration_seconds",
        &[("kind", &["session", "build"])],
        "Until a sandbox's runtime answered",
    ),
    metric(
        Counter,
        "stead_sandbox_launches_total",
        &[("kind", &["session", "build"]), ("outcome", &["launched", "failed"])],
        "Sandboxes that were launched",
    ),
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
    metric(Gauge, "stead_turns", &[("state", &[])], "Turns that are not ended"),
    metric(Counter, "stead_turns_ended_total", &[TURN_ENDS], "Turns that have ended"),
    metric(Histogram, "stead_use_case_duration_seconds", &[("use_case", &[])], "Use cases of the engine"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use stead_domain::build::{BuildState, Stage};
    use stead_domain::operation::OperationKind;
    use stead_domain::turn::TurnState;

    use super::super::sampled::STATES;
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
            assert!(!labels.iter().any(|(label, _)| label.ends_with("id")), "{name}");
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
                let labels: Vec<String> = metric.labels.iter().map(|(label, _)| format!("`{label}`")).collect();
                format!("| `{}` | {} | {} | {} |", metric.name, word(metric.kind), labels.join(", "), metric.help)
            })
            .collect();
        assert_eq!(rows, expected, "docs/observability.md shall have:\n{}", expected.join("\n"));
    }

    /// The values that the documentation lists, by metric and label.
    #[test]
    fn the_documentation_lists_the_values() {
        let text = include_str!("../../../../../docs/observability.md");
        let (_, values) = text.split_once("| label | of | values |").unwrap();
        let rows: Vec<&str> = values.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
        let word = |word: &&str| format!("`{word}`");
        let mut expected: Vec<String> = Vec::new();
        for metric in TABLE {
            let sampled =
                STATES.iter().find(|(_, name, _)| *name == metric.name).map(|(_, _, states)| ("state", *states));
            for (label, values) in sampled.into_iter().chain(metric.labels.iter().copied()) {
                if !values.is_empty() {
                    let values: Vec<String> = values.iter().map(word).collect();
                    expected.push(format!("| `{label}` | `{}` | {} |", metric.name, values.join(", ")));
                }
            }
        }
        assert_eq!(rows, expected, "docs/observability.md shall have:\n{}", expected.join("\n"));
    }

    /// The values are the words of those who count.
    #[test]
    fn values_are_those_of_the_domain() {
        let of = |name: &str| -> Vec<&str> {
            let metric = TABLE.iter().find(|metric| metric.name == name).unwrap();
            metric.labels[0].1.to_vec()
        };
        let ends = |all: &[TurnState]| -> Vec<&str> {
            all.iter().filter(|state| state.is_ended()).map(|state| state.as_str()).collect()
        };
        assert_eq!(of("stead_turns_ended_total"), ends(&TurnState::ALL));
        let built: Vec<_> =
            BuildState::ALL.iter().filter(|state| state.is_ended()).map(|state| state.as_str()).collect();
        assert_eq!(of("stead_builds_ended_total"), built);
        let kinds: Vec<_> = OperationKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(of("stead_operations_ended_total"), kinds);
        for stage in of("stead_build_stage_duration_seconds") {
            assert!(Stage::parse(stage).is_some(), "{stage}");
        }
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
