//! `stead audit`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::json;
use stead_domain::ports::Clock as _;
use stead_face_stead::wire;

use super::Context;
use crate::adapters::SystemClock;
use crate::cli::parse_seconds;
use crate::client::{Failure, segment};
use crate::console::{instant, note, seconds_of, table};

/// Entries of one answer of the server at most.
const PAGE: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Only this workspace, by id or name, where the key sees several
    #[arg(long)]
    workspace: Option<String>,
    /// How many entries, the newest first
    #[arg(long, short = 'n', default_value = "50", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Every entry
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Only what this key did, by id or name
    #[arg(long, value_name = "KEY")]
    by: Option<String>,
    /// Only routes with this in their method or path, such as `DELETE` or `/activate`
    #[arg(long, value_name = "TEXT")]
    action: Option<String>,
    /// Only what concerns this thing, by the id that a client or the log has for it; a project's entries include its builds'
    #[arg(long, value_name = "ID")]
    target: Option<String>,
    /// Only what this request did
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only from this moment on: `2026-11-30`, `2026-11-30T08:15:00Z` (UTC), or so long ago, such as 2h
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    since: Option<i64>,
    /// Only before this moment
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    until: Option<i64>,
}

/// Seconds since 1970.
fn moment(text: &str) -> Result<i64, String> {
    let ago = || {
        let ago = parse_seconds(text).ok()?;
        Some(SystemClock.now().minus(ago).as_seconds())
    };
    let moment = seconds_of(text).or_else(ago).filter(|seconds| *seconds >= 0);
    moment.ok_or_else(|| "neither a moment, such as 2026-11-30T08:15:00Z, nor a duration, such as 2h".to_owned())
}

pub(crate) async fn audit(context: &Context, arguments: AuditArgs) -> Result<(), Failure> {
    let wanted = if arguments.all { usize::MAX } else { arguments.limit as usize };
    let (since, until) = (arguments.since.map(|at| at.to_string()), arguments.until.map(|at| at.to_string()));
    let asked = [
        ("workspace", &arguments.workspace),
        ("key", &arguments.by),
        ("action", &arguments.action),
        ("target", &arguments.target),
        ("request_id", &arguments.request),
        ("since", &since),
        ("until", &until),
    ];
    let mut entries: Vec<wire::AuditEntry> = Vec::new();
    let mut cursor = None;
    loop {
        let limit = (wanted - entries.len()).min(PAGE);
        let mut address = format!("/stead/v1/audit?limit={limit}");
        for (name, value) in asked.into_iter().chain([("cursor", &cursor)]) {
            if let Some(value) = value {
                address = format!("{address}&{name}={}", segment(value));
            }
        }
        let page = context.client.get::<wire::AuditList>(&address).await?.value;
        entries.extend(page.entries);
        cursor = page.next_cursor;
        if cursor.is_none() || entries.len() >= wanted {
            break;
        }
    }
    let workspaces = if context.console.json { BTreeMap::new() } else { workspaces(context).await };
    context.console.show(&json!({ "entries": entries, "next_cursor": cursor }), || {
        let rows: Vec<_> = entries.iter().map(|entry| row(entry, &workspaces)).collect();
        if workspaces.is_empty() {
            table(&["WHEN", "KEY", "ACTION", "TARGETS", "REQUEST"], &rows)
        } else {
            table(&["WHEN", "WORKSPACE", "KEY", "ACTION", "TARGETS", "REQUEST"], &rows)
        }
    })?;
    if cursor.is_some() {
        note(&format!("there may be more than these {}: `-n COUNT` shows more, `--all` every one", entries.len()));
    }
    Ok(())
}

/// The names of the workspaces, where there are several to tell apart. A key that may not list them sees its own alone.
async fn workspaces(context: &Context) -> BTreeMap<String, String> {
    let list = context.client.get::<wire::WorkspaceList>("/stead/v1/workspaces").await;
    let workspaces = list.map(|answer| answer.value.workspaces).unwrap_or_default();
    let several = workspaces.len() > 1;
    workspaces.into_iter().filter(|_| several).map(|workspace| (workspace.id, workspace.name)).collect()
}

/// Targets without the word for what they are: their ids say it, and a build's its project's.
fn row(entry: &wire::AuditEntry, workspaces: &BTreeMap<String, String>) -> Vec<String> {
    let targets: Vec<&str> = entry.targets.iter().map(|target| target.id.as_str()).collect();
    let mut cells = vec![instant(Some(entry.created_at))];
    if !workspaces.is_empty() {
        cells.push(workspaces.get(&entry.workspace_id).unwrap_or(&entry.workspace_id).clone());
    }
    let key = match &entry.key_name {
        Some(name) => format!("{name} ({})", entry.key_id),
        None => entry.key_id.clone(),
    };
    cells.extend([key, entry.action.clone(), targets.join(" "), entry.request_id.clone()]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_or_so_long_ago() {
        assert_eq!(moment("2026-11-30T08:15:00Z"), Ok(1_796_026_500));
        let now = SystemClock.now().as_seconds();
        assert!((now - 7202..=now - 7198).contains(&moment("2h").unwrap()));
        assert!(moment("yesterday").is_err() && moment("1960-01-01").is_err());
    }
}
