//! Keys: made, listed, revoked, presented.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use stead_domain::changes::Changes;
use stead_domain::key::{Caller, Key, SecretDigest, Verb};
use stead_domain::{Code, Error, KeyId, Result, WorkspaceId};

use crate::commit::store_failed;
use crate::engine::Engine;
use crate::request::RequestRecord;

/// What a secret begins with, so that a leak is recognised by scanners.
const PREFIX: &str = "stead_";

pub(crate) fn digest(secret: &str) -> SecretDigest {
    SecretDigest(hex(&Sha256::digest(secret.as_bytes())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Engine {
    /// Who presents this secret. Unknown, malformed and revoked are the same answer, found by the hash alone, so that
    /// neither the answer nor its timing tells which keys exist.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn authenticate(&self, secret: &str) -> Result<Caller> {
        let key = self.store.key_by_digest(&digest(secret)).await.map_err(store_failed)?;
        let invalid = || Error::new(Code::CredentialInvalid, "the credential is not valid");
        let caller = key.ok_or_else(invalid)?.authenticate()?;
        if let Some(record) = RequestRecord::current() {
            record.authenticated(&caller);
        }
        Ok(caller)
    }

    pub(crate) fn new_key(&self, workspace: WorkspaceId, name: &str, verbs: Vec<Verb>) -> (Key, String) {
        let secret = format!("{PREFIX}{}", hex(&self.ids.secret()));
        let key = Key {
            id: KeyId::new(self.ids.as_ref()),
            workspace_id: workspace,
            name: name.to_owned(),
            digest: digest(&secret),
            verbs,
            created_at: self.now(),
            revoked_at: None,
            row_version: 1,
        };
        (key, secret)
    }

    /// Makes a key in the caller's workspace, or for an operator in the one named by its id or name; the secret is shown here
    /// and never again. Two keys may have one name. Refuses with [`Code::WorkspaceNotFound`] what the caller may not see, and
    /// with [`Code::ScopeInsufficient`] verbs that the caller may not give.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn key_create(
        &self,
        caller: &Caller,
        workspace: Option<&str>,
        name: &str,
        mut verbs: Vec<Verb>,
    ) -> Result<(Key, String)> {
        let name = name.trim();
        if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
            return Err(Error::invalid("name", "a key needs a name of 1 to 200 printable characters"));
        }
        verbs.sort_unstable();
        verbs.dedup();
        if verbs.is_empty() {
            let known = Verb::ALL.map(|verb| format!("`{}`", verb.as_str())).join(", ");
            return Err(Error::invalid("verbs", format!("a key needs at least one of {known}")));
        }
        caller.require_keeping(&verbs).map_err(|error| error.at("verbs"))?;
        let workspace = self.workspace_of_keys(caller, workspace).await?;
        let (key, secret) = self.new_key(workspace, name, verbs);
        let row = key.clone();
        self.decide(|| async { Ok((Changes::new().insert(row.clone()), ())) }).await?;
        Ok((key, secret))
    }

    /// The keys of the caller's workspace, or for an operator of the one named; revoked ones too, oldest first.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn key_list(&self, caller: &Caller, workspace: Option<&str>) -> Result<Vec<Key>> {
        let workspace = self.workspace_of_keys(caller, workspace).await?;
        self.store.keys_list(workspace).await.map_err(store_failed)
    }

    /// Revokes a key of those that [`Engine::key_list`] lists; new requests with it are refused from then on. Revoking twice
    /// changes nothing.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn key_revoke(&self, caller: &Caller, workspace: Option<&str>, id: KeyId) -> Result<Key> {
        self.decide(|| async {
            let keys = self.key_list(caller, workspace).await?;
            let key = keys.into_iter().find(|key| key.id == id);
            let mut key = key.ok_or_else(|| Error::new(Code::KeyNotFound, "there is no such key"))?;
            caller.require_keeping(&key.verbs)?;
            if key.revoked_at.is_some() {
                return Ok((Changes::new(), key));
            }
            key.revoked_at = Some(self.now());
            Ok((Changes::new().update(key.clone()), key))
        })
        .await
    }

    /// The workspace whose keys are meant. One that the caller may not see is one that does not exist.
    pub(crate) async fn workspace_of_keys(&self, caller: &Caller, wanted: Option<&str>) -> Result<WorkspaceId> {
        caller.require_keys()?;
        let Some(wanted) = wanted else { return Ok(caller.workspace_id) };
        let found = self.workspace_list(caller).await?.into_iter().find(|workspace| workspace.is_called(wanted));
        let missing = || Error::new(Code::WorkspaceNotFound, "there is no such workspace").at("workspace");
        Ok(found.ok_or_else(missing)?.id)
    }
}
