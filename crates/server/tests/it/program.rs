//! Running the program.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program that was built.
pub(crate) const STEAD: &str = env!("CARGO_BIN_EXE_stead");

/// A command with nothing of the caller's environment that would steer it.
pub(crate) fn stead() -> Command {
    stead_at(Path::new(STEAD))
}

/// The same of a copy of the program.
pub(crate) fn stead_at(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).env("COLUMNS", "100").env("NO_COLOR", "1").env("HOME", "/nonexistent");
    for name in ["STEAD_URL", "STEAD_KEY", "XDG_DATA_HOME"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end.
pub(crate) fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}

/// Ends a test that needs root, saying so, when there is none. With `STEAD_NO_SKIP=1` it fails instead.
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "this test needs root");
            eprintln!("skipped: this test needs root");
            return;
        }
    };
}
pub(crate) use needs_root;
