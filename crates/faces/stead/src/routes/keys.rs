//! Keys. Every route needs the verb `admin`, or for another workspace's keys `operator`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::HeaderMap;
use stead_domain::key::{Key, Verb};
use stead_domain::{Error, Result};

use super::named;
use super::query::OfWorkspace;
use crate::auth::KeyKeeper;
use crate::body;
use crate::extract::{Path, Query};
use crate::refusal::Answer;
use crate::state::FaceState;
use crate::wire;

const MAX_NAME: usize = 200;

pub(crate) async fn create(
    KeyKeeper(caller): KeyKeeper,
    State(state): State<FaceState>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<wire::KeyCreated>> {
    let wanted: wire::KeyCreate = body::json(&headers, body).await?;
    let name = wanted.name.trim();
    if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) {
        let message = format!("a key's name is one line of 1 to {MAX_NAME} bytes");
        return Err(Error::invalid("name", message).into());
    }
    let verbs = verbs(wanted.verbs.as_deref())?;
    let (key, secret) = state.engine.key_create(&caller, wanted.workspace.as_deref(), name, verbs).await?;
    Ok(Json(wire::KeyCreated { key: shown(&key), secret }))
}

pub(crate) async fn list(
    KeyKeeper(caller): KeyKeeper,
    State(state): State<FaceState>,
    Query(of): Query<OfWorkspace>,
) -> Answer<Json<wire::KeyList>> {
    let keys = state.engine.key_list(&caller, of.workspace.as_deref()).await?;
    Ok(Json(wire::KeyList { keys: keys.iter().map(shown).collect() }))
}

pub(crate) async fn revoke(
    KeyKeeper(caller): KeyKeeper,
    State(state): State<FaceState>,
    Path(id): Path<String>,
    Query(of): Query<OfWorkspace>,
) -> Answer<Json<wire::Key>> {
    let workspace = of.workspace.as_deref();
    let id = match named::key(&id) {
        Ok(id) => id,
        // The workspace is missing first, as it is for what is an id.
        Err(missing) => return Err(state.engine.key_list(&caller, workspace).await.err().unwrap_or(missing).into()),
    };
    let key = state.engine.key_revoke(&caller, workspace, id).await?;
    Ok(Json(shown(&key)))
}

fn verbs(wanted: Option<&[String]>) -> Result<Vec<Verb>> {
    let Some(wanted) = wanted else { return Ok(vec![Verb::Read, Verb::Run, Verb::Write]) };
    if wanted.is_empty() {
        return Err(Error::invalid("verbs", "a key without verbs can do nothing"));
    }
    let mut verbs = Vec::new();
    for (index, text) in wanted.iter().enumerate() {
        let Some(verb) = Verb::parse(text) else {
            let message = "a verb is one of `read`, `run`, `write`, `admin` and `operator`";
            return Err(Error::invalid(format!("verbs.{index}"), message));
        };
        if !verbs.contains(&verb) {
            verbs.push(verb);
        }
    }
    verbs.sort_unstable();
    Ok(verbs)
}

fn shown(key: &Key) -> wire::Key {
    wire::Key {
        id: key.id.to_string(),
        object: "key".to_owned(),
        workspace_id: key.workspace_id.to_string(),
        name: key.name.clone(),
        verbs: key.verbs.iter().map(|verb| verb.as_str().to_owned()).collect(),
        created_at: key.created_at.as_seconds(),
        revoked_at: key.revoked_at.map(stead_domain::Timestamp::as_seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_known_ones_and_admin_is_asked_for() {
        let of = |texts: &[&str]| verbs(Some(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()));
        assert_eq!(verbs(None).unwrap(), [Verb::Read, Verb::Run, Verb::Write]);
        assert_eq!(of(&["operator", "admin", "read", "admin"]).unwrap(), [Verb::Read, Verb::Admin, Verb::Operator]);
        assert_eq!(of(&["read", "Write"]).unwrap_err().param.as_deref(), Some("verbs.1"));
        assert!(of(&[]).is_err());
    }
}
