//! The sandbox's file tree: a memory file system as root, the fixed parts, the plan's mounts, and the
//! switch to it.
//!
//! Runs as the owner of the sandbox's files ([`crate::plan::Ids`]) with all capabilities over it. The old root stays in place until the new `/proc` exists, because
//! the kernel mounts a process file system in a user namespace only where one is fully visible.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags};

use super::sources::{DEVICES, Sources, Tree};
use super::targets::Targets;
use crate::kernel::{MountChange, change_mount};
use crate::message::{AtStep, Failure, Step};
use crate::plan::{Mount, SandboxPlan, TmpfsSize};

/// The root holds only directories, links and our own small files.
const ROOT_SIZE: TmpfsSize = TmpfsSize { size_bytes: 8 << 20, inodes: 8192 };

const HARMLESS: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
const INERT: MountAttrFlags = HARMLESS.union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Builds the tree and makes it the root of this process.
pub(super) fn build_and_enter(plan: &SandboxPlan, sources: Sources) -> Result<(), Failure> {
    rustix::process::umask(Mode::empty());
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).at(Step::Root, "old root")?;
    let owner = plan.ids.owner(plan.run_uid, plan.run_gid);
    let root = tmpfs(ROOT_SIZE, 0o755, owner, HARMLESS).at(Step::Root, "new root")?;
    // The place does not matter: it is covered until the old root is detached.
    rustix::mount::move_mount(root.as_fd(), "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .at(Step::Root, "new root")?;
    let place = root.as_fd();
    let mut targets = Targets::new(place);
    fixed_parts(plan, &mut targets, &sources.devices)?;
    for (mount, tree) in plan.mounts.iter().zip(sources.mounts) {
        make(plan, &mut targets, mount, tree)?;
    }
    pivot(place)?;
    // Writable mounts beneath keep their own attributes; this is about the root's own files.
    change_mount(place, MountChange { set: libc::MOUNT_ATTR_RDONLY, ..MountChange::default() })
        .at(Step::Pivot, "making the root read-only")
}

fn fixed_parts(plan: &SandboxPlan, targets: &mut Targets<'_>, devices: &[Tree]) -> Result<(), Failure> {
    let path = Path::new("/proc");
    let proc = file_system("proc", &[], INERT).at(Step::Root, "/proc")?;
    let place = targets.directory(path, 0o555)?;
    targets.attach(proc, place, Step::Root, path)?;

    for (name, device) in DEVICES.iter().zip(devices) {
        let path = Path::new("/dev").join(name);
        let place = targets.file(&path)?;
        targets.attach(&device.mount, place, Step::Root, &path)?;
    }
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, to) in links {
        targets.symlink(&Path::new("/dev").join(name), Path::new(to))?;
    }
    if plan.pseudo_terminals {
        let options = [("ptmxmode", "0666".to_string()), ("mode", "0620".to_string()), ("max", "64".to_string())];
        let terminals =
            file_system("devpts", &options, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC)
                .at(Step::Root, "/dev/pts")?;
        let path = Path::new("/dev/pts");
        let place = targets.directory(path, 0o755)?;
        targets.attach(terminals, place, Step::Root, path)?;
        targets.symlink(Path::new("/dev/ptmx"), Path::new("pts/ptmx"))?;
    }
    for (path, size) in [("/dev/shm", plan.shared_memory), ("/tmp", plan.temporary)] {
        let path = Path::new(path);
        let memory =
            tmpfs(size, 0o1777, plan.ids.owner(plan.run_uid, plan.run_gid), HARMLESS).at(Step::Root, path.display())?;
        let place = targets.directory(path, 0o755)?;
        targets.attach(memory, place, Step::Root, path)?;
    }
    Ok(())
}

fn make(plan: &SandboxPlan, targets: &mut Targets<'_>, mount: &Mount, tree: Option<Tree>) -> Result<(), Failure> {
    let target = mount.target();
    if let Some(tree) = tree {
        let place = if tree.is_directory { targets.directory(target, 0o755)? } else { targets.file(target)? };
        return targets.attach(tree.mount, place, Step::Mount, target);
    }
    match mount {
        Mount::Tmpfs { size_bytes, inodes, mode, .. } => {
            let size = TmpfsSize { size_bytes: *size_bytes, inodes: *inodes };
            let memory =
                tmpfs(size, *mode, (plan.run_uid, plan.run_gid), HARMLESS).at(Step::Mount, target.display())?;
            let place = targets.directory(target, 0o755)?;
            targets.attach(memory, place, Step::Mount, target)
        }
        Mount::File { contents, mode, .. } => targets.write(target, contents, *mode),
        Mount::Symlink { to, .. } => targets.symlink(target, to),
        Mount::Directory { mode, .. } => targets.directory(target, *mode).map(drop),
        // These have a source, so they were attached above.
        Mount::BindReadOnly { .. }
        | Mount::BindWritable { .. }
        | Mount::OverlayReadOnly { .. }
        | Mount::Overlay { .. } => Ok(()),
    }
}

/// Stacks the old root on the new one and detaches it, which needs no directory to put it in.
fn pivot(root: BorrowedFd<'_>) -> Result<(), Failure> {
    rustix::process::fchdir(root).at(Step::Pivot, "entering the new root")?;
    rustix::process::pivot_root(".", ".").at(Step::Pivot, "pivot_root")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).at(Step::Pivot, "detaching the old root")?;
    rustix::process::chdir("/").at(Step::Pivot, "/")
}

fn tmpfs(
    size: TmpfsSize,
    mode: u32,
    (uid, gid): (u32, u32),
    attributes: MountAttrFlags,
) -> rustix::io::Result<OwnedFd> {
    let options = [
        ("size", size.size_bytes.to_string()),
        ("nr_inodes", size.inodes.to_string()),
        ("mode", format!("{mode:o}")),
        ("uid", uid.to_string()),
        ("gid", gid.to_string()),
    ];
    file_system("tmpfs", &options, attributes)
}

fn file_system(kind: &str, options: &[(&str, String)], attributes: MountAttrFlags) -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, value.as_str())?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
