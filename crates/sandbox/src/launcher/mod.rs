//! The launcher: a single-threaded re-execution of our binary that makes one sandbox and goes away.
//!
//! Order, which matters: read the plan, drop supplementary groups, bind the socket, enter namespaces of
//! our own where the service is an ordinary user ([`ordinary`]), open every source as the service's
//! user, clone into the namespaces. Then two processes work side by side: the
//! *outside* (this file and [`outside`]) writes the id maps and joins the control groups, the *inside*
//! ([`inside`]) builds its root and, when told that its groups are joined, gives up everything and
//! executes the program. The inside is made a child of the server, not of the launcher, so that the
//! server can wait for it; it outlives both.

mod descriptors;
mod inside;
pub(crate) mod landlock;
pub(crate) mod limits;
mod loopback;
pub(crate) mod ordinary;
mod outside;
mod owner;
mod privileges;
mod receive;
mod root;
pub(crate) mod sources;
mod targets;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fd::OwnedFd;
use serde::Serialize;

use crate::cgroup::Cgroup;
use crate::disk;
use crate::features;
use crate::kernel::{Cloned, NAMESPACES, clone_into_namespaces};
use crate::message::{AtStep, Failure, Report, Step};
use crate::plan::Ids;
use receive::{Channel, Received};

/// The name under which our binary must call [`launcher_main`] instead of being itself.
pub const LAUNCHER_NAME: &str = "stead-launcher";

/// Whether this process was started to be a launcher: its zeroth argument is [`LAUNCHER_NAME`].
pub fn started_as_launcher() -> bool {
    std::env::args_os().next().is_some_and(|name| name == LAUNCHER_NAME)
}

pub(crate) fn named_as_launcher(command: &mut Command) -> &mut Command {
    command.arg0(LAUNCHER_NAME)
}

/// Makes the sandbox described on standard input; or, when told to, tries the kernel's features or measures directories. Must be
/// called before any thread is started.
pub fn launcher_main() -> ! {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(argument) if argument == features::PROBE_ARGUMENT => {
            answer(&features::probe_kernel(Path::new(&arguments.next().unwrap_or_default())));
        }
        Some(argument) if argument == disk::MEASURE_ARGUMENT => answer(&disk::measure(arguments.map(PathBuf::from))),
        _ => {}
    }
    let code = match Channel::from_standard_input() {
        Ok(channel) => match receive::receive(&channel).and_then(|received| launch(&channel, received)) {
            Ok(()) => 0,
            Err(failure) => {
                channel.send(&Report::Failed(failure));
                1
            }
        },
        Err(_) => 2,
    };
    std::process::exit(code)
}

/// Says what was found on standard output and ends.
fn answer(found: &impl Serialize) -> ! {
    let said = serde_json::to_writer(std::io::stdout(), found);
    std::process::exit(i32::from(said.is_err()))
}

fn launch(channel: &Channel, mut received: Received) -> Result<(), Failure> {
    let ids = received.plan.ids;
    if ids != Ids::Own {
        rustix::thread::set_thread_groups(&[]).at(Step::Clone, "supplementary groups")?;
    }
    let listener = received.plan.listen.as_deref().map(outside::listen).transpose()?;
    if ids == Ids::Own {
        ordinary::enter_own_namespaces()?;
        received.program = received.program.map(ordinary::sealed).transpose()?;
    }
    let plan = &received.plan;
    let sources = sources::open(plan)?;
    let (told, tell) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).at(Step::Clone, "pipe")?;
    if let Some(cgroup) = &plan.cgroup {
        outside::join(cgroup)?;
    }
    let unified = plan.cgroup.as_ref().and_then(Cgroup::open_unified);
    owner::assume(ids)?;
    let cloned = clone_into_namespaces(NAMESPACES, true, unified.as_ref().map(std::os::fd::AsFd::as_fd))
        .at(Step::Clone, "namespaces")?;
    match cloned {
        Cloned::Parent { pid, in_cgroup } => {
            owner::resume(ids)?;
            drop(told);
            channel.send(&Report::Started { pid });
            outside::serve(plan, pid, in_cgroup, &tell)
        }
        Cloned::Child => {
            drop(tell);
            let failure = inside::run(channel, received, listener, sources, &told);
            channel.send(&Report::Failed(failure));
            std::process::exit(1)
        }
    }
}

/// A descriptor and the number it shall have in the program.
pub(crate) struct Placed {
    pub(crate) descriptor: OwnedFd,
    pub(crate) target: i32,
}
