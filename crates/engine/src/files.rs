//! Uploads that come in and artifacts that go out.

use stead_domain::changes::Changes;
use stead_domain::file::{Artifact, Upload};
use stead_domain::key::Caller;
use stead_domain::ports::BlobFile;
use stead_domain::{BlobId, Code, Error, FileId, Result, SessionId};

use crate::commit::{blobs_failed, store_failed};
use crate::engine::Engine;
use crate::spool::Spooled;

fn not_found() -> Error {
    Error::new(Code::FileNotFound, "there is no such file")
}

/// The longest file name, in bytes: what a directory takes.
const MAX_NAME: usize = 255;

/// A file name as it may stand in a working directory: the last segment of what the client sent.
pub(crate) fn plain_name(text: &str) -> Result<String> {
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    if name.is_empty() || name == "." || name == ".." || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(Error::invalid("filename", "a file needs a plain name of 1 to 255 bytes"));
    }
    Ok(name.to_owned())
}

impl Engine {
    /// Keeps an uploaded file for later tasks.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn upload_create(
        &self,
        caller: &Caller,
        filename: String,
        purpose: String,
        media_type: String,
        body: Spooled,
    ) -> Result<Upload> {
        let filename = plain_name(&filename)?;
        self.require_blob_room(caller.workspace_id, body.bytes).await?;
        let stored = self.adopt(caller.workspace_id, body).await?;
        let upload = Upload {
            id: FileId::new(self.ids.as_ref()),
            workspace_id: caller.workspace_id,
            filename,
            purpose,
            media_type,
            bytes: stored.bytes,
            blob: stored.id,
            created_at: self.now(),
        };
        self.decide(|| async { Ok((Changes::new().fact(upload.clone()), ())) }).await?;
        Ok(upload)
    }

    /// An uploaded file.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn upload_get(&self, caller: &Caller, id: FileId) -> Result<Upload> {
        let upload = self.store.upload_fetch(caller.workspace_id, id).await.map_err(store_failed)?;
        upload.ok_or_else(not_found)
    }

    /// Everything a session's turns left, in the order in which it was collected.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn artifacts(&self, caller: &Caller, session: SessionId) -> Result<Vec<Artifact>> {
        self.session_get(caller, session).await?;
        self.store.artifacts_of(session).await.map_err(store_failed)
    }

    /// One artifact. After its session is deleted it is not found.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn artifact_get(&self, caller: &Caller, session: SessionId, id: FileId) -> Result<Artifact> {
        self.session_get(caller, session).await.map_err(|_| not_found())?;
        let artifact = self.store.artifact_fetch(caller.workspace_id, id).await.map_err(store_failed)?;
        artifact.filter(|artifact| artifact.session_id == session).ok_or_else(not_found)
    }

    /// One artifact, open.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn artifact_open(&self, caller: &Caller, session: SessionId, id: FileId) -> Result<(Artifact, BlobFile)> {
        let artifact = self.artifact_get(caller, session, id).await?;
        let file = self.blob_open(caller, artifact.blob).await?;
        Ok((artifact, file))
    }

    /// The bytes of a blob of the caller's workspace, open.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn blob_open(&self, caller: &Caller, blob: BlobId) -> Result<BlobFile> {
        self.blobs.open(caller.workspace_id, blob).await.map_err(blobs_failed)
    }
}
