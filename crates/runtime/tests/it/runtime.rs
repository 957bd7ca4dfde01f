//! A runtime that is started as an ordinary child, with a listening socket as its standard input.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stead_link::{Client, ExecSpec, Token};
use tempfile::TempDir;

pub(crate) const TOKEN: &str = "the token of this generation";
/// SHA-256 of [`TOKEN`].
pub(crate) const TOKEN_SHA256: &str = "3b21ba8112ef7f822d6a253e3e19d01ed7394a4f3a01d5c289635023f2c5845f";
/// Enough for every test's output.
pub(crate) const PLENTY: u64 = 64 << 20;

/// Closes what the test's own parents left open, as the launcher does, and becomes the runtime.
const CLEAN_START: &str =
    "for fd in /proc/self/fd/*; do fd=${fd##*/}; [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done; exec -c \"$0\" \"$@\"";

pub(crate) struct Runtime {
    pub(crate) child: Child,
    pub(crate) folder: TempDir,
    pub(crate) socket: PathBuf,
}

impl Runtime {
    pub(crate) fn start() -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_stead-runtime"));
        Self::spawn(tempfile::tempdir().unwrap(), &[], program, &[])
    }

    /// Starts `program` with more arguments, through a program that changes its surroundings.
    pub(crate) fn spawn(folder: TempDir, wrapper: &[&str], program: &Path, more: &[String]) -> Self {
        let socket = folder.path().join("runtime.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut words = wrapper.iter().chain(&["/bin/bash"]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(["-c", CLEAN_START])
            .arg(program)
            .arg(TOKEN_SHA256)
            .args(more)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::null());
        let child = command.spawn().unwrap();
        Self { child, folder, socket }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.socket, &Token::new(TOKEN)).await.unwrap()
    }

    /// The process that a wrapper has started, if there is one.
    pub(crate) fn wrapped(&self) -> Option<rustix::process::Pid> {
        let outer = self.child.id();
        let command = std::fs::read_to_string(format!("/proc/{outer}/comm")).ok()?;
        let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).ok()?;
        (command == "unshare\n").then(|| rustix::process::Pid::from_raw(children.trim().parse().ok()?))?
    }

    pub(crate) fn root(&self) -> String {
        self.folder.path().to_str().unwrap().to_owned()
    }

    /// Resident and not shared with other processes, in KiB.
    pub(crate) fn pss(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id())).unwrap();
        let line = text.lines().find(|line| line.starts_with("Pss:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A supervisor whose runtime is gone kills its tree, so nothing stays behind. A wrapper does not take its child along.
        if let Some(pid) = self.wrapped() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A script with a `PATH`, in `/`.
pub(crate) fn script(text: impl AsRef<[u8]>) -> ExecSpec {
    let mut spec = ExecSpec::script(text.as_ref().to_vec(), "/");
    spec.env = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    spec
}

/// A script with a time limit.
pub(crate) fn limited(text: impl AsRef<[u8]>, limit: Duration) -> ExecSpec {
    ExecSpec { time_limit: Some(limit), ..script(text) }
}

/// The processes whose arguments contain one of these marks.
pub(crate) fn running(marks: &[&str]) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|arguments| String::from_utf8_lossy(&arguments).replace('\0', " "))
        .filter(|arguments| marks.iter().any(|mark| arguments.contains(mark)))
        .collect()
}
