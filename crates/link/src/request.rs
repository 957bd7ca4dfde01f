//! What the server says to the runtime.
//!
//! Payloads are JSON objects with a `type`; unknown fields are ignored. A `type` that the runtime does not know is answered
//! with [`ErrorCode::UnknownMessage`](crate::ErrorCode) and the connection goes on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The longest name of a command, in bytes.
pub const NAME_BYTES: usize = 64;

/// The secret that proves a connection belongs to the generation of the environment that the runtime was started for.
///
/// The runtime knows its SHA-256 only. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Wraps a secret of high entropy.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(..)")
    }
}

/// A message from the server. The stream that it is sent on is the frame's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// The first message of a connection, on stream 0. Generation 1. Answer: `Welcome`.
    Hello {
        /// The newest generation that the server speaks.
        generation: u32,
        /// The token of the environment's generation.
        token: Token,
    },
    /// Runs a command; opens a stream. Generation 1. Answers: `Started`, data, `Exited` (the last unless the command has a name).
    Exec(ExecRequest),
    /// Sends a signal to the process group of a stream's command. Generation 1. No answer;
    /// a number that is no signal is ignored.
    Signal {
        /// The signal's number on the runtime's machine.
        signal: i32,
    },
    /// Kills the whole tree of a stream's command; `Exited` follows when nothing of it is left. Generation 1.
    Kill {},
    /// The data of a stream (standard input, file content) is complete. Generation 1.
    DataEnd {},
    /// Gives the runtime credit on a stream. Generation 1.
    Credit {
        /// Bytes.
        bytes: u32,
    },
    /// The server has no interest in a stream any more: a command's tree is killed, a file operation given up. Generation 1.
    /// Answer: `Cancelled` (the last), unless the stream has ended in the meantime. A command with a name is forgotten as well.
    Cancel {},
    /// Takes a named command over from whatever stream has it; opens a stream. Generation 2. Answers: `Adopted`, then what `Exec` has:
    /// `Started` (when it runs already, at once), the output from the byte `from` on, `Exited`, `Forgotten` (the last).
    /// The output before `from` counts as acknowledged. Standard input does not come along: data is swallowed, `DataEnd` ends it.
    Adopt {
        /// The command's name.
        name: String,
        /// The first byte of the output, both streams together, that is wanted: not before what was acknowledged and not
        /// beyond what there is.
        from: u64,
    },
    /// States what of a named command's output is kept elsewhere: the runtime forgets it and takes as much more.
    /// Generation 2. No answer, but with `end`, after `Exited` and of the whole output: `Forgotten` (the last).
    Acknowledge {
        /// The first so many bytes of the output, both streams together. Fewer than before mean nothing.
        bytes: u64,
        /// The exit report is kept, too.
        #[serde(default)]
        end: bool,
    },
    /// The server lets go of a stream of a named command, which goes on and can be taken over later. Generation 2.
    /// Answer: `Cancelled` (the last), unless the stream has ended in the meantime.
    Detach {},
    /// Lists the regular files beneath a directory; opens a stream. Generation 1. Answers: `Entries`…, `Listed` (the last).
    List {
        /// An absolute path of a directory; no part of it may be a link.
        root: String,
        /// Stops after this many files.
        max_entries: u64,
    },
    /// Reads a regular file; opens a stream. Generation 1. Answers: `Opened`, data, `DataEnd` (the last).
    Read {
        /// As in `List`.
        root: String,
        /// A path relative to `root`.
        path: String,
        /// The first byte.
        offset: u64,
        /// At most this many bytes.
        length: u64,
    },
    /// Replaces or creates a file with the data that follows until `DataEnd`; opens a stream. Generation 1.
    /// Missing directories are made. The file appears whole or not at all. Answer: `Written` (the last).
    Write {
        /// As in `List`.
        root: String,
        /// A path relative to `root`.
        path: String,
        /// Whether the file gets execute permission.
        executable: bool,
    },
    /// Kills every process of the environment but the runtime; opens a stream. Generation 1. Answer: `KilledAll` (the last).
    /// Named commands that no stream has are forgotten; the others once their end has been told.
    KillAll {},
    /// Asks for a sign of life; opens a stream. Generation 1. Answer: `Pong` (the last).
    Ping {},
    /// Kills everything and ends the runtime with status 0; opens a stream. Generation 1. Answer: `Bye`, then the connection closes.
    Shutdown {},
}

impl Request {
    /// The `type` of every message that this build knows.
    pub const TYPES: [&str; 16] = [
        "hello",
        "exec",
        "signal",
        "kill",
        "data_end",
        "credit",
        "cancel",
        "list",
        "read",
        "write",
        "kill_all",
        "ping",
        "shutdown",
        "adopt",
        "acknowledge",
        "detach",
    ];

    /// The generation that introduced the message.
    pub const fn introduced(&self) -> u32 {
        match self {
            Self::Hello { .. }
            | Self::Exec(_)
            | Self::Signal { .. }
            | Self::Kill {}
            | Self::DataEnd {}
            | Self::Credit { .. }
            | Self::Cancel {}
            | Self::List { .. }
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::KillAll {}
            | Self::Ping {}
            | Self::Shutdown {} => 1,
            Self::Adopt { .. } | Self::Acknowledge { .. } | Self::Detach {} => 2,
        }
    }
}

/// What to run and within which limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecRequest {
    /// Names the command across connections. Generation 2: its output is kept until it is acknowledged, its exit report as well,
    /// and it goes on when its connection is lost. 1 to [`NAME_BYTES`] bytes, not the name of a command that is still known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program.
    pub program: Program,
    /// The whole environment of the command; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// The absolute path of the working directory.
    pub cwd: String,
    /// Where standard input comes from.
    #[serde(default)]
    pub stdin: StdinMode,
    /// Kills the tree after this many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_ms: Option<u64>,
    /// Kills the tree when standard output and standard error together are longer than this many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_limit_bytes: Option<u64>,
}

/// The program of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// A program and its arguments; a name without a slash is looked up in the command's own `PATH`.
    Argv(Vec<String>),
    /// A script for `/bin/bash`. It is not in the message: the first `length` bytes of the stream's data are the script, and what
    /// follows is standard input. It never appears among a process's arguments.
    Script {
        /// The script's length in bytes.
        length: u64,
    },
}

/// Where a command's standard input comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    /// `/dev/null`: reading ends at once.
    #[default]
    None,
    /// The stream's data, until `DataEnd`.
    Open,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_printed() {
        let request = Request::Hello { generation: 1, token: Token::new("s3cret") };
        assert!(!format!("{request:?}").contains("s3cret"));
        assert!(serde_json::to_string(&request).unwrap().contains("s3cret"));
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let text = r#"{"type":"signal","signal":15,"from_the_future":{"a":1}}"#;
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), Request::Signal { signal: 15 });
    }
}
