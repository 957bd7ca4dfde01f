//! API keys: who a caller is and what it may do.

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};
use crate::ids::{KeyId, WorkspaceId};
use crate::time::Timestamp;

/// What a route needs. Every route of every face names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// See objects and download files.
    Read,
    /// Start, continue and cancel work.
    Run,
    /// Change projects, agents and files.
    Write,
    /// Make and revoke keys.
    Admin,
}

impl Verb {
    /// Every verb, weakest first.
    pub const ALL: [Verb; 4] = [Verb::Read, Verb::Run, Verb::Write, Verb::Admin];

    /// The verb as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Run => "run",
            Verb::Write => "write",
            Verb::Admin => "admin",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == text)
    }
}

/// The SHA-256 of a key's secret, by which it is looked up. The secret itself is shown once and never stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SecretDigest(pub String);

/// A key: a secret, looked up by its hash, that acts in one workspace on all faces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its identity, which is not the secret.
    pub id: KeyId,
    /// The workspace it acts in.
    pub workspace_id: WorkspaceId,
    /// A label for people.
    pub name: String,
    /// The hash it is found by.
    pub digest: SecretDigest,
    /// What it may do.
    pub verbs: Vec<Verb>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked; from then on it authenticates nobody.
    pub revoked_at: Option<Timestamp>,
    /// Row version for optimistic concurrency.
    pub row_version: i64,
}

/// A caller that proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The workspace every object it names is looked up in.
    pub workspace_id: WorkspaceId,
    /// The key it used.
    pub key_id: KeyId,
    /// What it may do.
    pub verbs: Vec<Verb>,
}

impl Caller {
    /// Refuses a caller whose key lacks `verb`.
    pub fn require(&self, verb: Verb) -> Result<()> {
        if self.verbs.contains(&verb) {
            return Ok(());
        }
        let message = format!("this key may not do that; it needs the verb `{}`", verb.as_str());
        Err(Error::new(Code::ScopeInsufficient, message))
    }
}

impl Key {
    /// The caller that this key makes of whoever presents it; a revoked key makes nobody.
    pub fn authenticate(&self) -> Result<Caller> {
        if self.revoked_at.is_some() {
            return Err(Error::new(Code::CredentialInvalid, "the credential is not valid"));
        }
        Ok(Caller { workspace_id: self.workspace_id, key_id: self.id, verbs: self.verbs.clone() })
    }
}
