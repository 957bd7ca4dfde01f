//! The audit log: an admin sees that of its workspace, an operator every one.

use axum::Json;
use axum::extract::State;
use stead_domain::audit::{AuditEntry, AuditFilter};
use stead_domain::time::Timestamp;
use stead_domain::{Error, Result};
use stead_engine::AuditQuery;

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
    let part = state.engine.audit_list(&caller, asked(page)?).await?;
    Ok(Json(wire::AuditList {
        entries: part.entries.iter().map(|(entry, name)| shown(entry, name.clone())).collect(),
        next_cursor: part.next.map(|id| id.to_string()),
    }))
}

fn asked(page: AuditPage) -> Result<AuditQuery> {
    let limit = match page.limit.as_deref().map(str::parse) {
        None => PAGE,
        Some(Ok(limit)) if (1..=LARGEST_PAGE).contains(&limit) => limit,
        Some(_) => return Err(Error::invalid("limit", "`limit` is a number from 1 to 1000")),
    };
    let before = match page.cursor.as_deref().map(str::parse) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return Err(Error::invalid("cursor", "`cursor` is none that was given out")),
    };
    let filter = AuditFilter {
        keys: None,
        action: page.action,
        target: page.target,
        request_id: page.request_id,
        since: moment("since", page.since.as_deref())?,
        until: moment("until", page.until.as_deref())?,
    };
    Ok(AuditQuery { workspace: page.workspace, key: page.key, filter, before, limit })
}

fn moment(name: &str, text: Option<&str>) -> Result<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    let micros = text.parse().ok().and_then(|seconds: i64| seconds.checked_mul(1_000_000));
    let micros = micros.ok_or_else(|| Error::invalid(name, format!("`{name}` is a number of seconds since 1970")))?;
    Ok(Some(Timestamp::from_micros(micros)))
}

fn shown(entry: &AuditEntry, key_name: Option<String>) -> wire::AuditEntry {
    wire::AuditEntry {
        id: entry.id.to_string(),
        object: "audit_entry".to_owned(),
        created_at: entry.at.as_seconds(),
        workspace_id: entry.workspace_id.to_string(),
        key_id: entry.key_id.to_string(),
        key_name,
        request_id: entry.request_id.clone(),
        action: entry.action.clone(),
        targets: entry
            .targets
            .iter()
            .map(|target| wire::AuditTarget { kind: target.kind.clone(), id: target.id.clone() })
            .collect(),
    }
}
