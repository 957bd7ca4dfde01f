//! Pages in JSON (PEP 691).

use serde::Deserialize;

use super::File;
use crate::failure::Failure;

#[derive(Deserialize)]
struct Page {
    files: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    filename: String,
    #[serde(default)]
    yanked: Yanked,
}

/// A flag, or the reason, which stands for yes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Yanked {
    Flag(bool),
    Reason(String),
}

impl Default for Yanked {
    fn default() -> Self {
        Self::Flag(false)
    }
}

/// The files of a page.
pub(super) fn files(body: &[u8]) -> Result<Vec<File>, Failure> {
    let page: Page = serde_json::from_slice(body).map_err(|_| Failure::Unreadable)?;
    let file = |listed: Listed| {
        let yanked = match listed.yanked {
            Yanked::Flag(flag) => flag,
            Yanked::Reason(reason) => !reason.is_empty(),
        };
        File { name: listed.filename, yanked }
    };
    Ok(page.files.into_iter().map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_yes() {
        let page = br#"{"meta":{"api-version":"1.1"},"name":"a","versions":["1"],"files":[
            {"filename":"a-1.tar.gz","hashes":{},"url":"x","yanked":false},
            {"filename":"a-2.tar.gz","yanked":"broken"},{"filename":"a-3.tar.gz","yanked":true},{"filename":"a-4.tar.gz"}]}"#;
        let yanked: Vec<bool> = files(page).unwrap().iter().map(|file| file.yanked).collect();
        assert_eq!(yanked, [false, true, true, false]);
        assert_eq!(files(b"<html>"), Err(Failure::Unreadable));
    }
}
