//! Opening what a plan mounts, before the sandbox exists.
//!
//! Every host path is resolved here, with the service's own rights, into a *detached* mount that
//! already carries its final attributes. The inside only attaches them, so a sandbox's root needs no
//! access to the directories above a source, and no source is ever writable for an instant.
//!
//! For an ordinary user all this happens in a user namespace, where the kernel clones a directory only
//! together with what is mounted beneath it, because the mounts might hide something.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags};

use crate::kernel::{Cloned, MountChange, change_mount, clone_into_namespaces};
use crate::message::{AtStep, Failure, Step};
use crate::plan::{Ids, Mount, SandboxPlan};

/// Host device nodes that exist inside.
pub(super) const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

const HARMLESS: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// A detached mount.
pub(crate) struct Tree {
    pub(crate) mount: OwnedFd,
    pub(crate) is_directory: bool,
}

/// The opened sources of a plan.
pub(super) struct Sources {
    /// In the order of [`DEVICES`].
    pub(super) devices: Vec<Tree>,
    /// One for each of the plan's mounts; `None` for those that need no source.
    pub(super) mounts: Vec<Option<Tree>>,
}

/// Opens all sources of the plan.
pub(super) fn open(plan: &SandboxPlan) -> Result<Sources, Failure> {
    let mut devices = Vec::with_capacity(DEVICES.len());
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        // Read-only concerns the node itself; writing to the device remains possible.
        let set = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_RDONLY;
        devices.push(bind(&path, MountChange { set, ..MountChange::default() })?);
    }
    let mut mounts = Vec::with_capacity(plan.mounts.len());
    for mount in &plan.mounts {
        mounts.push(open_one(plan, mount)?);
    }
    Ok(Sources { devices, mounts })
}

fn open_one(plan: &SandboxPlan, mount: &Mount) -> Result<Option<Tree>, Failure> {
    let recursive = plan.ids == Ids::Own;
    let tree = match mount {
        Mount::BindReadOnly { source, .. } => {
            let set = HARMLESS | libc::MOUNT_ATTR_RDONLY;
            bind(source, MountChange { set, recursive: true, id_map: None })?
        }
        Mount::BindWritable { source, .. } => bind(source, MountChange { set: HARMLESS, recursive, id_map: None })?,
        // The kernel refuses a read-only overlay of a single directory, which would be a bind anyway.
        Mount::OverlayReadOnly { lowers, .. } if lowers.len() == 1 => {
            let set = HARMLESS | libc::MOUNT_ATTR_RDONLY;
            bind(&lowers[0], MountChange { set, recursive, id_map: None })?
        }
        Mount::OverlayReadOnly { lowers, target } => overlay(plan.ids, target, &directories(lowers)?, None)?,
        Mount::Overlay { lowers, upper, work, target, lowers_as_run_user } => {
            let lowers = if *lowers_as_run_user { owned_by_run_user(plan, lowers)? } else { directories(lowers)? };
            overlay(plan.ids, target, &lowers, Some(&(directory(upper)?, directory(work)?)))?
        }
        Mount::Tmpfs { .. } | Mount::File { .. } | Mount::Symlink { .. } | Mount::Directory { .. } => return Ok(None),
    };
    Ok(Some(tree))
}

fn bind(source: &Path, change: MountChange<'_>) -> Result<Tree, Failure> {
    let subject = source.display();
    let mut flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if change.recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let mount = rustix::mount::open_tree(CWD, source, flags).at(Step::Source, &subject)?;
    change_mount(&mount, change).at(Step::Source, &subject)?;
    let stat = rustix::fs::fstat(&mount).at(Step::Source, &subject)?;
    Ok(Tree { mount, is_directory: FileType::from_raw_mode(stat.st_mode) == FileType::Directory })
}

fn directories(paths: &[PathBuf]) -> Result<Vec<OwnedFd>, Failure> {
    paths.iter().map(|path| directory(path)).collect()
}

fn directory(path: &Path) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).at(Step::Source, path.display())
}

/// An overlay of opened directories. They are named through `/proc/self/fd`, because the kernel takes
/// at most 255 bytes for one value and because what was opened is what must be mounted.
pub(crate) fn overlay(
    ids: Ids,
    target: &Path,
    lowers: &[OwnedFd],
    upper_and_work: Option<&(OwnedFd, OwnedFd)>,
) -> Result<Tree, Failure> {
    let subject = format!("overlay at {}", target.display());
    let named = |descriptor: &OwnedFd| format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).at(Step::Source, &subject)?;
    let set = |key: &str, value: &str| {
        rustix::mount::fsconfig_set_string(context.as_fd(), key, value).at(Step::Source, format!("{subject}, {key}"))
    };
    let flag = |key: &str| {
        rustix::mount::fsconfig_set_flag(context.as_fd(), key).at(Step::Source, format!("{subject}, {key}"))
    };
    set("source", "stead")?;
    if ids == Ids::Own {
        // Only real privileges may write the attributes in which an overlay keeps its notes otherwise.
        flag("userxattr")?;
    }
    for (index, lower) in lowers.iter().enumerate() {
        if let Err(failure) = set("lowerdir+", &named(lower)) {
            // Kernels before 6.5 take only the joined form.
            if index > 0 {
                return Err(failure);
            }
            let joined: Vec<String> = lowers.iter().map(named).collect();
            set("lowerdir", &joined.join(":"))?;
            break;
        }
    }
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if let Some((upper, work)) = upper_and_work {
        set("upperdir", &named(upper))?;
        set("workdir", &named(work))?;
        flag("volatile")?;
    } else {
        attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    rustix::mount::fsconfig_create(context.as_fd()).at(Step::Source, &subject)?;
    let mount = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .at(Step::Source, &subject)?;
    Ok(Tree { mount, is_directory: true })
}

/// Clones of the directories in which host user 0 appears as the sandbox's run user. An ordinary user's belong to it anyway.
fn owned_by_run_user(plan: &SandboxPlan, lowers: &[PathBuf]) -> Result<Vec<OwnedFd>, Failure> {
    let Some((uid, gid)) = plan.ids.of_run_user(plan.run_uid, plan.run_gid) else { return directories(lowers) };
    let namespace = user_namespace(uid, gid)?;
    let mut trees = Vec::with_capacity(lowers.len());
    for lower in lowers {
        let change = MountChange { set: HARMLESS, recursive: false, id_map: Some(namespace.as_fd()) };
        trees.push(bind(lower, change)?.mount);
    }
    Ok(trees)
}

/// A user namespace mapping its user and group 0 to the given host ids, kept alive by its descriptor.
pub(crate) fn user_namespace(uid: u32, gid: u32) -> Result<OwnedFd, Failure> {
    let (mut held, hold) = {
        let (reader, writer) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).at(Step::Source, "owner mapping")?;
        (File::from(reader), writer)
    };
    match clone_into_namespaces(libc::CLONE_NEWUSER as u64, false, None).at(Step::Source, "owner mapping")? {
        Cloned::Child => {
            drop(hold);
            let _ = held.read(&mut [0_u8]);
            std::process::exit(0)
        }
        Cloned::Parent { pid, .. } => {
            let write = |name: &str, id: u32| {
                let path = format!("/proc/{pid}/{name}");
                std::fs::write(&path, format!("0 {id} 1\n")).at(Step::Source, path)
            };
            let mapped = write("uid_map", uid).and_then(|()| write("gid_map", gid)).and_then(|()| {
                let path = format!("/proc/{pid}/ns/user");
                File::open(&path).at(Step::Source, path)
            });
            drop(hold);
            let _ =
                rustix::process::waitpid(rustix::process::Pid::from_raw(pid), rustix::process::WaitOptions::empty());
            mapped.map(OwnedFd::from)
        }
    }
}
