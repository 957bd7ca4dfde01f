//! What the runtime says to the server.
//!
//! The server must treat all of it as hostile: code of an environment runs under the same user as its runtime.

use serde::{Deserialize, Serialize};

/// A message from the runtime. The stream that it belongs to is the frame's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// The token was right. Generation 1.
    Welcome {
        /// The generation that both sides use from here on.
        generation: u32,
        /// The version of the runtime program, for people.
        runtime_version: String,
        /// The runtime's own process id as seen inside: 1 in a sandbox.
        pid: u32,
    },
    /// The command runs. Generation 1.
    Started {
        /// Its process id as seen inside.
        pid: u32,
    },
    /// The command's main process has ended and its output has been sent. Generation 1. Last of its stream unless the command has
    /// a name.
    Exited(ExitReport),
    /// Gives the server credit on a stream. Generation 1.
    Credit {
        /// Bytes.
        bytes: u32,
    },
    /// A page of a listing; costs credit like data of its length. Generation 1.
    Entries {
        /// Regular files, in no particular order.
        entries: Vec<FileEntry>,
    },
    /// A listing is complete. Generation 1. Last of its stream.
    Listed {
        /// Whether something was left out: too many files, too deep, or a directory that could not be read.
        incomplete: bool,
    },
    /// A file was opened for reading; its bytes follow. Generation 1.
    Opened(FileInfo),
    /// The bytes that were asked for, or as many as there are, have been sent. Generation 1. Last of its stream.
    DataEnd {},
    /// A file is in place. Generation 1. Last of its stream.
    Written {
        /// Its length in bytes.
        size: u64,
    },
    /// Nothing but the runtime runs in the environment. Generation 1. Last of its stream.
    KilledAll {
        /// Processes that would not die in the time the runtime waits; 0 unless the kernel holds them.
        survivors: u32,
    },
    /// Answer to a ping. Generation 1. Last of its stream.
    Pong {},
    /// The stream was given up at the server's wish. Generation 1. Last of its stream.
    Cancelled {},
    /// The runtime is about to end. Generation 1.
    Bye {},
    /// The stream has the named command from here on. Generation 2.
    Adopted {
        /// Output that there is until now, both streams together, in bytes.
        output_bytes: u64,
    },
    /// A named command's output and exit report are no longer kept. Generation 2. Last of its stream.
    Forgotten {},
    /// A request failed. Generation 1. Last of its stream; on stream 0 it concerns the connection.
    Error {
        /// What went wrong, for programs.
        code: ErrorCode,
        /// What went wrong, for people.
        message: String,
    },
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    /// The exit status, when the main process ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended the main process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why it ended.
    pub reason: ExitReason,
    /// Processor time of the main process and of the children it waited for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Output bytes that were sent, both streams together.
    #[serde(default)]
    pub output_bytes: u64,
    /// Processes of the tree that would not die in the time the runtime waits after a kill; 0 unless the kernel holds them.
    #[serde(default)]
    pub survivors: u32,
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// By itself.
    Exited,
    /// By a signal that the runtime did not send as a kill.
    Signalled,
    /// Its time was up.
    TimeLimit,
    /// It wrote too much.
    OutputLimit,
    /// The server asked for it.
    Killed,
    /// The process that watched over it was killed from inside, so the status is not known.
    Lost,
    /// A reason of a later generation.
    #[serde(other)]
    Other,
}

/// What is known of a file that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Length in bytes when it was opened.
    pub size: u64,
    /// Last change of its content, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Last change of its inode, nanoseconds since 1970. Code in the environment cannot set it.
    pub ctime_ns: i64,
    /// Inode number.
    pub inode: u64,
    /// Names that the inode has.
    pub nlink: u64,
    /// Whether its owner may execute it.
    pub executable: bool,
}

/// A regular file of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its path relative to the root of the listing, with `/`.
    pub path: String,
    /// The name is not UTF-8: `path` has replacement characters and cannot be opened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
    /// The rest.
    #[serde(flatten)]
    pub info: FileInfo,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The token is wrong, or the first message was not a hello. The connection closes.
    Unauthorized,
    /// A `type` or frame kind that this runtime does not know.
    UnknownMessage,
    /// The message's fields are not what its type needs.
    Malformed,
    /// The stream id is 0 or in use, or the message does not fit what the stream is.
    BadStream,
    /// More data than the credit allows. The connection closes.
    CreditExceeded,
    /// Too many streams, connections or commands.
    Limit,
    /// The command could not be started.
    SpawnFailed,
    /// No such file or directory.
    NotFound,
    /// The path leads out of its root, over a link or over a mount.
    PathRefused,
    /// Not a regular file, or not a directory where one is needed.
    NotAFile,
    /// Any other failure of the operating system.
    Io,
    /// No command of that name is known. Generation 2.
    UnknownCommand,
    /// A command of that name is still known, or the name is none. Generation 2.
    BadName,
    /// The byte lies before what was acknowledged or beyond what there is. Generation 2.
    OutOfRange,
    /// Another stream has taken the command over. Generation 2.
    TakenOver,
    /// A code of a later generation.
    #[serde(other)]
    Other,
}
