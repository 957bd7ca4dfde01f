//! The audit log: an admin sees that of its workspace, an operator every one.

use axum::Json;
use axum::extract::State;
use stead_domain::Error;
use stead_domain::audit::AuditEntry;

use super::query::AuditPage;
use crate::auth::Auditor;
use crate::extract::Query;
use crate::refusal::Answer;
use crate::state::FaceState;
use crate::wire;

/// Entries of a page when the caller does not say.
const PAGE: usize = 100;
/// Entries of the largest page.
const LARGEST_PAGE: usize = 1000;

pub(crate) async fn list(
    Auditor(caller): Auditor,
    State(state): State<FaceState>,
    Query(page): Query<AuditPage>,
) -> Answer<Json<wire::AuditList>> {
    let limit = match page.limit.as_deref().map(str::parse) {
        None => PAGE,
        Some(Ok(limit)) if (1..=LARGEST_PAGE).contains(&limit) => limit,
        Some(_) => return Err(Error::invalid("limit", "`limit` is a number from 1 to 1000").into()),
    };
    let before = match page.cursor.as_deref().map(str::parse) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return Err(Error::invalid("cursor", "`cursor` is none that was given out").into()),
    };
    let found = state.engine.audit_list(&caller, page.workspace.as_deref(), before, limit).await?;
    let last = found.rows.last().filter(|_| found.more);
    Ok(Json(wire::AuditList {
        next_cursor: last.map(|entry| entry.id.to_string()),
        entries: found.rows.iter().map(shown).collect(),
    }))
}

fn shown(entry: &AuditEntry) -> wire::AuditEntry {
    wire::AuditEntry {
        id: entry.id.to_string(),
        object: "audit_entry".to_owned(),
        created_at: entry.at.as_seconds(),
        workspace_id: entry.workspace_id.to_string(),
        key_id: entry.key_id.to_string(),
        request_id: entry.request_id.clone(),
        action: entry.action.clone(),
        targets: entry
            .targets
            .iter()
            .map(|target| wire::AuditTarget { kind: target.kind.clone(), id: target.id.clone() })
            .collect(),
    }
}
