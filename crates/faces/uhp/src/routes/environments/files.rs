//! The source, edited by path (UHP Environments §3).
//!
//! An extension: the bit that makes a file executable is set by the query `executable` or the header `X-Stead-Executable`; a
//! PUT that says nothing keeps what the file has, and a GET answers with the header.

use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use stead_domain::{Result, SourcePath};

use super::{Answer, json};
use crate::auth::{Reader, Writer};
use crate::body;
use crate::download::{self, Display};
use crate::names::{Names, RawSourcePath};
use crate::query::{self, Query};
use crate::state::FaceState;
use crate::wire::environment::{DirectoryWrite, DirectoryWritten, FileDeleted, FileTree, FileWritten};
use crate::wire::ids;

const EXECUTABLE: HeaderName = HeaderName::from_static("x-stead-executable");

fn executable(headers: &HeaderMap, query: &Query) -> Result<Option<bool>> {
    if let Some(flag) = query.flag("executable")? {
        return Ok(Some(flag));
    }
    let value = headers.get(EXECUTABLE).map(|value| value.to_str().unwrap_or("not a flag"));
    value.map(|value| query::flag("X-Stead-Executable", value)).transpose()
}

pub(super) async fn tree(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_environment(&names.first)?;
    let (entries, size) = state.engine.source_list(&caller, id).await?;
    json(FileTree::of(&entries, size))
}

pub(super) async fn read(
    Reader(caller): Reader,
    State(state): State<FaceState>,
    names: Names,
    path: RawSourcePath,
) -> Answer {
    let path = path.parse()?;
    let id = ids::parse_environment(&names.first)?;
    let open = state.engine.source_read(&caller, id, &path).await?;
    let mut response = download::file(open.file, path.as_str(), Display::InertInline);
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", open.blob)) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(EXECUTABLE, HeaderValue::from_static(if open.executable { "1" } else { "0" }));
    Ok(response)
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
    let path = path.parse_file()?;
    let executable = executable(&headers, &query)?;
    let id = ids::parse_environment(&names.first)?;
    let spooled = body::spool(&state.engine, &headers, body, limit).await?;
    let entry = state.engine.source_write(&caller, id, path, executable, spooled).await?;
    json(FileWritten { path: entry.path.to_string(), bytes: entry.size() })
}

pub(super) async fn remove(
    Writer(caller): Writer,
    State(state): State<FaceState>,
    names: Names,
    path: RawSourcePath,
) -> Answer {
    let path = path.parse()?;
    let id = ids::parse_environment(&names.first)?;
    state.engine.source_remove(&caller, id, &path).await?;
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
