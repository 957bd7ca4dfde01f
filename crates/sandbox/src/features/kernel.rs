//! Kernel features, tried one by one in the launcher's single-threaded process.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{FsOpenFlags, OpenTreeFlags};
use rustix::process::{Pid, PidfdFlags, WaitOptions};

use super::{Feature, State};
use crate::kernel::{
    Cloned, MountChange, NAMESPACES, change_mount, clone_into_namespaces, has_clone3, landlock_generation,
};
use crate::launcher::sources::user_namespace;
use crate::seccomp;

/// The generation of Landlock from which on all our rules are known.
const LANDLOCK_WANTED: i64 = 6;

/// Tries everything that is about the kernel; `data` is where id-mapped mounts are tried.
pub(crate) fn probe(data: &Path) -> Vec<Feature> {
    vec![
        root(),
        namespaces(),
        clone3(),
        pidfd(),
        mount_attributes(),
        id_mapped_mounts(data),
        overlay(),
        filter(),
        landlock(),
    ]
}

fn feature(name: &str, required: bool, outcome: io::Result<()>, good: &str, bad: &str, fix: &str) -> Feature {
    let (state, explanation, fix) = match outcome {
        Ok(()) => (State::Enforced, good.to_string(), None),
        Err(error) => (State::Missing, format!("{bad}: {error}"), Some(fix.to_string())),
    };
    Feature { name: name.to_string(), state, required, explanation, fix }
}

fn root() -> Feature {
    let outcome =
        if rustix::process::geteuid().is_root() { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) };
    feature(
        "root",
        true,
        outcome,
        "each session gets a user range of its own",
        "sandboxes of an ordinary user are not supported yet",
        "run the service as root",
    )
}

fn namespaces() -> Feature {
    let outcome = clone_into_namespaces(NAMESPACES, false, None).and_then(|cloned| match cloned {
        Cloned::Child => {
            // Waits to be mapped, so that the parent has someone to map, and is killed if it is not.
            std::thread::sleep(std::time::Duration::from_secs(1));
            std::process::exit(0)
        }
        Cloned::Parent { pid, .. } => {
            let mapped = fs::write(format!("/proc/{pid}/uid_map"), "0 65536 1\n");
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            }
            mapped
        }
    });
    feature(
        "namespaces",
        true,
        outcome,
        "user, mount, process, ipc, host name and network namespaces can be made and mapped",
        "namespaces cannot be made",
        "sysctl user.max_user_namespaces=65536",
    )
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

fn mount_attributes() -> Feature {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let outcome = rustix::mount::open_tree(CWD, "/", flags).map_err(io::Error::from).and_then(|tree| {
        let change = MountChange { set: libc::MOUNT_ATTR_RDONLY, ..MountChange::default() };
        change_mount(&tree, change)
    });
    feature(
        "mount_setattr",
        true,
        outcome,
        "read-only mounts are read-only from their first instant",
        "mounts cannot be prepared before they are attached",
        "use a kernel from 5.12 on and run the service as root",
    )
}

fn id_mapped_mounts(data: &Path) -> Feature {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let outcome = user_namespace(65_536, 65_536)
        .map_err(|failure| {
            failure.errno.map_or_else(|| io::Error::other(failure.message), io::Error::from_raw_os_error)
        })
        .and_then(|namespace| {
            let tree = rustix::mount::open_tree(CWD, data, flags)?;
            change_mount(&tree, MountChange { id_map: Some(namespace.as_fd()), ..MountChange::default() })
        });
    feature(
        "id-mapped mounts",
        false,
        outcome,
        "a build may change the files it was given",
        "a build with its own set-up script cannot change the files it was given",
        "keep the data directory on ext4, xfs or btrfs and use a kernel from 5.19 on",
    )
}

fn overlay() -> Feature {
    let outcome = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC);
    feature(
        "overlay",
        false,
        outcome.map(drop).map_err(io::Error::from),
        "layers can be stacked",
        "projects that install themselves or have a set-up script cannot be built",
        "modprobe overlay",
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
