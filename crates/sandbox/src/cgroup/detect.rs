//! Which hierarchies this host has, and which of them are ours to use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{numbers, write};
use super::manager::make_directory;
use super::{CgroupError, CgroupManager, Controller, weights};

/// A mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
enum Hierarchy {
    Unified { mount: PathBuf },
    Legacy { mount: PathBuf, controllers: Vec<Controller> },
}

/// What becomes of processes that are in the service's version 2 group beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// They are moved into the leaf with it.
    Move,
    /// They stay, and then the group's controllers cannot be used.
    Leave,
}

pub(super) fn detect(prefix: &str, others: Others) -> Result<CgroupManager, CgroupError> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|source| CgroupError::Io { action: "read", path: path.into(), source })
    };
    let hierarchies = parse_mounts(&read("/proc/self/mountinfo")?);
    let own = parse_own_unified(&read("/proc/self/cgroup")?);
    let mut manager = CgroupManager {
        unified: None,
        unified_controllers: BTreeSet::new(),
        legacy: BTreeMap::new(),
        notes: Vec::new(),
    };
    for hierarchy in hierarchies {
        match hierarchy {
            Hierarchy::Legacy { mount, controllers } => {
                let base = mount.join(prefix);
                match make_directory(&base) {
                    Ok(()) => {
                        if controllers.contains(&Controller::Cpu)
                            && let Err(error) = weights::set_legacy(&base)
                        {
                            manager.note(&error, "the control groups of version 1 belong to root");
                        }
                        for controller in controllers {
                            manager.legacy.entry(controller).or_insert_with(|| base.clone());
                        }
                    }
                    Err(error) => manager.note(&error, "the control groups of version 1 belong to root"),
                }
            }
            Hierarchy::Unified { mount } if manager.unified.is_none() => {
                match prepare_unified(&mount, own.as_deref().unwrap_or("/"), prefix, others) {
                    Ok((base, controllers)) => {
                        manager.unified = Some(base);
                        manager.unified_controllers = controllers;
                    }
                    Err(error) => manager.note(&error, "the service's control group is not delegated to it"),
                }
            }
            Hierarchy::Unified { .. } => {}
        }
    }
    let found: Vec<Controller> = manager.unified_controllers.iter().copied().collect();
    manager.legacy.retain(|controller, _| !found.contains(controller));
    Ok(manager)
}

/// How far down a version 2 hierarchy services are looked for.
const DEPTH: u32 = 6;

/// What there is of a service's groups, wherever it runs. Makes nothing.
pub(super) fn existing(prefix: &str) -> Result<CgroupManager, CgroupError> {
    let path = "/proc/self/mountinfo";
    let mounts =
        fs::read_to_string(path).map_err(|source| CgroupError::Io { action: "read", path: path.into(), source })?;
    let mut manager = CgroupManager {
        unified: None,
        unified_controllers: BTreeSet::new(),
        legacy: BTreeMap::new(),
        notes: Vec::new(),
    };
    for hierarchy in parse_mounts(&mounts) {
        match hierarchy {
            Hierarchy::Legacy { mount, controllers } => {
                let base = mount.join(prefix);
                if base.is_dir() {
                    manager.legacy.extend(controllers.into_iter().map(|controller| (controller, base.clone())));
                }
            }
            Hierarchy::Unified { mount } => {
                manager.unified = manager.unified.or_else(|| beneath(&mount, prefix, DEPTH));
            }
        }
    }
    Ok(manager)
}

fn beneath(directory: &Path, name: &str, depth: u32) -> Option<PathBuf> {
    let found = directory.join(name);
    if found.is_dir() {
        return Some(found);
    }
    let entries = fs::read_dir(directory).ok().filter(|_| depth > 0)?.flatten();
    let mut directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.find_map(|entry| beneath(&entry.path(), name, depth - 1))
}

/// Makes our directory beneath the service's own group and hands it the controllers there are.
fn prepare_unified(
    mount: &Path,
    own: &str,
    prefix: &str,
    others: Others,
) -> Result<(PathBuf, BTreeSet<Controller>), CgroupError> {
    let leaf = format!("{prefix}.service");
    let own = mount.join(own.trim_start_matches('/'));
    // A service that moved itself into its leaf before was restarted there.
    let own = if own.ends_with(&leaf) { own.parent().unwrap_or(mount).to_path_buf() } else { own };
    let offered = fs::read_to_string(own.join("cgroup.controllers")).map_err(|source| CgroupError::Io {
        action: "read",
        path: own.join("cgroup.controllers"),
        source,
    })?;
    let controllers: BTreeSet<Controller> = Controller::UNIFIED
        .into_iter()
        .filter(|controller| offered.split_ascii_whitespace().any(|name| name == controller.name()))
        .collect();
    let base = own.join(prefix);
    make_directory(&base)?;
    if controllers.is_empty() {
        return Ok((base, controllers));
    }
    let leaf = own.join(leaf);
    let wanted: Vec<String> = controllers.iter().map(|controller| format!("+{}", controller.name())).collect();
    let wanted = wanted.join(" ");
    let switch = own.join("cgroup.subtree_control");
    if write(&switch, &wanted).is_err() {
        let members = numbers(&own.join("cgroup.procs"))?;
        if others == Others::Leave && members.iter().any(|pid| *pid != std::process::id() as i32) {
            let (action, path) = ("use the controllers beside other processes of", own);
            return Err(CgroupError::Io { action, path, source: io::ErrorKind::ResourceBusy.into() });
        }
        make_directory(&leaf)?;
        for pid in members {
            write(&leaf.join("cgroup.procs"), &pid.to_string())?;
        }
        write(&switch, &wanted)?;
    }
    write(&base.join("cgroup.subtree_control"), &wanted)?;
    weights::set_unified(&base, &leaf)?;
    Ok((base, controllers))
}

impl CgroupManager {
    /// Keeps what went wrong, once, for an operator; `denied` says what it means where the service may not.
    fn note(&mut self, error: &CgroupError, denied: &str) {
        let note = match error {
            CgroupError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => denied.to_string(),
            CgroupError::Io { source, .. } => format!("{error}: {source}"),
            CgroupError::Name(_) => error.to_string(),
        };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The cgroup mounts of a `/proc/self/mountinfo`: fields up to a lone dash, then type, source, options.
fn parse_mounts(text: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let mut kind = kind.split(' ');
        let (file_system, options) = (kind.next().unwrap_or(""), kind.nth(1).unwrap_or(""));
        let Some(mount) = place.split(' ').nth(4).map(PathBuf::from) else { continue };
        match file_system {
            "cgroup2" => found.push(Hierarchy::Unified { mount }),
            "cgroup" => {
                let controllers: Vec<Controller> = Controller::LEGACY
                    .into_iter()
                    .filter(|controller| options.split(',').any(|option| option == controller.name()))
                    .collect();
                if !controllers.is_empty() {
                    found.push(Hierarchy::Legacy { mount, controllers });
                }
            }
            _ => {}
        }
    }
    found
}

/// Path of the `0::` line of a `/proc/self/cgroup`.
fn parse_own_unified(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("0::")).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_hosts_are_understood_per_hierarchy() {
        let text = "\
25 20 0:22 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
26 20 0:23 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct
27 20 0:24 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
28 20 8:1 / / rw - ext4 /dev/root rw
";
        let both = vec![Controller::Cpu, Controller::CpuAccounting];
        let expected = vec![
            Hierarchy::Unified { mount: "/sys/fs/cgroup/unified".into() },
            Hierarchy::Legacy { mount: "/sys/fs/cgroup/cpu,cpuacct".into(), controllers: both },
        ];
        assert_eq!(parse_mounts(text), expected);
        assert_eq!(
            parse_own_unified("3:pids:/a\n0::/system.slice/stead.service\n").unwrap(),
            "/system.slice/stead.service"
        );
    }

    #[test]
    fn what_was_denied_is_said_once_and_in_words() {
        let mut manager = CgroupManager {
            unified: None,
            unified_controllers: BTreeSet::new(),
            legacy: BTreeMap::new(),
            notes: Vec::new(),
        };
        let error = |kind: io::ErrorKind| CgroupError::Io { action: "make", path: "/x".into(), source: kind.into() };
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound] {
            manager.note(&error(kind), "they belong to root");
        }
        assert_eq!(manager.notes(), ["they belong to root", "cannot make /x: entity not found"]);
    }

    #[test]
    fn a_delegated_group_is_switched_on_at_both_levels() {
        let mount = tempfile::tempdir().unwrap();
        let own = mount.path().join("service");
        fs::create_dir_all(own.join("stead")).unwrap();
        fs::create_dir_all(own.join("stead.service")).unwrap();
        for weight in ["stead/cpu.weight", "stead/io.weight", "stead.service/cpu.weight", "stead.service/io.weight"] {
            fs::write(own.join(weight), "").unwrap();
        }
        fs::write(own.join("cgroup.controllers"), "cpuset cpu io memory hugetlb\n").unwrap();
        fs::write(own.join("cgroup.subtree_control"), "").unwrap();
        fs::write(own.join("stead/cgroup.subtree_control"), "").unwrap();
        let (base, controllers) =
            prepare_unified(mount.path(), "/service/stead.service", "stead", Others::Move).unwrap();
        assert_eq!(base, own.join("stead"));
        assert_eq!(controllers, BTreeSet::from([Controller::Memory, Controller::Cpu, Controller::Io]));
        let read = |path: &str| fs::read_to_string(own.join(path)).unwrap();
        for switch in ["cgroup.subtree_control", "stead/cgroup.subtree_control"] {
            assert_eq!(read(switch), "+memory +cpu +io");
        }
        assert_eq!((read("stead/cpu.weight"), read("stead.service/cpu.weight")), ("100".into(), "1000".into()));
        assert_eq!(read("stead.service/io.weight"), "default 1000");
    }

    #[test]
    fn who_only_looks_moves_nobody() {
        let mount = tempfile::tempdir().unwrap();
        let own = mount.path().join("login");
        // A directory in the place of the switch cannot be written, as the switch of a group that holds processes cannot.
        fs::create_dir_all(own.join("cgroup.subtree_control")).unwrap();
        fs::write(own.join("cgroup.controllers"), "memory\n").unwrap();
        fs::write(own.join("cgroup.procs"), "1\n").unwrap();
        let refused = prepare_unified(mount.path(), "/login", "look", Others::Leave).unwrap_err();
        assert!(refused.to_string().contains("beside other processes"), "{refused}");
        assert!(!own.join("look.service").exists());
    }
}
