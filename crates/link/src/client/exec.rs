//! Running a command from the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::connection::Connection;
use super::error::{LinkError, unexpected};
use super::pending::Pending;
use super::stream::{Incoming, Stream};
use crate::frame;
use crate::reply::{ErrorCode, ExitReport, Reply};
use crate::request::{ExecRequest, Program, Request, StdinMode};

/// The generation that knows names of commands.
const NAMES: u32 = 2;

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
    /// Names it across connections, see [`ExecRequest::name`]. A runtime of generation 1 is not told.
    pub name: Option<String>,
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
        Self {
            name: None,
            command,
            env: BTreeMap::new(),
            cwd,
            stdin: StdinMode::None,
            time_limit: None,
            output_limit: None,
        }
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

/// A command that was begun or taken over.
///
/// Dropping one without a name before its end kills the command's whole tree. One with a name goes on, and what it writes
/// is kept as far as the runtime has room, until it is taken over.
pub struct Exec {
    stream: Stream,
    /// The runtime keeps what is not acknowledged.
    kept: bool,
    /// Input is somebody else's.
    adopted: bool,
    /// Output until now, both streams together.
    position: u64,
    exited: bool,
    pending: Pending,
}

pub(super) async fn begin(connection: &Arc<Connection>, spec: ExecSpec) -> Result<Exec, LinkError> {
    let (program, script) = match spec.command {
        Command::Argv(argv) => (Program::Argv(argv), Bytes::new()),
        Command::Script(bytes) => {
            let length = bytes.len() as u64;
            (Program::Script { length }, bytes)
        }
    };
    let name = spec.name.filter(|_| connection.generation() >= NAMES);
    let kept = name.is_some();
    let request = ExecRequest {
        name,
        program,
        env: spec.env,
        cwd: spec.cwd,
        stdin: spec.stdin,
        time_limit_ms: spec.time_limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        output_limit_bytes: spec.output_limit,
    };
    let stream = connection.open(&Request::Exec(request), kept)?;
    match stream.send_data(&script).await {
        // The runtime has refused the command before it took the script; the reason waits in the stream.
        Ok(()) | Err(LinkError::Ended) => Ok(Exec::new(stream, kept, 0)),
        Err(error) => Err(error),
    }
}

pub(super) async fn adopt(connection: &Arc<Connection>, name: &str, from: u64) -> Result<Option<Exec>, LinkError> {
    if connection.generation() < NAMES {
        return Ok(None);
    }
    let mut stream = connection.open(&Request::Adopt { name: name.to_owned(), from }, true)?;
    match stream.reply().await {
        Ok(Reply::Adopted { .. }) => Ok(Some(Exec { adopted: true, ..Exec::new(stream, true, from) })),
        Ok(other) => Err(unexpected("adopt", &other)),
        Err(error) if error.code() == Some(ErrorCode::UnknownCommand) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Exec {
    fn new(stream: Stream, kept: bool, position: u64) -> Self {
        Self { stream, kept, adopted: false, position, exited: false, pending: Pending::new(position) }
    }

    /// The next event, in the order of arrival; `None` after [`ExecEvent::Exited`]. Dropping the future before it is ready loses
    /// nothing.
    ///
    /// A slow caller slows the command down and nothing else: at most one window (256 KiB, 1 MiB of a command with a name) waits here. The latter goes on
    /// only as far as its output is [acknowledged](Self::acknowledge).
    pub async fn next(&mut self) -> Result<Option<ExecEvent>, LinkError> {
        if self.exited || self.stream.has_ended() {
            return Ok(None);
        }
        let event = match self.stream.next().await? {
            Incoming::Data(bytes) => ExecEvent::Stdout(self.arrived(bytes)),
            Incoming::DataError(bytes) => ExecEvent::Stderr(self.arrived(bytes)),
            Incoming::Message(Reply::Started { pid }, _) => ExecEvent::Started { pid },
            Incoming::Message(Reply::Exited(report), _) => {
                self.exited = true;
                ExecEvent::Exited(report)
            }
            Incoming::Message(other, _) => return Err(unexpected("exec", &other)),
        };
        Ok(Some(event))
    }

    fn arrived(&mut self, bytes: Bytes) -> Bytes {
        self.position += bytes.len() as u64;
        if self.kept {
            self.pending.arrived(self.position, frame::cost(bytes.len()));
        }
        bytes
    }

    /// Whether it goes on when this is dropped or the connection is lost, and waits for acknowledgements.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// How much output there was until now, both streams together, in bytes; what was there before a command was taken over counts.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// States that the first `bytes` bytes of output, both streams together, are kept elsewhere, and after
    /// [`ExecEvent::Exited`], when they are the whole, that the end is: the runtime forgets what it kept of them. More than there was
    /// until now counts as all of that. Of a command without a name nothing is kept, and this does nothing.
    ///
    /// Cheap: the runtime is told only when that makes a difference to it.
    pub fn acknowledge(&mut self, bytes: u64) -> Result<(), LinkError> {
        if !self.kept || self.stream.has_ended() {
            return Ok(());
        }
        let bytes = bytes.min(self.position);
        let end = self.exited && bytes == self.position;
        if self.pending.acknowledged(bytes) || end {
            self.stream.send(&Request::Acknowledge { bytes, end })?;
        }
        if end {
            // What follows is the runtime's last word, which nobody needs.
            self.stream.finish();
        }
        Ok(())
    }

    /// Writes to the command's standard input; waits while the command does not read.
    ///
    /// [`LinkError::Ended`] for a command that was taken over: what had become of the input sent before is not known.
    pub async fn stdin(&self, bytes: &[u8]) -> Result<(), LinkError> {
        if self.adopted {
            return Err(LinkError::Ended);
        }
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

    /// Reads until the end, and acknowledges what it has read. More than `limit` bytes of output (both streams together) are an error, and the tree is killed.
    pub async fn collect(mut self, limit: u64) -> Result<ExecOutcome, LinkError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(event) = self.next().await? {
            match event {
                ExecEvent::Started { .. } => {}
                ExecEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                ExecEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                ExecEvent::Exited(exit) => {
                    self.acknowledge(self.position)?;
                    return Ok(ExecOutcome { stdout, stderr, exit });
                }
            }
            self.acknowledge(self.position)?;
            if (stdout.len() + stderr.len()) as u64 > limit {
                self.kill()?;
                return Err(LinkError::TooMuch { limit });
            }
        }
        Err(LinkError::Ended)
    }
}
