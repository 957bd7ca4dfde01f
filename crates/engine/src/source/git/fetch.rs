//! Fetching one commit: shallow where the host can, its history where it cannot.

use stead_bundles::git::{Advertised, GitFailure, GitRef};
use stead_domain::Result;

use super::super::report::Taken;
use super::commands::{Commands, Ended};
use super::refusal::{commit_not_given, invalid, no_such_ref};
use crate::engine::Engine;

/// The name that the wanted commit gets in the repository made for it.
const TAKEN: &str = "refs/import/taken";
/// The most that a list of refs may be, in bytes.
const REFS_BYTES: u64 = 16 << 20;
/// The most that a command with nothing to say may say.
const QUIET: u64 = 64 << 10;

impl Engine {
    /// Fetches what the caller asked for.
    pub(super) async fn git_fetch(&self, commands: &Commands<'_>) -> Result<Taken> {
        let wanted = &commands.import.reference;
        if let GitRef::Commit(id) = wanted {
            self.git_init(commands, id.len()).await?;
            let commit = self.git_fetch_commit(commands, id).await?;
            return Ok(Taken { commit, reference: None });
        }
        let (name, id) = self.git_resolve(commands).await?;
        self.git_init(commands, id.len()).await?;
        let spec = format!("+{name}:{TAKEN}");
        match self.git_fetch_specs(commands, true, &[&spec]).await?.failure {
            None => {}
            Some(GitFailure::NotShallow) => self.git_succeed(commands, false, &[&spec]).await?,
            Some(failure) => return Err(self.git_refused(commands.import, failure)),
        }
        let commit = self.git_commit(commands, TAKEN).await?;
        let commit = commit.ok_or_else(|| invalid("ref", format!("`{wanted}` is no commit, nor a tag of one")))?;
        Ok(Taken { commit, reference: Some(name) })
    }

    /// Which of the host's refs is meant, and its id.
    async fn git_resolve(&self, commands: &Commands<'_>) -> Result<(String, String)> {
        let import = commands.import;
        let (url, candidates) = (import.url.to_string(), import.reference.candidates());
        let mut arguments = vec!["ls-remote", "--quiet", "--symref", "--", &url];
        arguments.extend(candidates.iter().map(String::as_str));
        let listed = commands.remote(&arguments, REFS_BYTES).await?;
        if let Some(failure) = listed.failure {
            return Err(self.git_refused(import, failure));
        }
        let refs = Advertised::parse(&listed.stdout).map_err(|error| invalid("url", error.to_string()))?;
        refs.choose(&import.reference).ok_or_else(|| match import.reference {
            GitRef::Head => invalid("ref", "the repository has no commit at its HEAD; name a ref"),
            _ => no_such_ref(import),
        })
    }

    /// Makes an empty repository for ids of that many digits.
    async fn git_init(&self, commands: &Commands<'_>, digits: usize) -> Result<()> {
        let format = if digits == 64 { "--object-format=sha256" } else { "--object-format=sha1" };
        let made = commands.local(&["init", "--quiet", "--bare", "--template=", format], QUIET).await?;
        made.failure.map_or(Ok(()), |failure| Err(self.git_refused(commands.import, failure)))
    }

    /// Fetches a commit by its id. Many hosts give out what a ref names and nothing else; then everything that the refs
    /// name is fetched, and it is looked for in there.
    async fn git_fetch_commit(&self, commands: &Commands<'_>, id: &str) -> Result<String> {
        let spec = format!("+{id}:{TAKEN}");
        match self.git_fetch_specs(commands, true, &[&spec]).await?.failure {
            None => {}
            Some(GitFailure::NotShallow | GitFailure::NoSuchRef | GitFailure::Other(_) | GitFailure::Unquoted) => {
                let all = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
                match self.git_fetch_specs(commands, false, &all).await?.failure {
                    None => {}
                    // What is wrong with all of them together says nothing of the one that was asked for.
                    Some(
                        GitFailure::NoSuchRef | GitFailure::NotFound | GitFailure::Other(_) | GitFailure::Unquoted,
                    ) => return Err(commit_not_given(commands.import)),
                    Some(failure) => return Err(self.git_refused(commands.import, failure)),
                }
            }
            Some(failure) => return Err(self.git_refused(commands.import, failure)),
        }
        self.git_commit(commands, id).await?.ok_or_else(|| no_such_ref(commands.import))
    }

    async fn git_succeed(&self, commands: &Commands<'_>, shallow: bool, specs: &[&str]) -> Result<()> {
        let ended = self.git_fetch_specs(commands, shallow, specs).await?;
        ended.failure.map_or(Ok(()), |failure| Err(self.git_refused(commands.import, failure)))
    }

    /// The objects are not judged as `fsck` would: nothing is checked out, and well-known old repositories fail it.
    async fn git_fetch_specs(&self, commands: &Commands<'_>, shallow: bool, specs: &[&str]) -> Result<Ended> {
        let url = commands.import.url.to_string();
        let mut arguments = vec!["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
        if shallow {
            arguments.push("--depth=1");
        }
        arguments.extend(["--", &url]);
        arguments.extend(specs);
        commands.remote(&arguments, QUIET).await
    }

    /// The commit that a name stands for, tags taken off.
    async fn git_commit(&self, commands: &Commands<'_>, name: &str) -> Result<Option<String>> {
        let name = format!("{name}^{{commit}}");
        let parsed = commands.local(&["rev-parse", "--quiet", "--verify", "--end-of-options", &name], QUIET).await?;
        let id = String::from_utf8_lossy(&parsed.stdout).trim().to_owned();
        Ok((parsed.failure.is_none() && !id.is_empty()).then_some(id))
    }
}
