//! Sessions (UHP §9). Sharing is not offered, and its paths do not exist.

mod archive;

use axum::extract::State;
use stead_domain::Error;
use stead_domain::ports::SessionFilter;
use stead_face_frame::{Operation, Parameter};

use super::{Answer, Routes, json};
use crate::auth::{Reader, Runner, Writer};
use crate::names::Names;
use crate::query::Query;
use crate::state::FaceState;
use crate::wire::file::{File, FileList};
use crate::wire::session::{Session, SessionList, SessionStatus, TurnItem, TurnList};
use crate::wire::{Deleted, ids};

pub(super) fn routes() -> Routes {
    let one = "/v1/sessions/{session_id}";
    let page = Operation::new("Sessions, newest first")
        .with(Parameter::query("limit", "how many at most").number(1, LARGEST_PAGE as u64))
        .with(Parameter::query("cursor", "the `next_cursor` of the page before"))
        .with(Parameter::query("harness", "of this harness alone"))
        .answers::<SessionList>();
    let removal = |summary| Operation::new(summary).answers::<Deleted>().refuses(&[404, 409]);
    Routes::new()
        .get("/v1/sessions", list, page)
        .get(one, show, Operation::new("A session").answers::<Session>().refuses(&[404]))
        .delete(one, delete, removal("Remove a session and all that is in it"))
        .get(
            "/v1/sessions/{session_id}/turns",
            turns,
            Operation::new("The tasks of a session, oldest first").answers::<TurnList>().refuses(&[404]),
        )
        .post(
            "/v1/sessions/{session_id}/cancel",
            cancel,
            Operation::new("Cancel what runs in a session").answers::<SessionStatus>().refuses(&[404, 409]),
        )
        .get(
            "/v1/sessions/{session_id}/files",
            files,
            Operation::new("The files that its tasks left").answers::<FileList>().refuses(&[404]),
        )
        .get(
            "/v1/sessions/{session_id}/files/archive",
            archive::download,
            Operation::new("The files in one zip").answers_bytes("application/zip").refuses(&[404]),
        )
        .delete("/v1/traces/{session_id}", delete, removal("The same as removing the session"))
}

/// Entries of a page when the caller does not say.
const PAGE: usize = 20;
/// Entries of the largest page.
const LARGEST_PAGE: usize = 100;

fn filter(query: &Query) -> Result<Option<SessionFilter>, Error> {
    let limit = match query.get("limit") {
        None => PAGE,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=LARGEST_PAGE).contains(limit))
            .ok_or_else(|| Error::invalid("limit", "`limit` is a number from 1 to 100"))?,
    };
    let before = match query.get("cursor") {
        None | Some("") => None,
        Some(text) => Some(text.parse().map_err(|_| Error::invalid("cursor", "`cursor` is none that was given out"))?),
    };
    let agent_id = match query.get("harness") {
        None | Some("") => None,
        Some(text) => match ids::parse_harness(text) {
            Ok(id) => Some(id),
            // No session belongs to a harness that cannot exist.
            Err(_) => return Ok(None),
        },
    };
    Ok(Some(SessionFilter { agent_id, before, limit }))
}

async fn list(Reader(caller): Reader, State(state): State<FaceState>, query: Query) -> Answer {
    let Some(filter) = filter(&query)? else {
        return json(SessionList { sessions: Vec::new(), next_cursor: None });
    };
    let page = state.engine.session_list(&caller, filter).await?;
    let next_cursor = if page.more { page.rows.last().map(|session| session.id.to_string()) } else { None };
    json(SessionList { sessions: page.rows.into_iter().map(Session::from).collect(), next_cursor })
}

async fn show(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_session(&names.first)?;
    json(Session::from(state.engine.session_get(&caller, id).await?))
}

async fn turns(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_session(&names.first)?;
    let turns = state.engine.session_turns(&caller, id).await?;
    json(TurnList { turns: turns.into_iter().map(TurnItem::from).collect() })
}

async fn cancel(Runner(caller): Runner, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_session(&names.first)?;
    json(SessionStatus::from(state.engine.session_cancel(&caller, id).await?))
}

async fn delete(Writer(caller): Writer, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_session(&names.first)?;
    state.engine.session_delete(&caller, id).await?;
    json(Deleted::of(names.first))
}

async fn files(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_session(&names.first)?;
    let artifacts = state.engine.artifacts(&caller, id).await?;
    json(FileList { files: artifacts.iter().map(File::from).collect() })
}

#[cfg(test)]
mod tests {
    use axum::extract::FromRequestParts;

    use super::*;

    async fn read(query: &str) -> Result<Option<SessionFilter>, Error> {
        let (mut parts, ()) =
            http::Request::builder().uri(format!("/v1/sessions{query}")).body(()).unwrap().into_parts();
        filter(&Query::from_request_parts(&mut parts, &()).await.unwrap())
    }

    #[tokio::test]
    async fn pages_have_bounds() {
        assert_eq!(read("").await.unwrap().unwrap().limit, 20);
        assert_eq!(read("?limit=100&x=y").await.unwrap().unwrap().limit, 100);
        for wrong in ["?limit=0", "?limit=101", "?limit=x", "?limit=", "?cursor=x"] {
            assert!(read(wrong).await.is_err(), "{wrong}");
        }
        assert!(read("?harness=nonsense").await.unwrap().is_none());
    }
}
