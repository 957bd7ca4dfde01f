//! A whole project at once (UHP Environments §3.1).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;
use stead_domain::{Code, Error, Result};
use stead_engine::{GitImport, ImportReport, SkippedMember};

/// The JSON form of an import: a git repository. It may hold credentials, so nothing shows it.
pub struct ImportWrite {
    /// The repository, judged.
    pub git: GitImport,
    /// Whether what is there goes first.
    pub replace: bool,
}

impl ImportWrite {
    /// Reads the form. A refusal names the field and says nothing of its value.
    pub fn read(body: Value) -> Result<Self> {
        let missing = |param: &str| {
            Error::new(Code::ProjectInvalid, "the import is no archive and names no git repository").at(param)
        };
        let Value::Object(mut body) = body else { return Err(missing("git")) };
        let replace = match body.get("replace") {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Bool(true)) => true,
            Some(Value::Number(number)) if number.as_u64() == Some(0) => false,
            Some(Value::Number(number)) if number.as_u64() == Some(1) => true,
            Some(_) => return Err(Error::invalid("replace", "`replace` is true or false (1 or 0)")),
        };
        let mut git = match body.remove("git") {
            Some(Value::Object(git)) => git,
            None | Some(Value::Null) => return Err(missing("git.url")),
            Some(_) => return Err(Error::new(Code::ProjectInvalid, "`git` is an object").at("git")),
        };
        let mut text = |name: &str| match git.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => {
                let param = format!("git.{name}");
                Err(Error::new(Code::ProjectInvalid, format!("`{param}` is a text")).at(param))
            }
        };
        let (url, reference) = (text("url")?, text("ref")?);
        // Ours: a private key for an ssh address, and the keys of ssh hosts, as `known_hosts` has them.
        let (key, hosts) = (text("stead_ssh_key")?, text("stead_known_hosts")?);
        let mut git = GitImport::new(&url.ok_or_else(|| missing("git.url"))?, reference.as_deref())?;
        if let Some(key) = key {
            git = git.with_ssh_key(key)?;
        }
        if let Some(lines) = hosts {
            git = git.with_known_hosts(lines)?;
        }
        Ok(Self { git, replace })
    }
}

impl JsonSchema for ImportWrite {
    fn schema_name() -> Cow<'static, str> {
        "ImportWrite".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let text = json_schema!({ "type": ["string", "null"] });
        json_schema!({
            "type": "object",
            "properties": {
                "git": {
                    "type": "object",
                    "properties": {
                        "url": { "type": "string" }, "ref": text, "stead_ssh_key": text, "stead_known_hosts": text,
                    },
                    "required": ["url"],
                },
                "replace": { "type": ["boolean", "integer", "null"] },
            },
            "required": ["git"],
        })
    }
}

/// Skipped members that an answer names.
const NAMED: usize = 200;

/// The answer of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct Named {
    name: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
