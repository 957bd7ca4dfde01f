//! Versions, and which of them is active (UHP Environments §4).

use axum::extract::State;

use super::{Answer, json};
use crate::auth::{Reader, Writer};
use crate::names::Names;
use crate::state::FaceState;
use crate::wire::environment::{Environment, VersionList};
use crate::wire::ids;

pub(super) async fn list(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_environment(&names.first)?;
    json(VersionList::from(state.engine.project_get(&caller, id).await?))
}

pub(super) async fn activate(Writer(caller): Writer, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_environment(&names.first)?;
    let number = match ids::parse_version(&names.second) {
        Ok(number) => number,
        Err(error) => {
            state.engine.project_get(&caller, id).await?;
            return Err(error.into());
        }
    };
    json(Environment::whole(state.engine.version_activate(&caller, id, number).await?))
}
