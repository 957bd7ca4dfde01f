//! Running a command from the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::connection::Connection;
use super::error::{LinkError, unexpected};
use super::stream::{Incoming, Stream};
use crate::reply::{ExitReport, Reply};
use crate::request::{ExecRequest, Program, Request, StdinMode};

/// What to run.
#[derive(Debug, Clone)]
pub enum Command {
    /// A program and its arguments; a name without a slash is looked up in the command's own `PATH`.
    Argv(Vec<String>),
    /// A script for `/bin/bash`; any bytes, any length that the environment's memory holds.
    Script(Bytes),
}

/// A command and its limits.
#[derive(Debug, Clone)]
pub struct ExecSpec {
    /// What to run.
    pub command: Command,
    /// The whole environment of the command.
    pub env: BTreeMap<String, String>,
    /// Absolute path of the working directory.
    pub cwd: String,
    /// Where standard input comes from.
    pub stdin: StdinMode,
    /// Kill the tree after this long; rounded down to milliseconds.
    pub time_limit: Option<Duration>,
    /// Kill the tree when both output streams together are longer than this many bytes.
    pub output_limit: Option<u64>,
}

impl ExecSpec {
    /// A program with an empty environment, no standard input and no limits.
    pub fn argv<S: Into<String>>(argv: impl IntoIterator<Item = S>, cwd: impl Into<String>) -> Self {
        Self::new(Command::Argv(argv.into_iter().map(Into::into).collect()), cwd.into())
    }

    /// A script with an empty environment, no standard input and no limits.
    pub fn script(script: impl Into<Bytes>, cwd: impl Into<String>) -> Self {
        Self::new(Command::Script(script.into()), cwd.into())
    }

    fn new(command: Command, cwd: String) -> Self {
        Self { command, env: BTreeMap::new(), cwd, stdin: StdinMode::None, time_limit: None, output_limit: None }
    }
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// It runs, under this process id as seen inside.
    Started {
        /// The process id.
        pid: u32,
    },
    /// It wrote to standard output. Any bytes, cut anywhere.
    Stdout(Bytes),
    /// It wrote to standard error. Any bytes, cut anywhere.
    Stderr(Bytes),
    /// Its main process has ended, and the output until then has been delivered. The last event.
    Exited(ExitReport),
}

/// A command's whole output and end.
#[derive(Debug, Clone)]
pub struct ExecOutcome {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub exit: ExitReport,
}

/// A command that was begun. Dropping it before its end kills the command's whole tree.
pub struct Exec {
    stream: Stream,
}

pub(super) async fn begin(connection: &Arc<Connection>, spec: ExecSpec) -> Result<Exec, LinkError> {
    let (program, script) = match spec.command {
        Command::Argv(argv) => (Program::Argv(argv), Bytes::new()),
        Command::Script(bytes) => {
            let length = bytes.len() as u64;
            (Program::Script { length }, bytes)
        }
    };
    let request = ExecRequest {
        program,
        env: spec.env,
        cwd: spec.cwd,
        stdin: spec.stdin,
        time_limit_ms: spec.time_limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        output_limit_bytes: spec.output_limit,
    };
    let stream = connection.open(&Request::Exec(request))?;
    match stream.send_data(&script).await {
        // The runtime has refused the command before it took the script; the reason waits in the stream.
        Ok(()) | Err(LinkError::Ended) => Ok(Exec { stream }),
        Err(error) => Err(error),
    }
}

impl Exec {
    /// The next event, in the order of arrival; `None` after [`ExecEvent::Exited`].
    ///
    /// A slow caller slows the command down and nothing else: at most one window (256 KiB) waits here.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>, LinkError> {
        if self.stream.has_ended() {
            return Ok(None);
        }
        let event = match self.stream.next().await? {
            Incoming::Data(bytes) => ExecEvent::Stdout(bytes),
            Incoming::DataError(bytes) => ExecEvent::Stderr(bytes),
            Incoming::Message(Reply::Started { pid }, _) => ExecEvent::Started { pid },
            Incoming::Message(Reply::Exited(report), _) => ExecEvent::Exited(report),
            Incoming::Message(other, _) => return Err(unexpected("exec", &other)),
        };
        Ok(Some(event))
    }

    /// Writes to the command's standard input; waits while the command does not read.
    pub async fn stdin(&self, bytes: &[u8]) -> Result<(), LinkError> {
        self.stream.send_data(bytes).await
    }

    /// Ends the command's standard input.
    pub fn close_stdin(&self) -> Result<(), LinkError> {
        self.stream.send(&Request::DataEnd {})
    }

    /// Sends a signal (a Linux number) to the command's process group.
    pub fn signal(&self, signal: i32) -> Result<(), LinkError> {
        self.stream.send(&Request::Signal { signal })
    }

    /// Kills the command's whole tree; [`ExecEvent::Exited`] follows when nothing of it is left.
    pub fn kill(&self) -> Result<(), LinkError> {
        self.stream.send(&Request::Kill {})
    }

    /// Reads until the end. More than `limit` bytes of output (both streams together) are an error, and the tree is killed.
    pub async fn collect(mut self, limit: u64) -> Result<ExecOutcome, LinkError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(event) = self.next().await? {
            match event {
                ExecEvent::Started { .. } => {}
                ExecEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                ExecEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                ExecEvent::Exited(exit) => return Ok(ExecOutcome { stdout, stderr, exit }),
            }
            if (stdout.len() + stderr.len()) as u64 > limit {
                return Err(LinkError::TooMuch { limit });
            }
        }
        Err(LinkError::Ended)
    }
}
