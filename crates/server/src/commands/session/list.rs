//! `stead session list`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Context;
use crate::client::{Failure, SessionItem, Sessions, segment};
use crate::commands::project::slugs;
use crate::console::{columns, instant, note, table_in_line};

/// The largest page that is asked for.
const PAGE: usize = 100;
/// The least that a title gets of a line, in columns.
const LEAST_TITLE: usize = 20;

pub(super) async fn list(context: &Context, limit: usize) -> Result<(), Failure> {
    let (mut shown, mut raw): (Vec<SessionItem>, Vec<Value>) = (Vec::new(), Vec::new());
    let mut cursor = Some(String::new());
    while shown.len() < limit
        && let Some(from) = &cursor
    {
        let page = (limit - shown.len()).min(PAGE);
        let mut path = format!("/v1/sessions?limit={page}");
        if !from.is_empty() {
            let _ = write!(path, "&cursor={}", segment(from));
        }
        let mut answer = context.client.get::<Sessions>(&path).await?;
        if let Value::Array(items) = answer.json["sessions"].take() {
            raw.extend(items);
        }
        shown.extend(answer.value.sessions);
        cursor = answer.value.next_cursor;
    }
    let slugs = if context.console.json { BTreeMap::new() } else { slugs(context).await };
    context.console.show(&json!({ "sessions": raw, "more": cursor.is_some() }), || {
        let row = |session: &SessionItem| {
            let project = session.environment.clone().filter(|id| !id.is_empty());
            let project = project.map_or_else(|| "-".to_owned(), |id| slugs.get(&id).cloned().unwrap_or(id));
            let (id, status) = (session.id.clone(), session.status.clone());
            vec![id, status, instant(session.updated_at), project, session.title.clone()]
        };
        let rows = shown.iter().map(row).collect();
        table_in_line(&["ID", "STATUS", "UPDATED", "PROJECT", "TITLE"], rows, columns(), LEAST_TITLE)
    })?;
    if cursor.is_some() {
        note(&format!("there are more than these {}: `--limit N` shows more, `--all` every one", shown.len()));
    }
    Ok(())
}
