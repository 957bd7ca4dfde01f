//! What the launcher does for the sandbox from outside, with the service's privileges.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::cgroup::Cgroup;
use crate::message::{AtStep, Failure, Step, refuse};
use crate::plan::{Ids, SandboxPlan};

/// Sent when the ids are mapped: the inside may become its own root.
pub(super) const IDS_MAPPED: u8 = b'i';
/// Sent when the control groups are joined: the inside may execute the program.
pub(super) const GROUPS_JOINED: u8 = b'g';

const BACKLOG: i32 = 128;

/// Makes the sandbox a likelier victim than the service when the whole host runs out of memory.
const OUT_OF_MEMORY_SCORE: &[u8] = b"500";

/// Binds the listening socket, mode 0600, through a descriptor of its directory: the path may be
/// longer than a socket address.
pub(super) fn listen(path: &Path) -> Result<OwnedFd, Failure> {
    let subject = path.display();
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refuse(Step::Listen, subject, "not a path of a file"));
    };
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(path).at(Step::Listen, &subject)?;
    }
    let directory = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .at(Step::Listen, &subject)?;
    let mut short = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    short.extend_from_slice(name.as_bytes());
    let address = SocketAddrUnix::new(short).at(Step::Listen, &subject)?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .at(Step::Listen, &subject)?;
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &address);
    rustix::process::umask(before);
    bound.at(Step::Listen, &subject)?;
    rustix::net::listen(&socket, BACKLOG).at(Step::Listen, &subject)?;
    Ok(socket)
}

/// Moves the launcher itself into the version 1 groups, so that what it clones is born in them.
pub(super) fn join(cgroup: &Cgroup) -> Result<(), Failure> {
    cgroup.legacy_memberships().try_for_each(|file| write(Step::Cgroup, &file.to_string_lossy(), b"0"))
}

/// Maps ids and joins the version 2 group for the process inside, where it was not born in it, telling it of each.
pub(super) fn serve(plan: &SandboxPlan, pid: i32, in_cgroup: bool, tell: &OwnedFd) -> Result<(), Failure> {
    let (users, groups) = match plan.ids {
        Ids::Range { first, count } => (format!("0 {first} {count}\n"), format!("0 {first} {count}\n")),
        // By now this process is 0 of a namespace in which 0 is the service's user and group.
        Ids::Own => (format!("{} 0 1\n", plan.run_uid), format!("{} 0 1\n", plan.run_gid)),
    };
    write(Step::IdMap, &format!("/proc/{pid}/setgroups"), b"deny")?;
    write(Step::IdMap, &format!("/proc/{pid}/uid_map"), users.as_bytes())?;
    write(Step::IdMap, &format!("/proc/{pid}/gid_map"), groups.as_bytes())?;
    rustix::io::write(tell, &[IDS_MAPPED]).at(Step::IdMap, "telling the sandbox")?;

    // A likelihood, not a bound: without it the kernel chooses by size alone.
    let _ = write(Step::Limits, &format!("/proc/{pid}/oom_score_adj"), OUT_OF_MEMORY_SCORE);
    let unified = plan.cgroup.as_ref().and_then(Cgroup::unified_membership).filter(|_| !in_cgroup);
    if let Some(file) = unified {
        write(Step::Cgroup, &file.to_string_lossy(), pid.to_string().as_bytes())?;
    }
    rustix::io::write(tell, &[GROUPS_JOINED]).at(Step::Cgroup, "telling the sandbox")?;
    Ok(())
}

fn write(step: Step, path: &str, content: &[u8]) -> Result<(), Failure> {
    let mut file = OpenOptions::new().write(true).open(path).at(step, path)?;
    file.write_all(content).at(step, path)
}
