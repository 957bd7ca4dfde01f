//! Launchers started ahead: starting a large program again costs as much as a third of making a sandbox, so a service that makes
//! many keeps one launcher that has begun and waits for its plan.
//!
//! A waiting launcher holds nothing but its socket. When the service goes away, by whatever cause, the socket closes and it ends.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::launch::{Handover, LaunchError, io_error, launch, launch_with};
use crate::launched::Launched;
use crate::launcher;
use crate::plan::SandboxPlan;

/// A launcher that waits for its plan.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) process: Child,
    pub(crate) socket: OwnedFd,
}

impl Waiting {
    /// Starts one. `executable` is the binary that calls [`crate::launcher_main`].
    pub(crate) fn start(executable: &Path) -> Result<Self, LaunchError> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(io_error("make a socket pair"))?;
        let mut command = Command::new(executable);
        launcher::named_as_launcher(&mut command)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // The command is dropped at the end, and with it our copy of the launcher's end.
        let process =
            command.spawn().map_err(|source| LaunchError::Io { action: "start the sandbox launcher", source })?;
        Ok(Self { process, socket: ours })
    }

    fn lives(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    fn end(self) -> io::Result<()> {
        let Self { mut process, socket } = self;
        drop(socket);
        process.wait().map(drop)
    }
}

/// Makes sandboxes, with at most one launcher started ahead.
#[derive(Debug)]
pub struct Launcher {
    executable: PathBuf,
    waiting: Mutex<Option<Waiting>>,
}

impl Launcher {
    /// `executable` is the binary that calls [`crate::launcher_main`], usually `/proc/self/exe`. Starts nothing.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        Self { executable: executable.into(), waiting: Mutex::new(None) }
    }

    /// As [`crate::launch()`], with the launcher that waits where there is one.
    ///
    /// # Errors
    /// See [`LaunchError`]; whatever had been started is ended before this returns.
    pub fn launch(&self, plan: &SandboxPlan, handover: &Handover<'_>) -> Result<Launched, LaunchError> {
        let mut was_ahead = false;
        let outcome = launch_with(plan, handover, || {
            if let Some(mut waiting) = self.lock().take()
                && waiting.lives()
            {
                was_ahead = true;
                return Ok(waiting);
            }
            Waiting::start(&self.executable)
        });
        match outcome {
            // Somebody ended it while it waited; nothing is left of the attempt.
            Err(LaunchError::Ended(_) | LaunchError::Io { .. }) if was_ahead => {
                launch(&self.executable, plan, handover)
            }
            outcome => outcome,
        }
    }

    /// Starts a launcher ahead, unless one waits. Best called when nobody waits for a sandbox.
    ///
    /// # Errors
    /// When it cannot be started; the next launch then starts its own.
    pub fn prepare(&self) -> Result<(), LaunchError> {
        let mut waiting = self.lock();
        if !waiting.as_mut().is_some_and(Waiting::lives) {
            *waiting = Some(Waiting::start(&self.executable)?);
        }
        Ok(())
    }

    /// The process id of the launcher that waits.
    pub fn waiting(&self) -> Option<u32> {
        self.lock().as_ref().map(|waiting| waiting.process.id())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let waiting = self.waiting.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // One that cannot be waited for is gone already.
        let _ = waiting.map(Waiting::end);
    }
}
