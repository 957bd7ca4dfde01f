//! `stead usage` and `stead collect`.

use stead_face_stead::wire::{Collected, Kept, Usage};

use super::Context;
use crate::client::Failure;
use crate::console::{count, size, table};

pub(crate) async fn usage(context: &Context) -> Result<(), Failure> {
    let usage = context.client.get::<Usage>("/stead/v1/usage").await?;
    context.console.show(&usage.json, || {
        let Usage { blob_bytes, version_bytes, projects, source_files, .. } = usage.value;
        let bytes = |name: &str, kept: Kept| row(name, kept, size);
        let number = |name: &str, kept: Kept| row(name, kept, |number| number.to_string());
        let rows = [
            bytes("file contents", blob_bytes),
            bytes("versions and layers", version_bytes),
            number("projects", projects),
            number("files of a project, at most", source_files),
        ];
        table(&["WHAT", "USED", "QUOTA"], &rows)
    })
}

fn row(name: &str, kept: Kept, shown: impl Fn(u64) -> String) -> Vec<String> {
    vec![name.to_owned(), shown(kept.used), kept.quota.map_or_else(|| "-".to_owned(), shown)]
}

pub(crate) async fn collect(context: &Context) -> Result<(), Failure> {
    let collected = context.client.post::<Collected>("/stead/v1/collect").await?;
    context.console.show(&collected.json, || {
        let Collected { versions, layers, uploads, blobs, unnamed, bytes, .. } = collected.value;
        let waiting = match unnamed {
            0 => String::new(),
            some => {
                format!("{} that nothing names: removed once their grace has passed\n", count(some, "file content"))
            }
        };
        let bytes = size(bytes);
        format!(
            "removed {}, {}, {} and {}: {bytes}\n{waiting}",
            count(versions, "version"),
            count(layers, "layer"),
            count(uploads, "upload"),
            count(blobs, "file content"),
        )
    })
}
