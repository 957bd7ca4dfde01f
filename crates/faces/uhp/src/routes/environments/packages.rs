//! What may be declared: the package check and the runtimes (UHP 2026-09-28). Neither is about one environment.

use axum::extract::State;

use super::{Answer, json};
use crate::auth::Reader;
use crate::errors::Failure;
use crate::query::Query;
use crate::state::FaceState;
use crate::wire::environment::{PackageAnswer, Runtimes};

/// A manager that there is not and a text that is no spec are wrong parameters here, status 400, where the same in the body of
/// a write is 422.
pub(super) async fn check(Reader(_): Reader, State(state): State<FaceState>, query: Query) -> Answer {
    let (manager, spec) = (query.get("manager").unwrap_or_default(), query.get("spec").unwrap_or_default());
    let checked = state.engine.package_check(manager, spec).await;
    json(PackageAnswer::from(checked.map_err(|error| Failure::from(error).bad_request())?))
}

pub(super) async fn runtimes(Reader(_): Reader, State(state): State<FaceState>) -> Answer {
    json(Runtimes::from(state.engine.runtimes().await?))
}
