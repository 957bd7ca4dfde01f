//! What a workspace keeps: how much it is, beside its quotas, and the removal of what nothing names.

use axum::Json;
use axum::extract::State;

use crate::auth::{Admin, Reader};
use crate::refusal::Answer;
use crate::state::FaceState;
use crate::wire::{self, Kept};

pub(crate) async fn collect(Admin(caller): Admin, State(state): State<FaceState>) -> Answer<Json<wire::Collected>> {
    let report = state.engine.collection_run(&caller).await?;
    Ok(Json(wire::Collected {
        object: "stead.collection".to_owned(),
        versions: report.versions,
        layers: report.layers,
        uploads: report.uploads,
        blobs: report.blobs,
        unnamed: report.unnamed,
        bytes: report.bytes,
    }))
}

pub(crate) async fn usage(Reader(caller): Reader, State(state): State<FaceState>) -> Answer<Json<wire::Usage>> {
    let usage = state.engine.usage(&caller).await?;
    let quotas = usage.quotas;
    Ok(Json(wire::Usage {
        object: "stead.usage".to_owned(),
        blob_bytes: Kept { used: usage.blob_bytes, quota: quotas.blob_bytes },
        version_bytes: Kept { used: usage.version_bytes, quota: quotas.version_bytes },
        projects: Kept { used: usage.projects, quota: quotas.projects },
        source_files: Kept { used: usage.source_files, quota: quotas.source_files },
        blobs: usage.blobs,
    }))
}
