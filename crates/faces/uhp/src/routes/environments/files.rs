//! The source, edited by path (UHP Environments §3).
//!
//! Extensions: the bit that makes a file executable is set by the query `executable` or the header `X-Stead-Executable` of a
//! PUT, or by a PATCH without the bytes; a PUT that says nothing keeps what the file has, and a GET answers with the header.
//! Reads and writes are conditional, reads take ranges (RFC 9110 §13, §14).

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use stead_domain::key::Caller;
use stead_domain::source::{EntryKind, SourceEntry};
use stead_domain::{BlobId, Code, Error, ProjectId, Result, SourcePath};
use stead_engine::{Engine, FileWrite};

use super::{Answer, json};
use crate::auth::{Reader, Writer};
use crate::download::{Display, Stored};
use crate::errors::Failure;
use crate::names::{Names, RawSourcePath};
use crate::query::{self, Query};
use crate::state::FaceState;
use crate::wire::environment::{DirectoryWrite, DirectoryWritten, FileChange, FileChanged, FileDeleted, FileWritten};
use crate::wire::ids;
use crate::{body, conditions};

const EXECUTABLE: HeaderName = HeaderName::from_static("x-stead-executable");

fn executable(headers: &HeaderMap, query: &Query) -> Result<Option<bool>> {
    if let Some(flag) = query.flag("executable")? {
        return Ok(Some(flag));
    }
    let value = headers.get(EXECUTABLE).map(|value| value.to_str().unwrap_or("not a flag"));
    value.map(|value| query::flag("X-Stead-Executable", value)).transpose()
}

/// The bytes of a file; a directory has none.
fn bytes_of(entry: &SourceEntry) -> Result<BlobId> {
    match entry.kind {
        EntryKind::File { blob, .. } => Ok(blob),
        EntryKind::Directory => {
            Err(Error::new(Code::FileNotFound, "the path names a directory, not a file").at("path"))
        }
    }
}

/// Refuses a path that ends in a slash and names a file: there is no directory of that name.
async fn check_directory(
    engine: &Engine,
    caller: &Caller,
    id: ProjectId,
    (raw, path): (&RawSourcePath, &SourcePath),
) -> Result<()> {
    if raw.says_directory()? && !engine.source_entry(caller, id, path).await?.is_directory() {
        return Err(Error::new(Code::FileNotFound, "the path ends in a slash, and what is there is a file").at("path"));
    }
    Ok(())
}

/// Says of a file which bytes it has and whether it may be executed.
fn described(mut response: Response, entry: &SourceEntry) -> Answer {
    let headers = response.headers_mut();
    headers.insert(header::ETAG, conditions::tag(bytes_of(entry)?)?);
    headers.insert(EXECUTABLE, HeaderValue::from_static(if entry.is_executable() { "1" } else { "0" }));
    Ok(response)
}

/// Refuses a body that is not the file as it is to be kept: a part of it, or its bytes in a coding.
fn check_whole(headers: &HeaderMap) -> std::result::Result<(), Failure> {
    if headers.contains_key(header::CONTENT_RANGE) {
        let message = "`Content-Range` is not taken: a write is of the whole file";
        return Err(Error::invalid("Content-Range", message).into());
    }
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let coding = value.to_str().unwrap_or("?").trim();
        if !(coding.is_empty() || coding.eq_ignore_ascii_case("identity")) {
            return Err(Failure::encoded_body(coding));
        }
    }
    Ok(())
}

pub(super) async fn read(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    (names, raw): (Names, RawSourcePath),
    method: Method,
    headers: HeaderMap,
) -> Answer {
    let path = raw.parse()?;
    let id = ids::parse_environment(&names.first)?;
    check_directory(&state.engine, &caller, id, (&raw, &path)).await?;
    let entry = state.engine.source_entry(&caller, id, &path).await?;
    let stored = Stored {
        path: path.as_str(),
        blob: bytes_of(&entry)?,
        bytes: entry.size(),
        modified_at: entry.modified_at,
        display: Display::InertInline,
    };
    described(stored.answer(&state.engine, &caller, &method, &headers).await?, &entry)
}

pub(super) async fn write(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    (names, path): (Names, RawSourcePath),
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let limit = state.engine.limits().file_bytes;
    body::check_length(&headers, limit)?;
    check_whole(&headers)?;
    let write = FileWrite {
        path: path.parse_file()?,
        executable: executable(&headers, &query)?,
        precondition: conditions::of_write(&headers)?,
    };
    let id = ids::parse_environment(&names.first)?;
    state.engine.source_admit(&caller, id, &write).await?;
    let spooled = body::spool(&state.engine, &headers, body, limit).await?;
    let entry = state.engine.source_write(&caller, id, write, spooled).await?;
    described(json(FileWritten { path: entry.path.to_string(), bytes: entry.size() })?, &entry)
}

pub(super) async fn change(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    (names, raw): (Names, RawSourcePath),
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let path = raw.parse()?;
    let precondition = conditions::of_write(&headers)?;
    let change: FileChange = body::json(&headers, body, body::SMALL).await?;
    let id = ids::parse_environment(&names.first)?;
    check_directory(&state.engine, &caller, id, (&raw, &path)).await?;
    let entry = state.engine.source_set_executable(&caller, id, &path, change.executable, &precondition).await?;
    let changed =
        FileChanged { path: entry.path.to_string(), bytes: entry.size(), stead_executable: entry.is_executable() };
    described(json(changed)?, &entry)
}

pub(super) async fn remove(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    (names, raw): (Names, RawSourcePath),
    headers: HeaderMap,
) -> Answer {
    let path = raw.parse()?;
    let precondition = conditions::of_write(&headers)?;
    let id = ids::parse_environment(&names.first)?;
    check_directory(&state.engine, &caller, id, (&raw, &path)).await?;
    state.engine.source_remove(&caller, id, &path, &precondition).await?;
    json(FileDeleted { path: path.to_string(), deleted: true })
}

pub(super) async fn directory(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    names: Names,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let write: DirectoryWrite = body::json(&headers, body, body::SMALL).await?;
    let path = SourcePath::parse(&write.path)?;
    let id = ids::parse_environment(&names.first)?;
    state.engine.source_mkdir(&caller, id, path.clone()).await?;
    json(DirectoryWritten { path: path.to_string(), dir: true })
}
