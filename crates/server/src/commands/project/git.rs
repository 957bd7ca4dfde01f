//! Import of a git repository, and what an import reports.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::{Context, find};
use crate::client::{Failure, ImportResult, segment};
use crate::console::{note, printable};

/// The variable that a token may come in.
const TOKEN: &str = "STEAD_GIT_TOKEN";
/// The user that code hosts take a token with.
const TOKEN_USER: &str = "x-access-token";
/// The most that is read of a token or a key, in bytes.
const SECRET_BYTES: u64 = 64 << 10;

/// A repository, and what opens it.
#[derive(Debug, Args)]
pub(crate) struct Repository {
    /// Import a git repository in place of a file: an http, https or ssh address, or user@host:path
    #[arg(long, value_name = "URL")]
    git: Option<String>,
    /// The branch, tag or commit [default: the repository's default branch]
    // A requirement does not hold where what is required conflicts with what is given, so each conflicts by itself, too.
    #[arg(long = "ref", value_name = "REF", requires = "git", conflicts_with = "path")]
    reference: Option<String>,
    /// Read a token for the repository from standard input; STEAD_GIT_TOKEN may hold one, too
    #[arg(long, requires = "git", conflicts_with = "path")]
    token_stdin: bool,
    /// A private key for an ssh address
    #[arg(long, value_name = "FILE", requires = "git", conflicts_with = "path")]
    ssh_key: Option<PathBuf>,
    /// The keys of ssh hosts that are accepted [default: whatever the host shows]
    #[arg(long, value_name = "FILE", requires = "git", conflicts_with = "path")]
    known_hosts: Option<PathBuf>,
}

impl Repository {
    /// Whether one was named.
    pub(super) fn is_given(&self) -> bool {
        self.git.is_some()
    }
}

pub(super) async fn import(
    context: &Context,
    project: &str,
    repository: &Repository,
    replace: bool,
) -> Result<(), Failure> {
    let address = repository.git.as_deref().unwrap_or_default();
    let token = if repository.token_stdin {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(SECRET_BYTES).read_to_string(&mut text);
        read.map_err(|error| Failure::io("read the token", &error))?;
        Some(text)
    } else {
        std::env::var(TOKEN).ok()
    };
    let token = token.as_deref().map(str::trim).filter(|token| !token.is_empty());
    if shows_secret(address, token.is_some()) {
        note(
            "warning: the address holds a secret, and others on this machine can see arguments; \
             give it with --token-stdin or in STEAD_GIT_TOKEN instead",
        );
    }
    let address = token.map_or_else(|| Ok(address.to_owned()), |token| with_token(address, token))?;
    let mut git = json!({ "url": address });
    if let Some(reference) = &repository.reference {
        git["ref"] = reference.clone().into();
    }
    for (field, file) in [("stead_ssh_key", &repository.ssh_key), ("stead_known_hosts", &repository.known_hosts)] {
        if let Some(file) = file {
            git[field] = read(file)?.into();
        }
    }
    let project = find(context, project).await?;
    let path = format!("/v1/environments/{}/import", segment(&project.id));
    let request = context.client.request(Method::POST, &path).json(&json!({ "git": git, "replace": replace }));
    let answer = context.client.answer::<ImportResult>(request).await;
    let answer = answer.map_err(|failure| failure.about(&project.slug))?;
    super::files::report(context, &answer.value);
    context.console.show(&answer.json, String::new)
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::io(format_args!("read {}", file.display()), &error);
    let mut text = String::new();
    std::fs::File::open(file).map_err(failed)?.take(SECRET_BYTES).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Whether an address carries what nobody else should see. A user without anything else is a token, as some hosts take it.
fn shows_secret(address: &str, token: bool) -> bool {
    let lone_user = |url: &Url| !token && matches!(url.scheme(), "http" | "https") && !url.username().is_empty();
    Url::parse(address).is_ok_and(|url| url.password().is_some() || lone_user(&url))
}

/// The address with a token in it, as the server takes one. It is sent in a body, and shown nowhere.
fn with_token(address: &str, token: &str) -> Result<String, Failure> {
    let refused = || Failure::usage("a token is of use for an http or https address alone");
    let mut url = Url::parse(address).map_err(|_| refused())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused());
    }
    if url.username().is_empty() {
        url.set_username(TOKEN_USER).map_err(|()| refused())?;
    }
    // Decoding takes off exactly what this puts on, whatever is in the token.
    let mut encoded = String::with_capacity(3 * token.len());
    for byte in token.bytes() {
        // Writing to a string does not fail.
        let _ = write!(encoded, "%{byte:02X}");
    }
    url.set_password(Some(&encoded)).map_err(|()| refused())?;
    Ok(url.into())
}

/// What else an import found, beside what it skipped.
pub(super) fn findings(report: &Value) {
    let text = |value: &Value| printable(value.as_str().unwrap_or_default());
    if let Some(commit) = report["commit"].as_str() {
        let name = report["ref"].as_str().map(|name| format!(" ({})", printable(name))).unwrap_or_default();
        note(&format!("took commit {}{name}", printable(commit)));
    }
    let listed = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    for submodule in listed("submodules") {
        let url = submodule["url"].as_str().map(|url| format!(": {}", printable(url))).unwrap_or_default();
        note(&format!("submodule {} was not followed{url}", text(&submodule["path"])));
    }
    for pointer in listed("lfs_pointers") {
        note(&format!("{} is an LFS pointer: its content is not here", text(&pointer)));
    }
    for manifest in listed("ignored_manifests") {
        note(&format!("builds ignore {}: {}", text(&manifest["name"]), text(&manifest["reason"])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_into_the_address_encoded() {
        let with = |address| with_token(address, "t/k:@").map_err(|failure| failure.message().to_owned());
        assert_eq!(with("https://host/a.git").as_deref(), Ok("https://x-access-token:%74%2F%6B%3A%40@host/a.git"));
        assert_eq!(with("https://me:old@host:8/a").as_deref(), Ok("https://me:%74%2F%6B%3A%40@host:8/a"));
        assert!(with("git@host:a").is_err() && with("ssh://host/a").is_err());
        for (address, shown) in [
            ("https://me:secret@host/a", true),
            ("https://ghp_token@host/a", true),
            ("https://host/a", false),
            ("ssh://git@host/a", false),
            ("git@host:a", false),
        ] {
            assert_eq!(shows_secret(address, false), shown, "{address}");
        }
        assert!(!shows_secret("https://me@host/a", true) && shows_secret("https://me:old@host/a", true));
    }
}
