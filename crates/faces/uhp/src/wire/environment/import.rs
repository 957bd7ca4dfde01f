//! A whole project at once (UHP Environments §3.1).

use serde::{Deserialize, Serialize};
use stead_domain::{Code, Error, Result};
use stead_engine::{GitImport, ImportReport, SkippedMember};

/// The JSON form of an import: a git repository.
#[derive(Clone, Deserialize)]
pub struct ImportWrite {
    git: Option<GitWrite>,
    #[serde(default)]
    replace: Option<bool>,
}

/// What it names. It may hold credentials, so nothing shows it.
#[derive(Clone, Deserialize)]
struct GitWrite {
    url: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// Ours: a private key for an ssh address.
    stead_ssh_key: Option<String>,
    /// Ours: the keys of ssh hosts, as `known_hosts` has them.
    stead_known_hosts: Option<String>,
}

impl ImportWrite {
    /// Whether what is there goes first.
    pub fn replace(&self) -> bool {
        self.replace.unwrap_or(false)
    }

    /// The repository, judged.
    pub fn repository(self) -> Result<GitImport> {
        let missing =
            || Error::new(Code::ProjectInvalid, "the import is no archive and names no git repository").at("git.url");
        let git = self.git.ok_or_else(missing)?;
        let mut import = GitImport::new(&git.url.ok_or_else(missing)?, git.reference.as_deref())?;
        if let Some(key) = git.stead_ssh_key {
            import = import.with_ssh_key(key)?;
        }
        if let Some(lines) = git.stead_known_hosts {
            import = import.with_known_hosts(lines)?;
        }
        Ok(import)
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
    stead_skipped: Vec<Named>,
    /// What else there is to know.
    stead_report: Report,
}

/// Ours: what was taken, and what of it is not as it may seem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Report {
    /// Of a repository: the commit taken.
    commit: Option<String>,
    /// Of a repository: the full name of the branch or tag, `HEAD`, or nothing for a commit's id.
    #[serde(rename = "ref")]
    reference: Option<String>,
    submodules: Vec<Submodule>,
    lfs_pointers: Vec<String>,
    ignored_manifests: Vec<Named>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Named {
    name: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Submodule {
    path: String,
    url: Option<String>,
}

fn named(members: Vec<SkippedMember>) -> Vec<Named> {
    members.into_iter().take(NAMED).map(|member| Named { name: member.name, reason: member.reason }).collect()
}

impl From<ImportReport> for ImportResult {
    fn from(report: ImportReport) -> Self {
        let (commit, reference) = report.taken.map(|taken| (Some(taken.commit), taken.reference)).unwrap_or_default();
        let submodules = report.submodules.into_iter();
        Self {
            written: report.written,
            skipped: report.skipped,
            count: report.size.files,
            bytes: report.size.bytes,
            stead_skipped: named(report.skipped_members),
            stead_report: Report {
                commit,
                reference,
                submodules: submodules.map(|found| Submodule { path: found.path, url: found.url }).collect(),
                lfs_pointers: report.lfs_pointers,
                ignored_manifests: named(report.ignored_manifests),
            },
        }
    }
}
