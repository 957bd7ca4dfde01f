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
    /// Make and revoke keys of the key's own workspace, and have what nothing names collected.
    Admin,
    /// Make workspaces, see all of them, and keep the keys of each: the deployment rather than a tenant.
    Operator,
}

impl Verb {
    /// Every verb, weakest first.
    pub const ALL: [Verb; 5] = [Verb::Read, Verb::Run, Verb::Write, Verb::Admin, Verb::Operator];

    /// The verb as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Run => "run",
            Verb::Write => "write",
            Verb::Admin => "admin",
            Verb::Operator => "operator",
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

fn insufficient(needed: Verb) -> Error {
    let message = format!("this key may not do that; it needs the verb `{}`", needed.as_str());
    Error::new(Code::ScopeInsufficient, message)
}

impl Caller {
    /// Refuses a caller whose key lacks `verb`.
    pub fn require(&self, verb: Verb) -> Result<()> {
        if self.verbs.contains(&verb) { Ok(()) } else { Err(insufficient(verb)) }
    }

    /// Whether the caller looks after the deployment and not just after its workspace.
    pub fn is_operator(&self) -> bool {
        self.verbs.contains(&Verb::Operator)
    }

    /// Refuses a caller who keeps no keys at all. Of which workspaces is another question.
    pub fn require_keys(&self) -> Result<()> {
        if self.is_operator() { Ok(()) } else { self.require(Verb::Admin) }
    }

    /// Refuses to let a caller give or take a key that may do more than its own workspace's admins may: else whoever
    /// administers one workspace would administer all.
    pub fn require_keeping(&self, verbs: &[Verb]) -> Result<()> {
        if verbs.contains(&Verb::Operator) { self.require(Verb::Operator) } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "018f3c2a7b4c7d3e9f6a5b4c3d2e1f00";

    fn caller(verbs: &[Verb]) -> Caller {
        let (workspace, key) = (format!("ws_{HEX}"), format!("key_{HEX}"));
        Caller { workspace_id: workspace.parse().unwrap(), key_id: key.parse().unwrap(), verbs: verbs.to_vec() }
    }

    #[test]
    fn verbs_grow_and_none_holds_another() {
        assert!(Verb::ALL.is_sorted());
        for verb in Verb::ALL {
            assert_eq!(Verb::parse(verb.as_str()), Some(verb));
            let refused = Verb::ALL.into_iter().filter(|&other| caller(&[verb]).require(other).is_err()).count();
            assert_eq!(refused, Verb::ALL.len() - 1, "{verb:?}");
        }
    }

    #[test]
    fn an_admin_keeps_keys_of_tenants_and_an_operator_those_of_operators_too() {
        let (writer, admin) = (caller(&[Verb::Read, Verb::Run, Verb::Write]), caller(&[Verb::Admin]));
        let operator = caller(&[Verb::Operator]);
        assert!(writer.require_keys().is_err() && admin.require_keys().is_ok() && operator.require_keys().is_ok());
        for verbs in [&[Verb::Operator][..], &Verb::ALL] {
            assert!(admin.require_keeping(verbs).unwrap_err().message.contains("`operator`"));
            assert!(operator.require_keeping(verbs).is_ok());
        }
        assert!(admin.require_keeping(&[Verb::Admin]).is_ok());
    }
}
