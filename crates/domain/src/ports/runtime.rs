//! The runtime inside an environment, as the core talks to it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PortFuture;

/// A fault of the link or a refusal of the runtime.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime does not answer: it, its environment or the machine is gone.
    #[error("the environment's runtime is lost: {0}")]
    Lost(String),
    /// It answered that this cannot be done.
    #[error("{0}")]
    Refused(String),
}

/// What an exec runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments.
    Argv(Vec<String>),
    /// A bash script.
    Script(Vec<u8>),
}

/// One command.
#[derive(Debug, Clone)]
pub struct ExecRequest {
    /// Names it across connections and server processes; at most 64 bytes, unique within the life of an environment. A named
    /// command's output is kept by the runtime until it is [acknowledged](Exec::acknowledge), so that another server process can
    /// [take the command over](Runtime::adopt). One without a name ends with the connection that started it.
    pub name: Option<String>,
    /// What it runs.
    pub program: Program,
    /// Its whole environment: nothing else is inherited.
    pub env: BTreeMap<String, String>,
    /// Its working directory inside.
    pub directory: String,
    /// Whether the caller will send input; otherwise reading gives the end at once.
    pub stdin: bool,
    /// After this long its whole tree is ended; earlier output stays.
    pub time_limit: Option<Duration>,
    /// After this many bytes of output its tree is ended.
    pub output_limit: Option<u64>,
}

/// Where output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Why a command is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// By itself, or by a signal of its own making.
    Exited,
    /// The time limit.
    TimeLimit,
    /// The output limit.
    OutputLimit,
    /// The caller ended it.
    Killed,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecExit {
    /// Its exit status, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why it is over.
    pub reason: ExitReason,
}

/// What a command says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// Output, in the order of arrival.
    Output(OutputStream, Vec<u8>),
    /// It is over; the last event.
    Exited(ExecExit),
}

/// A running command. Dropping it does not end the command.
pub trait Exec: Send {
    /// The next event; after `Exited` there is none. The runtime stops reading the command's pipes while
    /// nobody asks. Dropping the future before it is ready loses nothing.
    fn next(&mut self) -> PortFuture<'_, Result<ExecEvent, RuntimeError>>;

    /// Sends input.
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> PortFuture<'a, Result<(), RuntimeError>>;

    /// Ends the input.
    fn close_stdin(&mut self) -> PortFuture<'_, Result<(), RuntimeError>>;

    /// Ends the command's whole tree; `Exited` follows.
    fn kill(&mut self) -> PortFuture<'_, Result<(), RuntimeError>>;

    /// States that the first `bytes` bytes of output, both streams together, are kept elsewhere: the runtime forgets them and takes
    /// as many more. Of a command without a name, reading is acknowledging, and this does nothing. It is not sent while the
    /// runtime has room enough, so it costs next to nothing.
    fn acknowledge(&mut self, bytes: u64) -> PortFuture<'_, Result<(), RuntimeError>>;
}

/// What became of a command that is to be taken over.
pub enum Adopted {
    /// It runs, or its end was not read yet: its output from the byte that was asked for on, then its end.
    Found(Box<dyn Exec>),
    /// The runtime knows none of that name.
    Unknown,
}

/// A regular file in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Its path relative to the listed directory. A name that is not UTF-8 has its bad bytes replaced.
    pub path: String,
    /// Whether `path` is exact; a file whose name is not UTF-8 cannot be read by it.
    pub exact: bool,
    /// Its size.
    pub bytes: u64,
    /// Changes whenever the file's content or metadata may have: modification and change time, inode.
    pub stamp: String,
}

/// The runtime inside a running environment.
pub trait Runtime: Send + Sync {
    /// Runs a command.
    fn exec(&self, request: ExecRequest) -> PortFuture<'_, Result<Box<dyn Exec>, RuntimeError>>;

    /// Takes a named command over, from whatever connection started it: what it writes to comes from here on, beginning with the
    /// byte `from` of its output, which must not lie before what was acknowledged.
    fn adopt<'a>(&'a self, name: &'a str, from: u64) -> PortFuture<'a, Result<Adopted, RuntimeError>>;

    /// Lists the regular files beneath a directory; links are never followed, at most `limit` entries. The flag says whether
    /// there were more.
    fn list_files<'a>(
        &'a self,
        directory: &'a str,
        limit: usize,
    ) -> PortFuture<'a, Result<(Vec<FileEntry>, bool), RuntimeError>>;

    /// Reads a part of a regular file beneath a directory; fewer bytes than asked for mean the end.
    fn read_file<'a>(
        &'a self,
        directory: &'a str,
        path: &'a str,
        offset: u64,
        length: usize,
    ) -> PortFuture<'a, Result<Vec<u8>, RuntimeError>>;

    /// Writes a file beneath a directory in pieces: `offset` 0 begins it anew; the piece marked `last` makes it visible.
    fn write_file<'a>(
        &'a self,
        directory: &'a str,
        path: &'a str,
        offset: u64,
        bytes: &'a [u8],
        last: bool,
    ) -> PortFuture<'a, Result<(), RuntimeError>>;

    /// Ends every process but the runtime; returns when they are gone.
    fn kill_all(&self) -> PortFuture<'_, Result<(), RuntimeError>>;
}
