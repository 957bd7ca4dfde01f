//! Files: uploads and artifacts (UHP §10).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use stead_domain::file::{Artifact, Upload};

use super::ids;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct File {
    /// Its id.
    pub id: String,
    object: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_id: Option<String>,
    /// The name it came with; for an artifact its path relative to the session's working directory.
    filename: String,
    bytes: u64,
    created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    download_url: Option<String>,
}

impl From<&Artifact> for File {
    fn from(artifact: &Artifact) -> Self {
        Self {
            id: artifact.id.to_string(),
            object: "file",
            container_id: Some(ids::container(artifact.session_id)),
            filename: artifact.path.clone(),
            bytes: artifact.bytes,
            created_at: artifact.created_at.as_seconds(),
            purpose: None,
            status: None,
            download_url: Some(ids::download_url(artifact.session_id, artifact.id)),
        }
    }
}

impl File {
    /// An upload under one of its two spellings.
    pub fn upload(upload: Upload, id: String) -> Self {
        Self {
            id,
            object: "file",
            container_id: None,
            filename: upload.filename,
            bytes: upload.bytes,
            created_at: upload.created_at.as_seconds(),
            purpose: Some(upload.purpose),
            status: Some("processed"),
            download_url: None,
        }
    }
}

/// The parts of an upload, for the document alone: the body is read as it comes.
#[derive(Debug)]
pub struct UploadForm;

impl JsonSchema for UploadForm {
    fn schema_name() -> Cow<'static, str> {
        "UploadForm".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": { "file": { "type": "string", "format": "binary" }, "purpose": { "type": "string" } },
            "required": ["file"],
        })
    }
}

/// The answer of `GET /v1/sessions/{id}/files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileList {
    /// Of all turns, latest turn last.
    pub files: Vec<File>,
}
