//! The server's side: starts the launcher, hands it the plan, and learns what became of it.
//!
//! Blocking; an asynchronous caller runs it on a blocking thread. No descriptor but the standard ones
//! is inherited by the launcher: all others travel as messages over the socket on its standard input,
//! so nothing can leak into a process another thread happens to start.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Pid, PidfdFlags};

use crate::ahead::Waiting;
use crate::identity;
use crate::launched::{Launched, readable_before, wait_by_pidfd};
use crate::message::{Envelope, Failure, LandlockStatus, Report};
use crate::plan::{FIRST_WORKING_DESCRIPTOR, Ids, LISTEN_DESCRIPTOR, PlanError, SandboxPlan};

/// How long making a sandbox may take, whatever the machine is doing.
pub const LAUNCH_DEADLINE: Duration = Duration::from_secs(10);

const OWN_AS_ROOT: &str = "the service's own user is the host's root, which must never be mapped";

/// The kernel's bound on descriptors in one message, less the envelope and the program.
const MOST_DESCRIPTORS: usize = 200;

/// Descriptors that accompany a plan. All are borrowed; the sandbox gets copies.
#[derive(Debug, Default)]
pub struct Handover<'a> {
    /// The program, when the plan says [`crate::plan::Program::Descriptor`].
    pub program: Option<BorrowedFd<'a>>,
    /// Descriptors with their numbers inside, 0 to 63; 0, 1 and 2 are `/dev/null` unless given.
    pub descriptors: Vec<(BorrowedFd<'a>, i32)>,
}

/// Why there is no sandbox. Nothing is left running after any of these.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// [`Ids::Range`] asked for by an ordinary user.
    #[error(
        "a range of user ids for each sandbox requires root: run the service as root, or let all sandboxes have the \
         service's own user"
    )]
    RequiresRoot,
    /// The plan cannot be contained or made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The handed-over descriptors do not fit the plan.
    #[error("handed-over descriptors: {0}")]
    Handover(String),
    /// A call of the server's own failed.
    #[error("cannot {action}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A step in the launcher failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The launcher ended without a result.
    #[error("the sandbox launcher ended without a result ({0})")]
    Ended(String),
    /// [`LAUNCH_DEADLINE`] passed.
    #[error("making the sandbox took longer than {LAUNCH_DEADLINE:?}")]
    Deadline,
}

/// Starts a sandbox. `executable` is the binary that calls [`crate::launcher_main`], usually
/// `/proc/self/exe`. On success the program has been executed, or is about to be with nothing left
/// that could fail.
///
/// # Errors
/// See [`LaunchError`]; whatever had been started is ended before this returns.
pub fn launch(executable: &Path, plan: &SandboxPlan, handover: &Handover<'_>) -> Result<Launched, LaunchError> {
    launch_with(plan, handover, || Waiting::start(executable))
}

/// Hands the plan to a launcher, which is taken only when the plan is one that can be made.
pub(crate) fn launch_with(
    plan: &SandboxPlan,
    handover: &Handover<'_>,
    take: impl FnOnce() -> Result<Waiting, LaunchError>,
) -> Result<Launched, LaunchError> {
    match (plan.ids, rustix::process::geteuid().is_root()) {
        (Ids::Range { .. }, false) => return Err(LaunchError::RequiresRoot),
        (Ids::Own, true) => return Err(PlanError { field: "ids", reason: OWN_AS_ROOT.into() }.into()),
        _ => {}
    }
    plan.validate()?;
    check(plan, handover)?;
    let deadline = Instant::now() + LAUNCH_DEADLINE;
    let Waiting { process: mut launcher, socket: ours } = take()?;
    let mut attempt = Attempt::default();
    let outcome = send(&ours, plan, handover).and_then(|()| attempt.follow(&ours, deadline));
    if matches!(outcome, Err(LaunchError::Deadline | LaunchError::Io { .. })) {
        let _ = launcher.kill();
    }
    let status = wait_for_launcher(&mut launcher);
    if outcome.is_err() && attempt.started.is_none() {
        // It may have made the process before it was ended; then the name is still in the socket.
        let _ = attempt.follow(&ours, Instant::now() + Duration::from_secs(1));
    }
    match (outcome, attempt) {
        (Ok(()), Attempt { started: Some((pid, pidfd)), ready: Some(landlock) }) => {
            let start_time_ticks = identity::start_time(pid)
                .map_err(|source| LaunchError::Io { action: "read the start time", source })?;
            Ok(Launched { pid, start_time_ticks, pidfd, landlock: Some(landlock) })
        }
        (outcome, attempt) => {
            if let Some((_, pidfd)) = attempt.started {
                let _ = identity::kill_by_pidfd(pidfd.as_fd());
                let _ = wait_by_pidfd(pidfd.as_fd(), LAUNCH_DEADLINE);
            }
            Err(outcome.err().unwrap_or(LaunchError::Ended(status)))
        }
    }
}

fn check(plan: &SandboxPlan, handover: &Handover<'_>) -> Result<(), LaunchError> {
    let wrong = |text: String| Err(LaunchError::Handover(text));
    if handover.descriptors.len() > MOST_DESCRIPTORS {
        return wrong(format!("more than {MOST_DESCRIPTORS}"));
    }
    if (plan.program == crate::plan::Program::Descriptor) != handover.program.is_some() {
        return wrong("the plan and the handover disagree about the program".into());
    }
    let mut targets: Vec<i32> = handover.descriptors.iter().map(|(_, target)| *target).collect();
    targets.extend(plan.listen.is_some().then_some(LISTEN_DESCRIPTOR));
    targets.sort_unstable();
    if targets.windows(2).any(|pair| pair[0] == pair[1]) {
        return wrong("a number is used twice".into());
    }
    if targets.iter().any(|target| !(0..FIRST_WORKING_DESCRIPTOR).contains(target)) {
        return wrong(format!("a number is not in 0..{FIRST_WORKING_DESCRIPTOR}"));
    }
    Ok(())
}

fn send(socket: &OwnedFd, plan: &SandboxPlan, handover: &Handover<'_>) -> Result<(), LaunchError> {
    let envelope = Envelope {
        plan: plan.clone(),
        program_passed: handover.program.is_some(),
        descriptor_targets: handover.descriptors.iter().map(|(_, target)| *target).collect(),
    };
    let text = serde_json::to_vec(&envelope)
        .map_err(|error| LaunchError::Io { action: "write the plan down", source: error.into() })?;
    let memory = rustix::fs::memfd_create("sandbox-plan", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(io_error("make a memory file"))?;
    let mut memory = File::from(memory);
    memory.write_all(&text).map_err(|source| LaunchError::Io { action: "write the plan down", source })?;

    let mut descriptors = vec![memory.as_fd()];
    descriptors.extend(handover.program);
    descriptors.extend(handover.descriptors.iter().map(|(descriptor, _)| *descriptor));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(LaunchError::Handover("too many for one message".into()));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(b"p")], &mut control, SendFlags::NOSIGNAL)
        .map_err(io_error("send the plan"))?;
    Ok(())
}

/// What has been heard of a launch so far.
#[derive(Default)]
struct Attempt {
    started: Option<(i32, OwnedFd)>,
    ready: Option<LandlockStatus>,
}

impl Attempt {
    /// Reads reports until the socket closes: the launcher ends and the program's `exec` closes it.
    fn follow(&mut self, socket: &OwnedFd, deadline: Instant) -> Result<(), LaunchError> {
        let mut buffer = vec![0_u8; 64 << 10];
        loop {
            if !readable_before(socket.as_fd(), deadline).map_err(io_error("wait for the launcher"))? {
                return Err(LaunchError::Deadline);
            }
            let received = rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty());
            let count = match received {
                Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => return Ok(()),
                Ok((_, count)) => count,
                Err(error) => return Err(io_error("hear the launcher")(error)),
            };
            let report = serde_json::from_slice(&buffer[..count])
                .map_err(|error| LaunchError::Io { action: "understand the launcher", source: error.into() })?;
            match report {
                Report::Started { pid } => {
                    let process = Pid::from_raw(pid).ok_or_else(|| LaunchError::Ended("pid 0".into()))?;
                    // Our own unreaped child: the number cannot have been given to another process.
                    let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty())
                        .map_err(io_error("open the sandbox's process"))?;
                    self.started = Some((pid, pidfd));
                }
                Report::Ready { landlock } => self.ready = Some(landlock),
                Report::Failed(failure) => return Err(failure.into()),
            }
        }
    }
}

fn wait_for_launcher(launcher: &mut Child) -> String {
    match launcher.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn io_error(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> LaunchError {
    move |error| LaunchError::Io { action, source: error.into() }
}
