//! One file of a project's source.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use futures_util::StreamExt;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::{Context, Mode, find};
use crate::client::{Anything, Environment, Failure, segment, source_path};
use crate::console::{print_bytes, printable};

/// A tag in the quotes that it is sent in.
pub(super) fn quoted(tag: &str) -> String {
    if tag == "*" || tag.contains('"') { tag.to_owned() } else { format!("\"{tag}\"") }
}

/// A file's path, size, tag and mode, the latter two as the headers of an answer about it say.
pub(super) fn described(path: &str, bytes: u64, headers: &HeaderMap) -> Value {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    json!({
        "path": path,
        "bytes": bytes,
        "etag": text("etag").map(|tag| tag.trim_matches('"')),
        "executable": text("x-stead-executable") == Some("1"),
    })
}

pub(super) async fn get(context: &Context, project: &str, remote: &str, local: Option<&Path>) -> Result<(), Failure> {
    let encoded = source_path(remote)?;
    let project = find(context, project).await?;
    let path = format!("/v1/environments/{}/files/{encoded}", segment(&project.id));
    let response = context.client.send(context.client.request(Method::GET, &path)).await;
    let response = response.map_err(|failure| not_there(failure, &project, remote))?;
    let headers = response.headers().clone();
    let mut total = 0;
    let mut file = match local {
        None => None,
        Some(path) if path == Path::new("-") => None,
        Some(path) => {
            let path =
                if path.is_dir() { path.join(remote.rsplit('/').next().unwrap_or(remote)) } else { path.to_owned() };
            let made = std::fs::File::create(&path).and_then(|file| {
                if headers.get("x-stead-executable").is_some_and(|value| value == "1") {
                    make_executable(&file)?;
                }
                Ok(file)
            });
            Some(made.map_err(|error| Failure::io(format_args!("write {}", path.display()), &error))?)
        }
    };
    let mut body = response.bytes_stream();
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|error| context.client.unanswered(&error))?;
        total += bytes.len() as u64;
        match &mut file {
            Some(file) => {
                std::io::Write::write_all(file, &bytes).map_err(|error| Failure::io("write the file", &error))?;
            }
            None => print_bytes(&bytes)?,
        }
    }
    // Standard output is the file's when it goes there.
    if file.is_some() { context.console.show(&described(remote, total, &headers), String::new) } else { Ok(()) }
}

/// Whoever may read the file may execute it. One that is not executable in the project keeps what it is here, as with `put`.
fn make_executable(file: &std::fs::File) -> std::io::Result<()> {
    let metadata = file.metadata()?;
    // `/dev/stdout` and the like stay what they are.
    if !metadata.is_file() {
        return Ok(());
    }
    let mode = metadata.permissions().mode();
    file.set_permissions(std::fs::Permissions::from_mode(mode | (mode & 0o444) >> 2))
}

pub(super) async fn chmod(context: &Context, project: &str, mode: Mode, path: &str) -> Result<(), Failure> {
    let encoded = source_path(path)?;
    let project = find(context, project).await?;
    let encoded = format!("/v1/environments/{}/files/{encoded}", segment(&project.id));
    let request = context.client.request(Method::PATCH, &encoded);
    let request = request.json(&json!({ "executable": mode == Mode::Executable }));
    let response = context.client.send(request).await.map_err(|failure| not_there(failure, &project, path))?;
    let headers = response.headers().clone();
    let body: Value = response.json().await.map_err(|error| context.client.unanswered(&error))?;
    let bytes = body["bytes"].as_u64().unwrap_or_default();
    context.console.show(&described(path, bytes, &headers), String::new)
}

pub(super) async fn remove(
    context: &Context,
    project: &str,
    path: &str,
    if_match: Option<&str>,
) -> Result<(), Failure> {
    let encoded = source_path(path)?;
    let project = find(context, project).await?;
    let encoded = format!("/v1/environments/{}/files/{encoded}", segment(&project.id));
    let mut request = context.client.request(Method::DELETE, &encoded);
    if let Some(tag) = if_match {
        request = request.header("if-match", quoted(tag));
    }
    let answer = context.client.answer::<Anything>(request).await;
    let answer = answer.map_err(|failure| moved_on(not_there(failure, &project, path), &project, path))?;
    context.console.show(&answer.json, String::new)
}

/// What a condition that does not hold means.
pub(super) fn moved_on(failure: Failure, project: &Environment, path: &str) -> Failure {
    if failure.code() != "stead_precondition_failed" {
        return failure;
    }
    let hint =
        format!("`stead --json project get {} {} FILE` fetches it and prints its tag", project.slug, printable(path));
    failure.hint(hint)
}

pub(super) fn not_there(failure: Failure, project: &Environment, path: &str) -> Failure {
    let missing = failure.code() == "file_not_found";
    let message = failure.message().to_owned();
    let failure = failure.about(&project.slug);
    let (slug, path) = (&project.slug, printable(path));
    match message.as_str() {
        _ if !missing => failure,
        // What is there is of the other kind, and the server says of which.
        message if message.contains("a directory") => {
            failure.said(format!("`{path}` is a directory of {slug}, not a file")).hint(format!(
                "`stead project files {slug} --under {path}` shows what is in it; files are fetched one by one"
            ))
        }
        _ => failure.said(format!("there is no `{path}` in {slug}")),
    }
}
