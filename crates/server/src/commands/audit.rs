//! `stead audit`.

use clap::Args;
use serde_json::json;
use stead_face_stead::wire;

use super::Context;
use crate::client::{Failure, segment};
use crate::console::{instant, table};

/// Entries of one answer of the server at most.
const PAGE: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Only this workspace, by id or name, where the key sees several
    #[arg(long)]
    workspace: Option<String>,
    /// How many entries, the newest first
    #[arg(long, short = 'n', default_value_t = 50, value_name = "COUNT")]
    limit: usize,
}

pub(crate) async fn audit(context: &Context, arguments: AuditArgs) -> Result<(), Failure> {
    let mut entries: Vec<wire::AuditEntry> = Vec::new();
    let mut cursor = None;
    while entries.len() < arguments.limit {
        let limit = (arguments.limit - entries.len()).min(PAGE);
        let mut address = format!("/stead/v1/audit?limit={limit}");
        for (name, value) in [("workspace", &arguments.workspace), ("cursor", &cursor)] {
            if let Some(value) = value {
                address = format!("{address}&{name}={}", segment(value));
            }
        }
        let page = context.client.get::<wire::AuditList>(&address).await?.value;
        entries.extend(page.entries);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    context.console.show(&json!({ "entries": entries, "next_cursor": cursor }), || {
        table(&["WHEN", "KEY", "ACTION", "TARGETS", "REQUEST"], &entries.iter().map(row).collect::<Vec<_>>())
    })
}

/// Targets without the word for what they are: their ids say it, and a build's its project's.
fn row(entry: &wire::AuditEntry) -> Vec<String> {
    let targets: Vec<&str> = entry.targets.iter().map(|target| target.id.as_str()).collect();
    vec![
        instant(Some(entry.created_at)),
        entry.key_id.clone(),
        entry.action.clone(),
        targets.join(" "),
        entry.request_id.clone(),
    ]
}
