//! What a caller asks for, judged before anything is done.

use stead_bundles::git::{Credentials, GitRef, GitUrl, Secret, Transport};
use stead_domain::{Code, Error, Result};

/// The most that a private key or the keys of hosts may be, in bytes.
const KEYS_BYTES: usize = 64 << 10;

/// A repository to import, and what opens it. Shows no credential.
#[derive(Debug, Clone)]
pub struct GitImport {
    pub(super) url: GitUrl,
    pub(super) reference: GitRef,
    pub(super) ssh_key: Option<Secret>,
    pub(super) known_hosts: Option<String>,
}

fn refused(field: &str, message: impl Into<String>) -> Error {
    Error::new(Code::ProjectInvalid, message).at(format!("git.{field}"))
}

impl GitImport {
    /// Judges an address and a ref; absent is the repository's default branch.
    pub fn new(url: &str, reference: Option<&str>) -> Result<Self> {
        let url = GitUrl::parse(url).map_err(|refusal| refused("url", refusal.to_string()))?;
        let reference = GitRef::parse(reference).map_err(|refusal| refused("ref", refusal.to_string()))?;
        Ok(Self { url, reference, ssh_key: None, known_hosts: None })
    }

    /// Adds a private key for ssh.
    pub fn with_ssh_key(mut self, key: String) -> Result<Self> {
        const FIELD: &str = "stead_ssh_key";
        if self.url.transport() != Transport::Ssh {
            return Err(refused(FIELD, "a private key is of use for an ssh url alone"));
        }
        let is_key = key.trim_start().starts_with("-----BEGIN ") && !key.contains('\0');
        if !is_key || key.len() > KEYS_BYTES {
            return Err(refused(FIELD, "not a private key as ssh-keygen writes it"));
        }
        self.ssh_key = Some(Secret::new(format!("{}\n", key.trim())));
        Ok(self)
    }

    /// Adds the keys of ssh hosts: no other is accepted.
    pub fn with_known_hosts(mut self, lines: String) -> Result<Self> {
        const FIELD: &str = "stead_known_hosts";
        if self.url.transport() != Transport::Ssh {
            return Err(refused(FIELD, "keys of hosts are of use for an ssh url alone"));
        }
        if lines.trim().is_empty() || lines.contains('\0') || lines.len() > KEYS_BYTES {
            return Err(refused(FIELD, "not lines as ssh-keyscan writes them"));
        }
        self.known_hosts = Some(lines);
        Ok(self)
    }

    /// The credentials of its address.
    pub(super) fn credentials(&self) -> Option<&Credentials> {
        self.url.credentials()
    }

    /// Whether something that opens it was given.
    pub(super) fn is_private(&self) -> bool {
        self.url.credentials().is_some() || self.ssh_key.is_some()
    }

    /// A text of git's without what may not be shown.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.credentials().map_or_else(|| text.to_owned(), |credentials| credentials.password.scrub(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_for_ssh_and_shown_nowhere() {
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----";
        let param = |result: Result<GitImport>| result.unwrap_err().param.unwrap();
        let https = GitImport::new("https://host/x", None).unwrap();
        assert_eq!(param(https.clone().with_ssh_key(key.to_owned())), "git.stead_ssh_key");
        assert_eq!(param(https.with_known_hosts("host ssh-ed25519 AAAA".to_owned())), "git.stead_known_hosts");
        let ssh = GitImport::new("git@host:x", None).unwrap();
        assert_eq!(param(ssh.clone().with_ssh_key("secret".to_owned())), "git.stead_ssh_key");
        let with_key = ssh.with_ssh_key(key.to_owned()).unwrap();
        assert!(with_key.is_private() && !format!("{with_key:?}").contains("c2VjcmV0"));
        assert_eq!(param(GitImport::new("ext::x", None)), "git.url");
        assert_eq!(param(GitImport::new("https://host/x", Some(""))), "git.ref");
    }
}
