//! Which process the kernel ends first when memory runs out: the command, and not those who watch over it.
//!
//! A command is born with its score, so that whatever it starts has it as well, however soon. Its supervisor therefore takes
//! the score itself for the moment of the start.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;

/// How much sooner than others a command is ended, in thousandths of the memory.
const OF_COMMANDS: &str = "800";

/// The calling process's score, which it may change.
pub(super) struct Score {
    file: File,
    own: String,
}

/// The time in which children are born with a command's score.
pub(super) struct Raised(Score);

impl Score {
    /// `None` where the process may not change its score: it is a likelihood, and no bound that anything rests on.
    pub(super) fn open() -> Option<Self> {
        let mut file = OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj").ok()?;
        let mut own = String::new();
        file.read_to_string(&mut own).ok()?;
        Some(Self { file, own })
    }

    /// Gives the calling process a command's score.
    pub(super) fn raise(self) -> Raised {
        let _ = self.file.write_at(OF_COMMANDS.as_bytes(), 0);
        Raised(self)
    }
}

impl Drop for Raised {
    /// Nobody needs a right to go back to what was: only to go below what somebody with the right has set.
    fn drop(&mut self) {
        let _ = self.0.file.write_at(self.0.own.trim_end().as_bytes(), 0);
    }
}
