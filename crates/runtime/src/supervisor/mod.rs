//! The supervisor: one small process per command, the heir of everything the command leaves behind.
//!
//! It lives until nothing of the command's tree is left, so that orphans never reach process 1 and belong to their command
//! to the end. When process 1 is gone, it kills the tree and ends.

pub(crate) mod orders;
mod score;

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::SealFlags;
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitStatus};
use stead_link::{ExitReason, Program};

use crate::hardening;
use crate::processes;
use crate::readiness::{Interests, Source};
use crate::signals::Signals;
use orders::{Ended, Order, Plan, Received, Report};
use score::Score;

const SHELL: &str = "/bin/bash";
/// What the shell calls itself.
const SHELL_NAME: &str = "bash";
/// The longest script passed as an argument: half of what the kernel takes. A longer one is passed as a file.
const SCRIPT_ARGUMENT_BYTES: usize = 64 << 10;
/// Scripts are passed under a high number, out of the way of what scripts open themselves.
const SCRIPT_DESCRIPTOR: i32 = 60;
const SIGCHLD: i32 = Signal::CHILD.as_raw();

/// Why a supervisor cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The system refused something that it never refuses.
    #[error("cannot {action}")]
    System {
        /// What was attempted.
        action: &'static str,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
}

fn failed<E: Into<std::io::Error>>(action: &'static str) -> impl FnOnce(E) -> SupervisorError {
    move |source| SupervisorError::System { action, source: source.into() }
}

/// Runs one command that process 1 describes over standard input, and watches over its tree until nothing of it is left.
pub fn supervise() -> Result<(), SupervisorError> {
    // What belongs to a process that is not dumpable belongs to root, so this is opened first.
    let score = Score::open();
    hardening::harden().map_err(failed("harden the supervisor"))?;
    // A session of its own; it fails only where the process leads a group already, and then it has one.
    let _ = rustix::process::setsid();
    let control = hardening::take_stdin().map_err(failed("take the control socket"))?;
    let plan = orders::receive_plan(control.as_fd()).map_err(failed("receive the plan"))?;
    hardening::halve_open_files().map_err(failed("bound open files"))?;
    let signals = Signals::listen(SIGCHLD).map_err(failed("listen for ended children"))?;
    let time_limit = plan.request.time_limit_ms.map(Duration::from_millis);
    let main = match start(plan, score) {
        Ok(pid) => pid,
        Err(error) => {
            return orders::report(control.as_fd(), &Report::Failed(error.to_string()))
                .map_err(failed("report a failure"));
        }
    };
    let started = Report::Started(main.as_raw_nonzero().get().unsigned_abs());
    orders::report(control.as_fd(), &started).map_err(failed("report the start"))?;
    let watch = Watch {
        control,
        signals,
        main,
        // A limit beyond what the clock can name is none.
        deadline: time_limit.and_then(|limit| Instant::now().checked_add(limit)),
        status: None,
        cpu_ms: None,
    };
    watch.run()
}

fn start(plan: Plan, score: Option<Score>) -> std::io::Result<Pid> {
    let [stdin, stdout, stderr] = plan.streams;
    let (program, arguments, script) = match plan.request.program {
        Program::Argv(mut argv) if !argv.is_empty() => {
            (argv.remove(0), argv.into_iter().map(OsString::from).collect::<Vec<_>>(), None)
        }
        Program::Argv(_) => return Err(std::io::Error::other("an empty argument list")),
        Program::Script { .. } => {
            let file = plan.script.ok_or_else(|| std::io::Error::other("a script without its text"))?;
            match as_argument(&file)? {
                Some(text) => (SHELL.into(), vec!["-c".into(), "--".into(), text, SHELL_NAME.into()], None),
                None => {
                    let script = expose(file)?;
                    (SHELL.into(), vec![format!("/proc/self/fd/{}", script.as_raw_fd()).into()], Some(script))
                }
            }
        }
    };
    let raised = score.map(Score::raise);
    let child = Command::new(&program)
        .args(arguments)
        .env_clear()
        .envs(plan.request.env)
        .current_dir(&plan.request.cwd)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr))
        .process_group(0)
        .spawn()
        .map_err(|error| explain(error, &program, &plan.request.cwd))?;
    drop(raised);
    drop(script);
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| std::io::Error::other("a child without a pid"))
}

/// A script that fits into an argument, so that bash calls itself `bash` in what it says, and not by a descriptor's path.
fn as_argument(file: &OwnedFd) -> std::io::Result<Option<OsString>> {
    let length = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(usize::MAX);
    if length > SCRIPT_ARGUMENT_BYTES {
        return Ok(None);
    }
    let mut text = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match rustix::io::pread(file, &mut text[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    text.truncate(filled);
    // No argument can hold a NUL; bash says what it thinks of one when it reads it from a file.
    Ok((!text.contains(&0)).then(|| OsString::from_vec(text)))
}

/// Makes the script's file unchangeable and inheritable by the one child that this process starts.
fn expose(file: OwnedFd) -> std::io::Result<OwnedFd> {
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    let script = rustix::io::fcntl_dupfd_cloexec(&file, SCRIPT_DESCRIPTOR)?;
    rustix::io::fcntl_setfd(&script, FdFlags::empty())?;
    Ok(script)
}

/// A start that fails says neither whether the directory or the program was missing; this finds out.
fn explain(error: std::io::Error, program: &str, cwd: &str) -> std::io::Error {
    if std::path::Path::new(cwd).is_dir() {
        std::io::Error::new(error.kind(), format!("cannot run {program}: {error}"))
    } else {
        std::io::Error::new(error.kind(), format!("cannot run in {cwd}: {error}"))
    }
}

struct Watch {
    control: OwnedFd,
    signals: Signals,
    main: Pid,
    deadline: Option<Instant>,
    status: Option<WaitStatus>,
    cpu_ms: Option<u64>,
}

impl Watch {
    fn run(mut self) -> Result<(), SupervisorError> {
        let mut connected = true;
        loop {
            let was_running = self.status.is_none();
            let children = self.collect();
            if was_running && self.status.is_some() {
                self.report(None, 0)?;
                self.deadline = None;
            }
            if !children {
                return Ok(());
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.kill(ExitReason::TimeLimit)?;
                continue;
            }
            let mut interests = Interests::default();
            interests.add(Source::ChildSignal, self.signals.fd(), PollFlags::IN);
            if connected {
                interests.add(Source::Supervisor(0), self.control.as_fd(), PollFlags::IN);
            }
            let ready = interests.wait(self.deadline).map_err(failed("wait"))?;
            for (source, _) in ready {
                if source == Source::ChildSignal {
                    self.signals.take();
                    continue;
                }
                match orders::receive(self.control.as_fd()) {
                    Received::Packet(Order::Kill(reason)) => self.kill(reason)?,
                    Received::Packet(Order::Signal(number)) => self.signal(number),
                    Received::Nothing => {}
                    Received::End => {
                        connected = false;
                        self.kill(ExitReason::Killed)?;
                    }
                }
            }
        }
    }

    /// Collects what has ended; answers whether anything is left.
    fn collect(&mut self) -> bool {
        if self.status.is_none() {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if let Ok(Some(_)) = rustix::process::waitid(WaitId::Pid(self.main), look) {
                self.cpu_ms = processes::processor_ms(self.main);
            }
        }
        let (main, status) = (self.main, &mut self.status);
        processes::reap(|pid, ended| {
            if pid == main && status.is_none() {
                *status = Some(ended);
            }
        })
    }

    /// Ends the whole tree. The main process's end is reported with this reason unless it has been already.
    fn kill(&mut self, reason: ExitReason) -> Result<(), SupervisorError> {
        let was_running = self.status.is_none();
        let heir = rustix::process::getpid();
        let survivors = processes::kill_descendants(heir, &std::collections::BTreeSet::new(), || self.collect());
        if was_running {
            self.report(Some(reason), survivors)?;
        }
        self.deadline = None;
        Ok(())
    }

    fn signal(&self, number: i32) {
        // The group's number is safe from reuse only while its leader has not been collected.
        if let (None, Some(signal)) = (self.status, Signal::from_named_raw(number)) {
            // A group that has just ended needs none.
            let _ = rustix::process::kill_process_group(self.main, signal);
        }
    }

    fn report(&self, killed: Option<ExitReason>, survivors: u32) -> Result<(), SupervisorError> {
        let signal = self.status.and_then(WaitStatus::terminating_signal);
        let own = if signal.is_some() { ExitReason::Signalled } else { ExitReason::Exited };
        let ended = Ended {
            code: self.status.and_then(WaitStatus::exit_status),
            signal,
            reason: killed.unwrap_or(own),
            cpu_ms: self.cpu_ms,
            survivors,
        };
        orders::report(self.control.as_fd(), &Report::Exited(ended)).map_err(failed("report the end"))
    }
}
