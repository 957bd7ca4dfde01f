//! A project's source.

use std::io::{IsTerminal, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use futures_util::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::{Body, Method};
use serde_json::Value;
use tokio_stream::wrappers::ReceiverStream;

use super::{Context, find};
use crate::client::{Answer, Anything, Failure, FileTree, ImportResult, pack, segment, source_path};
use crate::console::{colour, instant, note, print_bytes, printable, size, table};

pub(super) async fn list(context: &Context, project: &str) -> Result<(), Failure> {
    let project = find(context, project).await?;
    let tree = context.client.get::<FileTree>(&format!("/v1/environments/{}/files", segment(&project.id))).await?;
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
                vec![bytes, instant(Some(entry.mtime)), path]
            })
            .collect();
        table(&["SIZE", "WRITTEN", "PATH"], &rows)
    })
}

pub(super) async fn import(context: &Context, project: &str, path: &Path, replace: bool) -> Result<(), Failure> {
    let metadata =
        std::fs::metadata(path).map_err(|error| Failure::io(format_args!("read {}", path.display()), &error))?;
    let project = find(context, project).await?;
    let (body, total) = if metadata.is_dir() { packed(path, Path::new(""))? } else { whole(path)? };
    let answer = send_archive(context, &project.id, body, total, replace).await?;
    report(context, &answer.value);
    context.console.show(&answer.json, String::new)
}

pub(super) async fn put(context: &Context, project: &str, local: &Path, remote: Option<&str>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io(format_args!("read {}", local.display()), &error);
    let metadata = std::fs::metadata(local).map_err(failed)?;
    let own_name = local.file_name().and_then(std::ffi::OsStr::to_str);
    let Some(remote) = remote.or(own_name) else {
        return Err(Failure::usage("the name of the file cannot be a path in the project; name one"));
    };
    let encoded = source_path(remote)?;
    let project = find(context, project).await?;
    let executable = metadata.permissions().mode() & 0o111 != 0;
    if metadata.is_dir() || executable {
        // A PUT of one file cannot say that it is executable; an archive of one can.
        let (body, total) = packed(local, Path::new(remote.trim_end_matches('/')))?;
        let answer = send_archive(context, &project.id, body, total, false).await?;
        report(context, &answer.value);
        return context.console.show(&answer.json, String::new);
    }
    let (body, total) = whole(local)?;
    let path = format!("/v1/environments/{}/files/{encoded}", segment(&project.id));
    let (body, bar) = shown(body, total);
    let request = context.client.request(Method::PUT, &path).header("content-type", "application/octet-stream");
    let answer = context.client.answer::<Anything>(request.body(body)).await;
    bar.finish_and_clear();
    context.console.show(&answer?.json, String::new)
}

pub(super) async fn get(context: &Context, project: &str, remote: &str, local: Option<&Path>) -> Result<(), Failure> {
    let encoded = source_path(remote)?;
    let project = find(context, project).await?;
    let path = format!("/v1/environments/{}/files/{encoded}", segment(&project.id));
    let response = context.client.send(context.client.request(Method::GET, &path)).await?;
    let mut file = match local {
        None => None,
        Some(path) if path == Path::new("-") => None,
        Some(path) => {
            let path =
                if path.is_dir() { path.join(remote.rsplit('/').next().unwrap_or(remote)) } else { path.to_owned() };
            let made = std::fs::File::create(&path);
            Some(made.map_err(|error| Failure::io(format_args!("write {}", path.display()), &error))?)
        }
    };
    let mut body = response.bytes_stream();
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|error| context.client.unanswered(&error))?;
        match &mut file {
            Some(file) => {
                std::io::Write::write_all(file, &bytes).map_err(|error| Failure::io("write the file", &error))?;
            }
            None => print_bytes(&bytes)?,
        }
    }
    Ok(())
}

pub(super) async fn remove(context: &Context, project: &str, path: &str) -> Result<(), Failure> {
    let encoded = source_path(path)?;
    let project = find(context, project).await?;
    let path = format!("/v1/environments/{}/files/{encoded}", segment(&project.id));
    let answer = context.client.delete::<Value>(&path).await?;
    context.console.show(&answer.json, String::new)
}

fn packed(path: &Path, inside: &Path) -> Result<(Body, u64), Failure> {
    let packed = pack(path, inside)?;
    if !packed.left_out.is_empty() {
        let names: Vec<String> = packed.left_out.iter().map(|path| printable(&path.display().to_string())).collect();
        note(&format!("left out: {}", names.join(", ")));
    }
    Ok((Body::wrap_stream(ReceiverStream::new(packed.pieces)), packed.estimate))
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

async fn send_archive(
    context: &Context,
    project: &str,
    body: Body,
    total: u64,
    replace: bool,
) -> Result<Answer<ImportResult>, Failure> {
    let query = if replace { "?replace=1" } else { "" };
    let path = format!("/v1/environments/{}/import{query}", segment(project));
    let (body, bar) = shown(body, total);
    let request = context.client.request(Method::POST, &path).header("content-type", "application/octet-stream");
    let answer = context.client.answer::<ImportResult>(request.body(body)).await;
    bar.finish_and_clear();
    answer
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

fn report(context: &Context, result: &ImportResult) {
    if context.console.json {
        return;
    }
    for member in &result.stead_skipped {
        note(&format!("skipped {}: {}", printable(&member.name), printable(&member.reason)));
    }
    let (count, bytes) = (result.count, size(result.bytes));
    note(&format!(
        "{} files written, {} members skipped; the project now holds {count} files, {bytes}",
        result.written, result.skipped
    ));
}
