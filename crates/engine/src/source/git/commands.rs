//! Commands of git in the sandbox of an import: a closed environment, credentials through a pipe, output under a bound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stead_bundles::git::{GitFailure, Transport};
use stead_domain::Result;
use stead_domain::environment::PROXY;
use stead_domain::ports::{Exec, ExecEvent, ExecRequest, ExitReason, OutputStream, Program, Runtime};

use super::refusal::{lost, of_script};
use super::request::GitImport;
use super::workshop::INSIDE;

const SCRIPT: &str = include_str!("command.sh");
const CONNECT: &str = include_str!("connect.sh");
/// Where the repository lies inside.
pub(super) const REPOSITORY: &str = "/import/repository";
/// How long a command that stays inside may take: what it reads is bounded, and the host is not asked.
const LOCAL: Duration = Duration::from_mins(1);
/// The most that is kept of what a command says beside its output.
const SAID: usize = 64 << 10;

/// How a command ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) stdout: Vec<u8>,
    /// Why it failed, if it did.
    pub(super) failure: Option<GitFailure>,
    /// Whether it was ended because it said more than it may.
    pub(super) said_too_much: bool,
    /// Whether it was ended because it took too long.
    pub(super) took_too_long: bool,
}

pub(super) struct Commands<'a> {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) import: &'a GitImport,
    pub(super) time_limit: Duration,
}

impl Commands<'_> {
    /// Runs a command that stays inside and says at most `most` bytes.
    pub(super) async fn local(&self, arguments: &[&str], most: u64) -> Result<Ended> {
        let exec = self.begin(arguments, "none", most, LOCAL.min(self.time_limit)).await?;
        self.finish(exec).await
    }

    /// Runs a command that talks to the host, with whatever opens the repository.
    pub(super) async fn remote(&self, arguments: &[&str], most: u64) -> Result<Ended> {
        let import = self.import;
        let (kind, input) = match (import.credentials(), &import.ssh_key) {
            (Some(credentials), _) => {
                let (scheme, host) = (import.url.transport().scheme(), import.url.credential_host());
                let (user, password) = (&credentials.user, credentials.password.reveal());
                ("http", format!("protocol={scheme}\nhost={host}\nusername={user}\npassword={password}\n\n"))
            }
            (None, Some(key)) => ("key", key.reveal().to_owned()),
            (None, None) => ("none", String::new()),
        };
        let mut exec = self.begin(arguments, kind, most, self.time_limit).await?;
        if !input.is_empty() {
            exec.write(input.as_bytes()).await.map_err(lost)?;
            exec.close_stdin().await.map_err(lost)?;
        }
        self.finish(exec).await
    }

    /// Starts a script of the caller's own, which takes input.
    pub(super) async fn script(&self, script: &str, most: u64) -> Result<Box<dyn Exec>> {
        let program = Program::Script(script.as_bytes().to_vec());
        self.exec(program, "none", true, most, self.time_limit).await
    }

    async fn begin(
        &self,
        arguments: &[&str],
        credentials: &str,
        most: u64,
        time_limit: Duration,
    ) -> Result<Box<dyn Exec>> {
        let argv = ["/bin/bash", "-c", SCRIPT, "import"].iter().chain(arguments);
        let program = Program::Argv(argv.map(|word| (*word).to_owned()).collect());
        self.exec(program, credentials, credentials != "none", most, time_limit).await
    }

    async fn exec(
        &self,
        program: Program,
        credentials: &str,
        stdin: bool,
        most: u64,
        time_limit: Duration,
    ) -> Result<Box<dyn Exec>> {
        let known_hosts = self.import.known_hosts.as_deref().unwrap_or_default();
        let transport = match self.import.url.transport() {
            Transport::Http | Transport::Https => "http",
            Transport::Ssh => "ssh",
        };
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/tmp"),
            ("LC_ALL", "C"),
            ("GIT_DIR", REPOSITORY),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS", "/bin/false"),
            ("GIT_ALLOW_PROTOCOL", "http:https:ssh"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("PROXY", PROXY),
            ("TRANSPORT", transport),
            ("KNOWN_HOSTS", known_hosts),
            ("CONNECT", CONNECT),
            ("CREDENTIALS", credentials),
        ];
        let env: BTreeMap<String, String> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let request = ExecRequest {
            name: None,
            program,
            env,
            directory: INSIDE.to_owned(),
            stdin,
            time_limit: Some(time_limit),
            output_limit: Some(most.saturating_add(SAID as u64)),
        };
        self.runtime.exec(request).await.map_err(lost)
    }

    async fn finish(&self, mut exec: Box<dyn Exec>) -> Result<Ended> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match exec.next().await.map_err(lost)? {
                // The runtime ends what says more than it was allowed, so this is bounded.
                ExecEvent::Output(OutputStream::Stdout, bytes) => stdout.extend(bytes),
                ExecEvent::Output(OutputStream::Stderr, bytes) => keep_tail(&mut stderr, &bytes),
                ExecEvent::Exited(exit) => {
                    if let Some(refusal) = exit.code.and_then(of_script) {
                        return Err(refusal);
                    }
                    let failed = exit.code != Some(0) || exit.reason != ExitReason::Exited;
                    let failure = failed.then(|| self.failure(&stderr));
                    if failure.is_some() {
                        // What it says is the caller's to read: it names what the caller has asked for.
                        tracing::info!(exit.code = exit.code, exit.reason = ?exit.reason, "git failed");
                    }
                    return Ok(Ended {
                        stdout,
                        failure,
                        said_too_much: exit.reason == ExitReason::OutputLimit,
                        took_too_long: exit.reason == ExitReason::TimeLimit,
                    });
                }
            }
        }
    }
}

impl Commands<'_> {
    /// What git said, understood. Nothing of its words is kept where the host was sent credentials, which it may say back.
    pub(super) fn failure(&self, said: &[u8]) -> GitFailure {
        match GitFailure::of(&self.import.scrub(&String::from_utf8_lossy(said))) {
            GitFailure::Other(_) if self.import.is_private() => GitFailure::Unquoted,
            failure => failure,
        }
    }
}

/// Keeps the end of what is said: the reason stands there.
pub(super) fn keep_tail(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    if kept.len() > SAID {
        kept.drain(..kept.len() - SAID);
    }
}
