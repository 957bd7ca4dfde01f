//! Kernel features, tried one by one in the launcher's single-threaded process.

use std::io;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, WaitOptions};

use super::{Feature, State, Who, mounts, namespaces};
use crate::kernel::{Cloned, clone_into_namespaces, has_clone3, landlock_generation};
use crate::seccomp;

/// The generation of Landlock from which on all our rules are known.
const LANDLOCK_WANTED: i64 = 6;

/// Tries everything that is about the kernel, in the way in which sandboxes of whoever runs this are made; `data` is where
/// id-mapped mounts are tried.
pub(crate) fn probe(data: &Path) -> Vec<Feature> {
    let who = if rustix::process::geteuid().is_root() { Who::Root } else { Who::OrdinaryUser };
    vec![
        namespaces::user_ids(who),
        // An ordinary user is in namespaces of its own from here on, as its sandboxes' launchers are.
        namespaces::namespaces(who),
        clone3(),
        pidfd(),
        mounts::attributes(),
        mounts::id_mapped(who, data),
        mounts::overlay(who),
        filter(),
        landlock(),
    ]
}

pub(super) fn feature(
    name: &str,
    required: bool,
    outcome: io::Result<()>,
    good: &str,
    bad: &str,
    fix: &str,
) -> Feature {
    let (state, explanation, fix) = match outcome {
        Ok(()) => (State::Enforced, good.to_string(), None),
        Err(error) => (State::Missing, format!("{bad}: {error}"), Some(fix.to_string())),
    };
    Feature { name: name.to_string(), state, required, explanation, fix }
}

fn clone3() -> Feature {
    let mut found = feature(
        "clone3",
        false,
        if has_clone3() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) },
        "a sandbox is born in its control group",
        "a sandbox is moved into its control group after its birth",
        "use a kernel from 5.7 on, or let the outer container allow clone3",
    );
    if found.state == State::Missing {
        found.state = State::Partial;
    }
    found
}

fn pidfd() -> Feature {
    let outcome = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
    feature(
        "pidfd",
        true,
        outcome.map(drop).map_err(io::Error::from),
        "processes are held by descriptor",
        "processes cannot be held by descriptor",
        "use a kernel from 5.3 on",
    )
}

fn filter() -> Feature {
    let outcome = clone_into_namespaces(0, false, None).and_then(|cloned| match cloned {
        Cloned::Child => {
            let loaded = seccomp::compile().and_then(|program| seccomp::load(&program));
            std::process::exit(i32::from(loaded.is_err()))
        }
        Cloned::Parent { pid, .. } => {
            let ended = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
            match ended.and_then(|(_, status)| status.exit_status()) {
                Some(0) => Ok(()),
                _ => Err(io::ErrorKind::Unsupported.into()),
            }
        }
    });
    feature(
        "seccomp",
        true,
        outcome,
        "system calls are filtered by an allow-list",
        "system calls cannot be filtered",
        "use a kernel built with CONFIG_SECCOMP_FILTER",
    )
}

fn landlock() -> Feature {
    let name = "landlock".to_string();
    let (state, explanation) = match landlock_generation() {
        Ok(generation) if generation >= LANDLOCK_WANTED => {
            (State::Enforced, format!("a second fence around what may be written, generation {generation}"))
        }
        Ok(generation) => (State::Partial, format!("a second fence with fewer rules, generation {generation}")),
        Err(error) => (State::Missing, format!("no second fence; the first is not affected: {error}")),
    };
    let fix = (state != State::Enforced).then(|| "boot a kernel from 6.12 on with lsm=landlock,...".to_string());
    Feature { name, state, required: false, explanation, fix }
}
