//! `POST /v1/files` (UHP §10). Another protocol has the same path and the same call: a caller that names no UHP version gets
//! its spelling of the id, and both spellings are accepted everywhere.

use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request, State};
use http::StatusCode;
use http_body_util::Limited;
use stead_domain::{Code, Error, Result};
use stead_engine::{Engine, Spooled};
use stead_face_frame::Operation;

use super::{Answer, Routes, json};
use crate::auth::Writer;
use crate::state::FaceState;
use crate::wire::file::{File, UploadForm};
use crate::wire::ids;
use crate::{body, input, version};

pub(super) fn routes() -> Routes {
    let upload_of_a_file = Operation::new("Upload a file for a task to name")
        .takes_as::<UploadForm>("multipart/form-data")
        .answers::<File>();
    Routes::new().post("/v1/files", upload, upload_of_a_file)
}

/// What a multipart body may hold beside the file, in bytes.
const AROUND: u64 = 1 << 20;
/// The longest purpose, in bytes.
const PURPOSE: usize = 256;

/// What a file is for when the caller does not say.
const DEFAULT_PURPOSE: &str = "user_data";

struct Received {
    filename: String,
    media_type: String,
    spooled: Spooled,
}

async fn upload(Writer(caller): Writer, State(state): State<FaceState>, request: Request) -> Answer {
    let engine = state.engine;
    let limit = engine.limits().upload_bytes;
    let hyphen = !version::is_named(request.headers());
    body::check_length(request.headers(), limit + AROUND).map_err(|_| body::too_large(limit))?;
    let whole = usize::try_from(limit + AROUND).unwrap_or(usize::MAX);
    let request = request.map(|body| Body::new(Limited::new(body, whole)));
    let mut parts = Multipart::from_request(request, &()).await.map_err(|_| {
        Error::new(Code::InvalidInput, "an upload is a `multipart/form-data` body with a part named `file`")
    })?;
    let (mut file, mut purpose) = (None, None);
    while let Some(part) = parts.next_field().await.map_err(|error| refused(&error, limit))? {
        match part.name() {
            Some("file") if file.is_none() => file = Some(receive(&engine, part, limit).await?),
            Some("purpose") if purpose.is_none() => purpose = Some(text(part, limit).await?),
            Some(name @ ("file" | "purpose")) => {
                return Err(Error::invalid(name, format!("the part `{name}` is there twice")).into());
            }
            _ => drain(part, limit).await?,
        }
    }
    let file = file.ok_or_else(|| Error::invalid("file", "the part `file` is missing"))?;
    let purpose = purpose.filter(|purpose| !purpose.is_empty()).unwrap_or_else(|| DEFAULT_PURPOSE.to_owned());
    let upload = engine.upload_create(&caller, file.filename, purpose, file.media_type, file.spooled).await?;
    let id = if hyphen { ids::file_with_hyphen(upload.id) } else { upload.id.to_string() };
    json(File::upload(upload, id))
}

fn refused(error: &MultipartError, limit: u64) -> Error {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => body::too_large(limit),
        _ => Error::new(Code::InvalidInput, "the multipart body is malformed or did not come whole"),
    }
}

async fn receive(engine: &Engine, mut part: Field<'_>, limit: u64) -> Result<Received> {
    let filename = match part.file_name() {
        Some(name) => input::plain_name(name, "file")?,
        None => return Err(Error::invalid("file", "the part `file` has no filename")),
    };
    let media_type = part.content_type().unwrap_or("application/octet-stream").to_owned();
    let mut writer = engine.spool(limit).await?;
    while let Some(piece) = part.chunk().await.map_err(|error| refused(&error, limit))? {
        writer.write(&piece).await?;
    }
    Ok(Received { filename, media_type, spooled: writer.finish().await? })
}

async fn text(mut part: Field<'_>, limit: u64) -> Result<String> {
    let refusal = || Error::invalid("purpose", "`purpose` is a short text");
    let mut bytes = Vec::new();
    while let Some(piece) = part.chunk().await.map_err(|error| refused(&error, limit))? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > PURPOSE {
            return Err(refusal());
        }
    }
    String::from_utf8(bytes).map_err(|_| refusal())
}

async fn drain(mut part: Field<'_>, limit: u64) -> Result<()> {
    while part.chunk().await.map_err(|error| refused(&error, limit))?.is_some() {}
    Ok(())
}
