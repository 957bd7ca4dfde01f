//! A whole project at once (UHP Environments §3.1).

use serde::{Deserialize, Serialize};
use stead_domain::{Code, Error};
use stead_engine::ImportReport;

/// The JSON form of an import: a git repository.
#[derive(Debug, Clone, Deserialize)]
pub struct ImportWrite {
    git: Option<GitWrite>,
}

#[derive(Debug, Clone, Deserialize)]
struct GitWrite {
    url: Option<String>,
}

impl ImportWrite {
    /// Why it is refused: it names no repository, or one that would have to be fetched.
    pub fn refusal(&self) -> Error {
        match self.git.as_ref().and_then(|git| git.url.as_ref()) {
            Some(_) => Error::new(Code::ProjectInvalid, "import from git is not served yet; send an archive").at("git"),
            None => {
                Error::new(Code::ProjectInvalid, "the import is no archive and names no git repository").at("git.url")
            }
        }
    }
}

/// Skipped members that an answer names.
const NAMED: usize = 200;

/// The answer of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportResult {
    written: u64,
    skipped: u64,
    count: u64,
    bytes: u64,
    /// The first of the skipped, with the reason.
    stead_skipped: Vec<Skipped>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Skipped {
    name: String,
    reason: String,
}

impl From<ImportReport> for ImportResult {
    fn from(report: ImportReport) -> Self {
        Self {
            written: report.written,
            skipped: report.skipped,
            count: report.size.files,
            bytes: report.size.bytes,
            stead_skipped: report
                .skipped_members
                .into_iter()
                .take(NAMED)
                .map(|member| Skipped { name: member.name, reason: member.reason })
                .collect(),
        }
    }
}
