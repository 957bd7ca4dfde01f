//! Fetching the files that turns left.

use std::path::Path;

use futures_util::StreamExt;
use reqwest::Method;

use super::Context;
use crate::client::{Directory, Failure, relative_path, segment};
use crate::console::{note, printable};

/// How many saved files are named one by one.
const NAMED: usize = 10;

/// One file to fetch.
pub(crate) struct Wanted<'a> {
    pub(crate) container: &'a str,
    pub(crate) id: &'a str,
    pub(crate) path: &'a str,
}

/// Fetches files beneath a directory. A path that would lead out of it is refused before anything is fetched.
pub(crate) async fn save(context: &Context, directory: &Path, files: &[Wanted<'_>]) -> Result<(), Failure> {
    if let Some(file) = files.iter().find(|file| relative_path(file.path).is_none()) {
        return Err(Failure::new(format!(
            "the server names a file `{}`, which leads out of the directory",
            printable(file.path)
        ))
        .hint("nothing was saved"));
    }
    let target = Directory::create(directory)?;
    for file in files {
        let path = format!("/v1/containers/{}/files/{}/content", segment(file.container), segment(file.id));
        let response = context.client.send(context.client.request(Method::GET, &path)).await?;
        let mut writing = target.begin(file.path)?;
        let mut body = response.bytes_stream();
        while let Some(bytes) = body.next().await {
            writing.write(&bytes.map_err(|error| context.client.unanswered(&error))?)?;
        }
        writing.finish()?;
        if files.len() <= NAMED {
            note(&format!("saved {}", printable(&directory.join(file.path).display().to_string())));
        }
    }
    if files.len() > NAMED {
        note(&format!("saved {} files to {}", files.len(), printable(&directory.display().to_string())));
    }
    Ok(())
}
