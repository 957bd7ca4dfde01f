//! `GET /v1/sessions/{id}/files/archive`: every artifact in one zip (UHP §10).
//!
//! The zip is written to an unnamed file first, so that a fault becomes a refusal and never a truncated answer.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use axum::extract::State;
use stead_domain::file::Artifact;
use stead_domain::key::Caller;
use stead_domain::{Code, Error, Result, SessionId};
use stead_engine::Engine;
use tokio::runtime::Handle;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::super::Answer;
use crate::auth::Reader;
use crate::download;
use crate::names::Names;
use crate::state::FaceState;
use crate::wire::ids;

pub(super) async fn download(Reader(caller): Reader, State(state): State<FaceState>, names: Names) -> Answer {
    let id = ids::parse_session(&names.first)?;
    let artifacts = state.engine.artifacts(&caller, id).await?;
    let runtime = Handle::current();
    let packing = tokio::task::spawn_blocking(move || pack(&runtime, &state.engine, &caller, id, artifacts));
    let (file, bytes) = packing.await.map_err(Error::internal)??;
    Ok(download::archive(file, bytes, &format!("{}.zip", names.first)))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Code::BackendUnavailable, "the archive cannot be written").because(error)
}

/// Packs the artifacts, newest first, so that the newest of one name keeps it.
fn pack(
    runtime: &Handle,
    engine: &Engine,
    caller: &Caller,
    session: SessionId,
    artifacts: Vec<Artifact>,
) -> Result<(File, u64)> {
    let mut writer = ZipWriter::new(tempfile::tempfile().map_err(failed)?);
    let mut taken = HashSet::new();
    for artifact in artifacts.iter().rev() {
        let (_, mut source) = runtime.block_on(engine.artifact_open(caller, session, artifact.id))?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .large_file(artifact.bytes >= u64::from(u32::MAX));
        writer.start_file(entry_name(&artifact.path, &mut taken), options).map_err(failed)?;
        io::copy(&mut source, &mut writer).map_err(failed)?;
    }
    let mut file = writer.finish().map_err(failed)?;
    let bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok((file, bytes))
}

/// A name that every system can unpack, that stays beneath where it is unpacked, and that no other entry has, whatever the
/// case of its letters.
fn entry_name(path: &str, taken: &mut HashSet<String>) -> String {
    let harmless =
        |character: char| if character.is_control() || "\\:*?\"<>|".contains(character) { '_' } else { character };
    let segments = path.split('/').filter(|segment| !matches!(*segment, "" | "." | ".."));
    let safe: Vec<String> = segments.map(|segment| segment.chars().map(harmless).collect()).collect();
    let safe = if safe.is_empty() { "file".to_owned() } else { safe.join("/") };
    let after_slash = safe.rfind('/').map_or(0, |slash| slash + 1);
    let dot = safe.rfind('.').filter(|dot| *dot > after_slash).unwrap_or(safe.len());
    let (stem, extension) = safe.split_at(dot);
    let mut name = safe.clone();
    let mut number = 2;
    while !taken.insert(name.to_lowercase()) {
        name = format!("{stem} ({number}){extension}");
        number += 1;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_safe_and_unique() {
        let mut taken = HashSet::new();
        let names =
            ["out/a.txt", "out/A.txt", "../../etc/passwd", "/abs", "a\\b:c", "", ".env", ".ENV", "d.x/f", "d.x/f"]
                .map(|path| entry_name(path, &mut taken));
        assert_eq!(
            names,
            [
                "out/a.txt",
                "out/A (2).txt",
                "etc/passwd",
                "abs",
                "a_b_c",
                "file",
                ".env",
                ".ENV (2)",
                "d.x/f",
                "d.x/f (2)"
            ]
        );
    }
}
