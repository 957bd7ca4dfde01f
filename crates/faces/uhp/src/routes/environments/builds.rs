//! Builds (UHP Environments §4).

use axum::extract::State;

use super::{Answer, json};
use crate::auth::{Reader, Writer};
use crate::names::Names;
use crate::query::Query;
use crate::state::FaceState;
use crate::wire::environment::BuildRecord;
use crate::wire::ids;

/// Answers at once. An extension: `?fresh=1` installs everything anew whatever earlier builds left.
pub(super) async fn start(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    names: Names,
    query: Query,
) -> Answer {
    let fresh = query.flag("fresh")?.unwrap_or(false);
    let id = ids::parse_environment(&names.first)?;
    json(BuildRecord::of(state.engine.build_start(&caller, id, fresh).await?, None))
}

pub(super) async fn show(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_environment(&names.first)?;
    let number = match ids::parse_version(&names.second) {
        Ok(number) => number,
        Err(error) => {
            // Of two things that are not there, the environment comes first in the path.
            state.engine.project_get(&caller, id).await?;
            return Err(error.into());
        }
    };
    let build = state.engine.build_get(&caller, id, number).await?;
    let log = state.engine.build_log(&caller, id, number).await?;
    json(BuildRecord::of(build, Some(log)))
}
