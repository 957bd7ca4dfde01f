//! The first process of the sandbox, from its birth to the program's first instruction.
//!
//! Order, which matters: the owner of the files first (mounts need an owner that is mapped), the tree, then the
//! resource limits, then ids and capabilities, Landlock, and the system call filter last, because it
//! forbids most of what comes before it.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::Mode;

use super::outside::{GROUPS_JOINED, IDS_MAPPED};
use super::receive::{Channel, Received};
use super::sources::Sources;
use super::{Placed, descriptors, landlock, limits, loopback, privileges, root};
use crate::message::{AtStep, Failure, Report, Step, refuse};
use crate::plan::{LISTEN_DESCRIPTOR, Program};
use crate::seccomp;

/// Sets the sandbox up and executes the program; returns only when that failed.
pub(super) fn run(
    channel: &Channel,
    received: Received,
    listener: Option<OwnedFd>,
    sources: Sources,
    told: &OwnedFd,
) -> Failure {
    match set_up(channel, received, listener, sources, told) {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

fn set_up(
    channel: &Channel,
    received: Received,
    listener: Option<OwnedFd>,
    sources: Sources,
    told: &OwnedFd,
) -> Result<std::convert::Infallible, Failure> {
    let Received { plan, program, mut descriptors } = received;
    await_byte(told, IDS_MAPPED, Step::IdMap)?;
    privileges::become_owner(plan.ids.owner(plan.run_uid, plan.run_gid))?;
    privileges::leave_session_keyring()?;
    rustix::process::setsid().at(Step::Clone, "session")?;
    rustix::system::sethostname(plan.hostname.as_bytes()).at(Step::Network, "host name")?;
    loopback::bring_up()?;
    root::build_and_enter(&plan, sources)?;
    privileges::bound_user_namespace()?;
    await_byte(told, GROUPS_JOINED, Step::Cgroup)?;
    privileges::enter_own_cgroup_namespace()?;

    let words = Words::new(&plan.program, &plan.arguments, &plan.environment)?;
    let filter = seccomp::compile().map_err(|error| refuse(Step::Seccomp, "filter", error.to_string()))?;
    if let Some(listener) = listener {
        descriptors.push(Placed { descriptor: listener, target: LISTEN_DESCRIPTOR });
    }
    let program = program.as_ref().map(descriptors::lift).transpose()?;
    descriptors::arrange(descriptors)?;

    limits::apply(&plan.limits, plan.cgroup.as_ref().is_some_and(|cgroup| cgroup.bounds_memory))?;
    privileges::give_up(plan.run_uid, plan.run_gid)?;
    rustix::process::chdir(&plan.working_directory).at(Step::WorkingDirectory, plan.working_directory.display())?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    descriptors::reset_signals()?;
    let landlock = landlock::restrict(&plan)?;
    channel.send(&Report::Ready { landlock });
    seccomp::load(&filter).map_err(|error| refuse(Step::Seccomp, "filter", error.to_string()))?;
    words.execute(program.as_ref())
}

/// Waits for the outside. If it died the pipe is at its end and the sandbox gives up.
fn await_byte(told: &OwnedFd, expected: u8, step: Step) -> Result<(), Failure> {
    let mut byte = [0_u8; 1];
    let count = rustix::io::retry_on_intr(|| rustix::io::read(told, &mut byte)).at(step, "waiting for the launcher")?;
    if count == 1 && byte[0] == expected {
        Ok(())
    } else {
        Err(refuse(step, "waiting for the launcher", "it went away"))
    }
}

/// The program, its arguments and its environment in the kernel's form.
struct Words {
    path: Option<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Words {
    fn new(program: &Program, arguments: &[String], environment: &[(String, String)]) -> Result<Self, Failure> {
        let word = |bytes: Vec<u8>| {
            CString::new(bytes).map_err(|_| refuse(Step::Execute, "arguments", "a NUL byte in an argument or variable"))
        };
        let path = match program {
            Program::Descriptor => None,
            Program::Path(path) => Some(word(path.as_os_str().as_bytes().to_vec())?),
        };
        let arguments = arguments.iter().map(|text| word(text.clone().into_bytes())).collect::<Result<_, _>>()?;
        let environment = environment
            .iter()
            .map(|(name, value)| word(format!("{name}={value}").into_bytes()))
            .collect::<Result<_, _>>()?;
        Ok(Self { path, arguments, environment })
    }

    fn execute(&self, program: Option<&OwnedFd>) -> Result<std::convert::Infallible, Failure> {
        let pointers = |words: &[CString]| {
            let mut list: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
            list.push(std::ptr::null());
            list
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let (descriptor, path, flags, subject) = match (&self.path, program) {
            (Some(path), _) => (libc::AT_FDCWD, path.as_c_str(), 0, path.to_string_lossy().into_owned()),
            (None, Some(program)) => (program.as_raw_fd(), c"", libc::AT_EMPTY_PATH, "the passed program".to_string()),
            (None, None) => return Err(refuse(Step::Execute, "program", "no descriptor was passed")),
        };
        // SAFETY: both lists are arrays of pointers to NUL-terminated strings owned by `self`, ended by
        // a null pointer, and live across the call; on success nothing of this process remains. There
        // is no safe call for executing a descriptor.
        #[expect(unsafe_code, reason = "no safe wrapper of execveat exists")]
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                descriptor,
                path.as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
                flags,
            );
        }
        Err(std::io::Error::last_os_error()).at(Step::Execute, subject)
    }
}
