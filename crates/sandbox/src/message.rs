//! What travels between the server and the launcher over their socket.
//!
//! Towards the launcher: one packet with descriptors, of which the first is a memory file holding an
//! [`Envelope`]. Back: [`Report`] packets until the socket closes, which the `exec` in the sandbox does.

use std::io;

use serde::{Deserialize, Serialize};

use crate::plan::SandboxPlan;

/// A plan and the order of the descriptors that came with it: after the envelope itself the program
/// (if `program_passed`), then one for each of `descriptor_targets`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) plan: SandboxPlan,
    pub(crate) program_passed: bool,
    pub(crate) descriptor_targets: Vec<i32>,
}

/// What the launcher tells the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The sandbox's first process exists; what follows may still fail.
    Started { pid: i32 },
    /// Everything is in place, the program is about to be executed.
    Ready { landlock: LandlockStatus },
    /// The sandbox could not be made.
    Failed(Failure),
}

/// How much of the Landlock rules the kernel took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandlockStatus {
    /// Every rule.
    Full,
    /// The rules this kernel knows.
    Partial,
    /// No Landlock; mounts, ids and the filter still hold.
    None,
}

/// A step of making a sandbox, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Reading the plan.
    Receive,
    /// Binding the listening socket.
    Listen,
    /// Opening a mount's source on the host.
    Source,
    /// Making the namespaces and the first process.
    Clone,
    /// Mapping user and group ids.
    IdMap,
    /// Joining the control groups.
    Cgroup,
    /// Host name and loopback interface.
    Network,
    /// The new root, `/proc`, `/dev`, `/tmp`.
    Root,
    /// One of the plan's mounts.
    Mount,
    /// Switching to the new root.
    Pivot,
    /// Arranging descriptors.
    Descriptors,
    /// Resource limits.
    Limits,
    /// Giving up ids and capabilities.
    Privileges,
    /// Landlock rules.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// Entering the working directory.
    WorkingDirectory,
    /// Executing the program.
    Execute,
}

/// A step that failed, as it travels from the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("making a sandbox failed at {step:?}, {subject}: {message}")]
pub struct Failure {
    /// The step.
    pub step: Step,
    /// What it was about: a path, a control group, a call.
    pub subject: String,
    /// The kernel's error number, when it was the kernel that refused.
    pub errno: Option<i32>,
    /// The error in words.
    pub message: String,
}

/// Turns an error into a [`Failure`] by saying where it happened.
pub(crate) trait AtStep<T> {
    fn at(self, step: Step, subject: impl std::fmt::Display) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> AtStep<T> for Result<T, E> {
    fn at(self, step: Step, subject: impl std::fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| {
            let error: io::Error = error.into();
            Failure { step, subject: subject.to_string(), errno: error.raw_os_error(), message: error.to_string() }
        })
    }
}

/// A failure that no kernel call reported.
pub(crate) fn refuse(step: Step, subject: impl std::fmt::Display, message: impl Into<String>) -> Failure {
    Failure { step, subject: subject.to_string(), errno: None, message: message.into() }
}
