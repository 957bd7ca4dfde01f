//! Refusal of plans that could not be contained or could not be made.

use std::path::{Component, Path};

use super::{Ids, Mount, Network, Program, SandboxPlan, TmpfsSize};

/// Why a plan is refused before anything is started.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("sandbox plan: {field}: {reason}")]
pub struct PlanError {
    /// The field at fault.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl SandboxPlan {
    /// Checks everything that can be judged without touching the host.
    ///
    /// # Errors
    /// The first field found at fault.
    pub fn validate(&self) -> Result<(), PlanError> {
        let Network::Loopback = self.network;
        require(!self.hostname.is_empty() && self.hostname.len() <= 64, "hostname", || "1 to 64 bytes".into())?;
        let mapped = match self.ids {
            Ids::Range { first, count } => {
                require(first != 0, "ids.first", || "host user 0 must never be mapped".into())?;
                let fits = count > 0 && first.checked_add(count).is_some_and(|end| end < u32::MAX);
                require(fits, "ids.count", || format!("{count} ids from {first} do not fit"))?;
                count
            }
            // Any number but the one that means "none" can stand for the service's own.
            Ids::Own => u32::MAX,
        };
        require(self.run_uid < mapped, "run_uid", || format!("{} is not mapped", self.run_uid))?;
        require(self.run_gid < mapped, "run_gid", || format!("{} is not mapped", self.run_gid))?;
        for mount in &self.mounts {
            check_mount(mount)?;
        }
        check_tmpfs("temporary", self.temporary)?;
        check_tmpfs("shared_memory", self.shared_memory)?;
        let limits = &self.limits;
        require(limits.memory_bytes > 0, "limits.memory_bytes", || "must not be 0".into())?;
        require(limits.processes > 0, "limits.processes", || "must not be 0".into())?;
        require(limits.cpu_millis > 0, "limits.cpu_millis", || "must not be 0".into())?;
        require(limits.io_bytes_per_second != Some(0), "limits.io_bytes_per_second", || "must not be 0".into())?;
        require(limits.open_files >= 16, "limits.open_files", || "must be at least 16".into())?;
        require(!self.arguments.is_empty(), "arguments", || "the zeroth argument is missing".into())?;
        let texts = self.arguments.iter().chain(self.environment.iter().flat_map(|(name, value)| [name, value]));
        for text in texts {
            require(!text.contains('\0'), "arguments", || "a NUL byte in an argument or variable".into())?;
        }
        for (name, _) in &self.environment {
            require(!name.is_empty() && !name.contains('='), "environment", || format!("bad name {name:?}"))?;
        }
        check_inside("working_directory", &self.working_directory)?;
        if let Program::Path(path) = &self.program {
            check_inside("program", path)?;
        }
        if let Some(path) = &self.listen {
            require(path.is_absolute() && path.file_name().is_some(), "listen", || "not an absolute path".into())?;
        }
        Ok(())
    }
}

fn check_mount(mount: &Mount) -> Result<(), PlanError> {
    check_inside("mounts.target", mount.target())?;
    require(mount.target() != Path::new("/"), "mounts.target", || "the root itself cannot be replaced".into())?;
    for source in mount.sources() {
        require(source.is_absolute(), "mounts.source", || format!("{} is not absolute", source.display()))?;
    }
    match mount {
        Mount::OverlayReadOnly { lowers, .. } | Mount::Overlay { lowers, .. } => {
            require(!lowers.is_empty(), "mounts.lowers", || "at least one directory".into())
        }
        Mount::Tmpfs { size_bytes, inodes, .. } => {
            check_tmpfs("mounts.tmpfs", TmpfsSize { size_bytes: *size_bytes, inodes: *inodes })
        }
        _ => Ok(()),
    }
}

/// Zero means "unlimited" to tmpfs, so it is never passed on.
fn check_tmpfs(field: &'static str, size: TmpfsSize) -> Result<(), PlanError> {
    require(size.size_bytes > 0 && size.inodes > 0, field, || "size and number of files must not be 0".into())
}

fn check_inside(field: &'static str, path: &Path) -> Result<(), PlanError> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    require(path.is_absolute() && plain, field, || format!("{} is not absolute and plain", path.display()))
}

fn require(holds: bool, field: &'static str, reason: impl FnOnce() -> String) -> Result<(), PlanError> {
    if holds { Ok(()) } else { Err(PlanError { field, reason: reason() }) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::plan::Limits;

    type Change = fn(&mut SandboxPlan);

    fn plan() -> SandboxPlan {
        SandboxPlan {
            hostname: "box".into(),
            ids: Ids::Range { first: 700_000, count: 65_536 },
            run_uid: 1000,
            run_gid: 1000,
            mounts: vec![Mount::Directory { target: PathBuf::from("/workspace"), mode: 0o755 }],
            temporary: TmpfsSize { size_bytes: 1 << 20, inodes: 100 },
            shared_memory: TmpfsSize { size_bytes: 1 << 20, inodes: 100 },
            pseudo_terminals: false,
            limits: Limits {
                memory_bytes: 1 << 28,
                processes: 64,
                cpu_millis: 1000,
                open_files: 256,
                file_size: None,
                io_bytes_per_second: None,
            },
            cgroup: None,
            network: Network::Loopback,
            program: Program::Path(PathBuf::from("/bin/true")),
            arguments: vec!["true".into()],
            environment: Vec::new(),
            working_directory: PathBuf::from("/"),
            listen: None,
        }
    }

    #[test]
    fn what_cannot_be_contained_is_refused_by_field() {
        plan().validate().unwrap();
        let json = serde_json::to_string(&plan()).unwrap();
        assert_eq!(serde_json::from_str::<SandboxPlan>(&json).unwrap(), plan());

        let cases: [(&str, Change); 11] = [
            ("ids.first", |plan| plan.ids = Ids::Range { first: 0, count: 65_536 }),
            ("ids.count", |plan| plan.ids = Ids::Range { first: 700_000, count: u32::MAX }),
            ("run_uid", |plan| plan.run_uid = 65_536),
            ("run_gid", |plan| {
                plan.ids = Ids::Own;
                plan.run_gid = u32::MAX;
            }),
            ("limits.io_bytes_per_second", |plan| plan.limits.io_bytes_per_second = Some(0)),
            ("mounts.target", |plan| plan.mounts[0] = Mount::Directory { target: "/a/../b".into(), mode: 0o755 }),
            ("mounts.target", |plan| plan.mounts[0] = Mount::Directory { target: "/".into(), mode: 0o755 }),
            ("mounts.source", |plan| {
                plan.mounts[0] = Mount::BindReadOnly { source: "a".into(), target: "/a".into() };
            }),
            ("temporary", |plan| plan.temporary.inodes = 0),
            ("arguments", |plan| plan.arguments.clear()),
            ("environment", |plan| plan.environment.push(("A=B".into(), String::new()))),
        ];
        for (field, change) in cases {
            let mut changed = plan();
            change(&mut changed);
            assert_eq!(changed.validate().unwrap_err().field, field);
        }
    }
}
