//! A project's source.

use std::io::{IsTerminal, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::{Body, Method};
use serde_json::{Value, json};
use tokio_stream::wrappers::ReceiverStream;

use super::file::{described, moved_on, not_there, quoted};
use super::{Condition, Context, find};
use crate::client::{
    Answer, Environment, Failure, FileTree, ImportResult, Skipped, WRAPPER, pack, segment, source_path,
};
use crate::console::{colour, count, instant, note, printable, size, table};

/// How many entries are asked for at once.
const PAGE: u32 = 5_000;

pub(super) async fn list(context: &Context, project: &str, under: Option<&str>) -> Result<(), Failure> {
    let project = find(context, project).await?;
    let mut query = format!("?limit={PAGE}");
    if let Some(under) = under {
        // Checked as a path, then sent as one value.
        source_path(under)?;
        query = format!("{query}&under={}", segment(under));
    }
    let path = format!("/v1/environments/{}/files{query}", segment(&project.id));
    let missing = |failure| not_there(failure, &project, under.unwrap_or_default());
    let mut tree = context.client.get::<FileTree>(&path).await.map_err(missing)?;
    while let Some(after) = tree.value.stead_after.take() {
        let mut page = context.client.get::<FileTree>(&format!("{path}&after={}", segment(&after))).await?;
        tree.value.entries.append(&mut page.value.entries);
        tree.value.stead_after = page.value.stead_after;
        // The sizes beside the entries are those that the last page gives.
        if let (Some(all), Some(entries)) = (tree.json["entries"].as_array_mut(), page.json["entries"].as_array_mut()) {
            all.append(entries);
            page.json["entries"] = std::mem::take(all).into();
        }
        tree.json = page.json;
    }
    context.console.show(&tree.json, || {
        let rows: Vec<_> = tree
            .value
            .entries
            .iter()
            .map(|entry| {
                let (path, bytes) = if entry.dir {
                    (format!("{}/", entry.path), "-".to_owned())
                } else {
                    (entry.path.clone(), size(entry.bytes))
                };
                let mode = if entry.stead_executable { "x" } else { "-" };
                vec![mode.to_owned(), bytes, instant(Some(entry.mtime)), path]
            })
            .collect();
        table(&["MODE", "SIZE", "WRITTEN", "PATH"], &rows)
    })
}

pub(super) async fn import(context: &Context, project: &str, path: &Path, replace: bool) -> Result<(), Failure> {
    let metadata =
        std::fs::metadata(path).map_err(|error| Failure::io(format_args!("read {}", path.display()), &error))?;
    let project = find(context, project).await?;
    let sending = if metadata.is_dir() { Sending::packed(path, Path::new(""))? } else { Sending::whole(path)? };
    send_archive(context, &project, path, sending, replace).await
}

pub(super) async fn put(
    context: &Context,
    project: &str,
    local: &Path,
    remote: Option<&str>,
    condition: &Condition,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io(format_args!("read {}", local.display()), &error);
    let metadata = std::fs::metadata(local).map_err(failed)?;
    let own_name = local.file_name().and_then(std::ffi::OsStr::to_str);
    let Some(remote) = remote.or(own_name) else {
        return Err(Failure::usage("the name of the file cannot be a path in the project; name one"));
    };
    let inside = format!("{remote}{}", own_name.unwrap_or_default());
    let remote = match own_name {
        // As `cp` has it. A directory's content goes into the one that is named, with a slash or without.
        Some(_) if remote.ends_with('/') && !metadata.is_dir() => inside.as_str(),
        _ => remote,
    };
    let encoded = source_path(remote)?;
    if metadata.is_dir() && (condition.new || condition.if_match.is_some()) {
        return Err(Failure::usage("a condition is about one file, and this is a directory"));
    }
    let project = find(context, project).await?;
    if metadata.is_dir() {
        let sending = Sending::packed(local, Path::new(remote.trim_end_matches('/')))?;
        return send_archive(context, &project, local, sending, false).await;
    }
    let Sending { body, total, .. } = Sending::whole(local)?;
    // A file that is not executable here says nothing about the one there, which may have been made so.
    let query = if metadata.permissions().mode() & 0o111 != 0 { "?executable=1" } else { "" };
    let path = format!("/v1/environments/{}/files/{encoded}{query}", segment(&project.id));
    let (body, bar) = shown(body, total);
    let mut request = context.client.request(Method::PUT, &path).header("content-type", "application/octet-stream");
    if let Some(tag) = &condition.if_match {
        request = request.header("if-match", quoted(tag));
    } else if condition.new {
        request = request.header("if-none-match", "*");
    }
    let response = context.client.send(request.body(body)).await;
    bar.finish_and_clear();
    let response = response.map_err(|failure| {
        let failure = too_large(failure, local, total).about(&project.slug);
        moved_on(failure, &project, remote)
    })?;
    context.console.show(&described(remote, total, response.headers()), String::new)
}

/// The sentence about what is too large, which names the file at fault where that can be known here.
fn too_large(failure: Failure, path: &Path, bytes: u64) -> Failure {
    let Some(limit) = failure.fact("max_bytes").filter(|_| failure.code() == "file_too_large") else { return failure };
    let path = printable(&path.display().to_string());
    let most = size(limit);
    failure.said(if bytes > limit {
        format!("{path} is too large: {}, and the server takes at most {most}", size(bytes))
    } else {
        format!("{path} is too large: the server takes at most {most} of it once it is unpacked")
    })
}

/// What goes to the server.
struct Sending {
    body: Body,
    /// Roughly how many bytes that is.
    total: u64,
    /// The largest file in it, when it was packed here.
    largest: Option<(PathBuf, u64)>,
    packed: bool,
    /// What is not sent, by its name in the project, and why.
    skipped: Vec<(String, &'static str)>,
}

impl Sending {
    fn packed(path: &Path, inside: &Path) -> Result<Self, Failure> {
        let packed = pack(path, inside)?;
        if !packed.left_out.is_empty() {
            let names: Vec<String> =
                packed.left_out.iter().map(|path| printable(&path.display().to_string())).collect();
            note(&format!("left out: {}", names.join(", ")));
        }
        let named = |(path, reason): (PathBuf, _)| (inside.join(path).display().to_string(), reason);
        let skipped = packed.skipped.into_iter().map(named).collect();
        let body = Body::wrap_stream(ReceiverStream::new(packed.pieces));
        Ok(Self { body, total: packed.estimate, largest: packed.largest, packed: true, skipped })
    }

    fn whole(path: &Path) -> Result<Self, Failure> {
        let (body, total) = whole(path)?;
        Ok(Self { body, total, largest: None, packed: false, skipped: Vec::new() })
    }
}

/// A file as a body.
fn whole(path: &Path) -> Result<(Body, u64), Failure> {
    let failed = |error: std::io::Error| Failure::io(format_args!("read {}", path.display()), &error);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let total = file.metadata().map_err(failed)?.len();
    let (sender, pieces) = tokio::sync::mpsc::channel(16);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; 64 << 10];
            let read = file.read(&mut piece);
            let done = !matches!(read, Ok(1..));
            let piece = read.map(|read| {
                piece.truncate(read);
                bytes::Bytes::from(piece)
            });
            if sender.blocking_send(piece).is_err() || done {
                return;
            }
        }
    });
    Ok((Body::wrap_stream(ReceiverStream::new(pieces)), total))
}

/// Imports an archive and says what came of it.
async fn send_archive(
    context: &Context,
    project: &Environment,
    local: &Path,
    sending: Sending,
    replace: bool,
) -> Result<(), Failure> {
    let query = if replace { "?replace=1" } else { "" };
    let path = format!("/v1/environments/{}/import{query}", segment(&project.id));
    let (body, bar) = shown(sending.body, sending.total);
    let request = context.client.request(Method::POST, &path).header("content-type", "application/octet-stream");
    let answer = context.client.answer::<ImportResult>(request.body(body)).await;
    bar.finish_and_clear();
    let Answer { mut json, mut value } = answer.map_err(|failure| {
        let limit = failure.fact("max_bytes").unwrap_or(u64::MAX);
        let failure = match &sending.largest {
            Some((largest, bytes)) if *bytes > limit => too_large(failure, largest, *bytes),
            _ => too_large(failure, local, sending.total),
        };
        let failure = failure.about(&project.slug);
        if !sending.packed {
            return failure;
        }
        let message = failure.message().replace(&format!("`{WRAPPER}/"), "`");
        failure.said(message)
    })?;
    if sending.packed {
        // The directory that wraps what is packed here is nothing that people know of.
        let inside = |name: &str| name.strip_prefix(WRAPPER)?.strip_prefix('/').map(str::to_owned);
        for member in &mut value.stead_skipped {
            member.name = inside(&member.name).unwrap_or_else(|| member.name.clone());
        }
        for member in json["stead_skipped"].as_array_mut().into_iter().flatten() {
            if let Some(name) = member["name"].as_str().and_then(inside) {
                member["name"] = name.into();
            }
        }
    }
    add_skipped(&mut json, &mut value, &sending.skipped);
    report(context, &value);
    context.console.show(&json, String::new)
}

/// Adds what was not sent to what the server did not take.
fn add_skipped(json: &mut Value, value: &mut ImportResult, skipped: &[(String, &'static str)]) {
    value.skipped += skipped.len() as u64;
    json["skipped"] = value.skipped.into();
    for (name, reason) in skipped {
        value.stead_skipped.push(Skipped { name: name.clone(), reason: (*reason).to_owned() });
        if let Some(members) = json["stead_skipped"].as_array_mut() {
            members.push(json!({ "name": name, "reason": reason }));
        }
    }
}

/// A body whose progress a bar shows while standard error is a terminal.
fn shown(body: Body, total: u64) -> (Body, ProgressBar) {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(total) } else { ProgressBar::hidden() };
    let template = if colour() {
        "{bar:30.cyan} {bytes}/{total_bytes} {bytes_per_sec}"
    } else {
        "{bar:30} {bytes}/{total_bytes} {bytes_per_sec}"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let counting = bar.clone();
    let stream = http_body_util::BodyDataStream::new(body);
    let counted = stream.inspect(move |piece| {
        if let Ok(piece) = piece {
            counting.inc(piece.len() as u64);
        }
    });
    (Body::wrap_stream(counted), bar)
}

pub(super) fn report(context: &Context, result: &ImportResult) {
    if context.console.json {
        return;
    }
    for member in &result.stead_skipped {
        note(&format!("skipped {}: {}", printable(&member.name), printable(&member.reason)));
    }
    super::git::findings(&result.stead_report);
    let written = count(result.written, "file");
    let skipped = if result.skipped > 0 { format!(", {} skipped", result.skipped) } else { String::new() };
    let (holds, bytes) = (count(result.count, "file"), size(result.bytes));
    note(&format!("{written} written{skipped}; the project now holds {holds}, {bytes}"));
}
