//! Whose ids sandboxes have, and whether the namespaces for them can be made.

use std::fs;
use std::io;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::process::{Pid, WaitOptions};

use super::kernel::feature;
use super::mounts::into_io;
use super::{Feature, State, Who};
use crate::kernel::{Cloned, NAMESPACES, clone_into_namespaces};
use crate::launcher::ordinary;

/// Settings of the host that keep an ordinary user from making namespaces: file, value that forbids, command that allows.
const FORBIDDING: [(&str, &str, &str); 3] = [
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for the service that allows userns",
    ),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", MORE_NAMESPACES),
];

const MORE_NAMESPACES: &str = "sysctl user.max_user_namespaces=65536";

const WHOLE_PROC: &str = "start the service where all of /proc is to be seen: without ProtectKernelTunables=, ProtectKernelLogs= \
                          and ProtectProc= in its systemd unit, or in Docker with --security-opt systempaths=unconfined";

/// Whether each sandbox has users of its own.
pub(super) fn user_ids(who: Who) -> Feature {
    let (state, explanation, fix) = match who {
        Who::Root => {
            (State::Enforced, "each session gets a range of user ids of its own, none of them the host's root", None)
        }
        Who::OrdinaryUser => (
            State::Partial,
            "all sessions have the service's one user id and are kept apart by namespaces alone",
            Some("run the service as root, which gives each session a range of user ids of its own"),
        ),
    };
    Feature {
        name: "user ids".to_string(),
        state,
        required: false,
        explanation: explanation.to_string(),
        fix: fix.map(ToString::to_string),
    }
}

/// Makes what a sandbox is made of. An ordinary user is in its own user namespace after this.
pub(super) fn namespaces(who: Who) -> Feature {
    let (prepared, map) = match who {
        Who::Root => (Ok(()), "0 65536 1\n"),
        Who::OrdinaryUser => (enter_own(), "1000 0 1\n"),
    };
    let outcome = prepared.and_then(|()| make(map));
    // Only a refused process file system comes with words of our own.
    let covered = outcome.as_ref().is_err_and(|error| error.get_ref().is_some());
    let command = if covered { WHOLE_PROC } else { fix(who, |path| fs::read_to_string(path).ok()) };
    feature(
        "namespaces",
        true,
        outcome,
        "user, mount, process, ipc, host name and network namespaces can be made and mapped",
        "namespaces cannot be made",
        command,
    )
}

/// Some distributions let everyone make a user namespace and take its powers away, so one of them is used.
fn enter_own() -> io::Result<()> {
    ordinary::enter_own_namespaces().map_err(into_io)?;
    mount("tmpfs")
}

/// Makes a process in all namespaces of a sandbox, maps its ids and lets it mount a process file system, which the kernel
/// refuses where the host's own is covered in part.
fn make(map: &str) -> io::Result<()> {
    let (held, hold) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match clone_into_namespaces(NAMESPACES, false, None)? {
        Cloned::Child => {
            drop(hold);
            // Ends when the ids are mapped, or were refused.
            let _ = rustix::io::read(&held, &mut [0_u8]);
            let errno = mount("proc").map_or_else(|error| error.raw_os_error().unwrap_or(1), |()| 0);
            std::process::exit(errno)
        }
        Cloned::Parent { pid, .. } => {
            let mapped = fs::write(format!("/proc/{pid}/uid_map"), map);
            drop(hold);
            let ended = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
            mapped?;
            match ended.and_then(|(_, status)| status.exit_status()) {
                Some(0) => Ok(()),
                Some(errno) => {
                    let error = io::Error::from_raw_os_error(errno);
                    Err(io::Error::new(error.kind(), format!("no process file system can be mounted in them: {error}")))
                }
                None => Err(io::ErrorKind::Unsupported.into()),
            }
        }
    }
}

fn mount(kind: &str) -> io::Result<()> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    let attributes = attributes | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    Ok(())
}

fn fix(who: Who, read: impl Fn(&str) -> Option<String>) -> &'static str {
    FORBIDDING
        .iter()
        .filter(|_| who == Who::OrdinaryUser)
        .find(|(path, forbidding, _)| read(path).is_some_and(|value| value.trim() == *forbidding))
        .map_or(MORE_NAMESPACES, |(_, _, command)| command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_is_the_one_to_change() {
        let host = |forbidding: &'static str| {
            move |path: &str| Some(if path.ends_with(forbidding) { "1\n".into() } else { "7\n".into() })
        };
        let told = fix(Who::OrdinaryUser, host("apparmor_restrict_unprivileged_userns"));
        assert!(told.starts_with("sysctl kernel.apparmor"), "{told}");
        assert_eq!(fix(Who::OrdinaryUser, |path| path.ends_with("_clone").then(|| "0".into())), FORBIDDING[1].2);
        assert_eq!(fix(Who::OrdinaryUser, |_| None), MORE_NAMESPACES);
        assert_eq!(fix(Who::Root, host("apparmor_restrict_unprivileged_userns")), MORE_NAMESPACES);
    }
}
