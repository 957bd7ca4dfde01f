//! Workspaces. Making one needs the verb `operator`; whoever may read sees the own one, and an operator every one.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::HeaderMap;
use stead_domain::key::Caller;
use stead_domain::workspace::Workspace;

use crate::auth::{Operator, Overseer};
use crate::body;
use crate::refusal::Answer;
use crate::state::FaceState;
use crate::wire;

pub(crate) async fn create(
    Operator(caller): Operator,
    State(state): State<FaceState>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<wire::Workspace>> {
    let wanted: wire::WorkspaceCreate = body::json(&headers, body).await?;
    let workspace = state.engine.workspace_create(&caller, &wanted.name).await?;
    Ok(Json(shown(&caller, &workspace)))
}

pub(crate) async fn list(
    Overseer(caller): Overseer,
    State(state): State<FaceState>,
) -> Answer<Json<wire::WorkspaceList>> {
    let workspaces = state.engine.workspace_list(&caller).await?;
    Ok(Json(wire::WorkspaceList { workspaces: workspaces.iter().map(|found| shown(&caller, found)).collect() }))
}

fn shown(caller: &Caller, workspace: &Workspace) -> wire::Workspace {
    wire::Workspace {
        id: workspace.id.to_string(),
        object: "workspace".to_owned(),
        name: workspace.name.clone(),
        created_at: workspace.created_at.as_seconds(),
        current: workspace.id == caller.workspace_id,
    }
}
