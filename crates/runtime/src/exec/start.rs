//! Starting a command: pipes, and a supervisor that is this program again.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use stead_link::{ExecRequest, StdinMode};

use crate::supervisor::orders::{self, Plan};

/// The running program itself. It need not have a name in the environment's file system.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// What the pipe of standard output holds, in bytes: whoever writes much is stopped less often.
const PIPE_BYTES: usize = 1024 * 1024;
/// The longest script, in bytes.
const MAX_SCRIPT: u64 = 64 << 20;

/// Why a command could not be handed to a supervisor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The system refused.
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: std::io::Error },
    /// The script is too long.
    #[error("a script of {0} bytes is longer than the allowed {MAX_SCRIPT}")]
    ScriptTooLong(u64),
}

fn failed<E: Into<std::io::Error>>(action: &'static str) -> impl FnOnce(E) -> StartError {
    move |source| StartError::System { action, source: source.into() }
}

/// A script that arrives in pieces.
pub(super) struct Script {
    file: File,
    remaining: u64,
}

impl Script {
    pub(super) fn new(length: u64) -> Result<Self, StartError> {
        if length > MAX_SCRIPT {
            return Err(StartError::ScriptTooLong(length));
        }
        let file = orders::memory_file("stead-script", &[]).map_err(failed("make a file for the script"))?;
        Ok(Self { file, remaining: length })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.remaining == 0
    }

    /// Takes what belongs to the script; answers the rest.
    pub(super) fn take<'bytes>(&mut self, bytes: &'bytes [u8]) -> Result<&'bytes [u8], StartError> {
        let own = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(bytes.len());
        let (script, rest) = bytes.split_at(own);
        self.file.write_all(script).map_err(failed("keep the script"))?;
        self.remaining -= own as u64;
        Ok(rest)
    }
}

/// Process 1's side of a command that was handed over.
pub(super) struct Started {
    pub(super) control: OwnedFd,
    pub(super) pid: i32,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) outputs: [OwnedFd; 2],
}

pub(super) fn start(request: &ExecRequest, script: Option<Script>) -> Result<Started, StartError> {
    let (stdin, stdin_end) = match request.stdin {
        StdinMode::None => {
            let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            (null.map_err(failed("open /dev/null"))?, None)
        }
        StdinMode::Open => {
            let (read, write) = pipe()?;
            let write = unblocked(write)?;
            (read, Some(write))
        }
    };
    let (stdout_end, stdout) = pipe()?;
    let (stderr_end, stderr) = pipe()?;
    // Where the user has too many pages in pipes already, it stays as small as it is.
    let _ = rustix::pipe::fcntl_setpipe_size(&stdout_end, PIPE_BYTES);
    let outputs = [unblocked(stdout_end)?, unblocked(stderr_end)?];
    let (control, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(failed("make a control socket"))?;
    let plan = Plan {
        request: request.clone(),
        streams: [stdin, stdout, stderr],
        script: script.map(|script| OwnedFd::from(script.file)),
    };
    // The plan waits in the socket: the supervisor need not be there yet.
    orders::send_plan(control.as_fd(), &plan).map_err(failed("send the plan"))?;
    let child = Command::new(THIS_PROGRAM)
        .arg0("stead-runtime")
        .arg("supervise")
        .env_clear()
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed("start a supervisor"))?;
    Ok(Started { control, pid: child.id().cast_signed(), stdin: stdin_end, outputs })
}

fn pipe() -> Result<(OwnedFd, OwnedFd), StartError> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))
}

/// Sets one end of a pipe to never block. The other end, which the command has, is a description of its own and stays as it is.
fn unblocked(end: OwnedFd) -> Result<OwnedFd, StartError> {
    rustix::io::ioctl_fionbio(&end, true).map_err(failed("unblock a pipe"))?;
    Ok(end)
}
