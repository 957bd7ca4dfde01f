//! Making, watching, emptying and removing groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::detect::{self, Others};
use super::{Cgroup, CgroupError, CgroupStats, Controller, Version, files, kill};
use crate::plan::Limits;

/// How long emptying or removing a group may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes, watches, empties and removes the groups of this service.
#[derive(Debug, Clone)]
pub struct CgroupManager {
    /// Directory that holds our groups in the version 2 hierarchy.
    pub(super) unified: Option<PathBuf>,
    /// Which controllers the version 2 directory has.
    pub(super) unified_controllers: BTreeSet<Controller>,
    /// Directory that holds our groups, for each version 1 controller.
    pub(super) legacy: BTreeMap<Controller, PathBuf>,
    pub(super) notes: Vec<String>,
}

impl CgroupManager {
    /// Finds out what this host has and makes the directory `prefix` in each hierarchy. In version 1
    /// it lies at the top of the hierarchy, so that a restarted service finds it again; in version 2
    /// beneath the service's own group, which must be delegated to it. A version 2 group with
    /// controllers may hold no processes, so the service's own are then moved into a leaf
    /// `<prefix>.service`.
    ///
    /// # Errors
    /// When `prefix` is no name, or `/proc` cannot be read. Missing controllers are no error.
    pub fn detect(prefix: &str) -> Result<Self, CgroupError> {
        check_name(prefix)?;
        detect::detect(prefix, Others::Move)
    }

    /// The same for a process that only looks: no other process is moved. Where that would be needed, a note says so, and the
    /// controllers count as missing.
    ///
    /// # Errors
    /// As [`CgroupManager::detect`].
    pub fn look(prefix: &str) -> Result<Self, CgroupError> {
        check_name(prefix)?;
        detect::detect(prefix, Others::Leave)
    }

    /// The groups that are there of whatever service has `prefix`, for one that looks at what it left: nothing is made. Finds groups
    /// and their members; says nothing of controllers.
    ///
    /// # Errors
    /// As [`CgroupManager::detect`].
    pub fn existing(prefix: &str) -> Result<Self, CgroupError> {
        check_name(prefix)?;
        detect::existing(prefix)
    }

    /// Where a group is, in as many hierarchies as have it.
    pub fn places(&self, name: &str) -> Vec<PathBuf> {
        self.directories(name).into_iter().filter(|directory| directory.is_dir()).collect()
    }

    /// Where a controller is, if anywhere.
    pub fn version_of(&self, controller: Controller) -> Option<Version> {
        if self.unified_controllers.contains(&controller) {
            Some(Version::Unified)
        } else {
            self.legacy.contains_key(&controller).then_some(Version::Legacy)
        }
    }

    /// Controllers whose bounds are soft on this host, among memory, processes and processor.
    pub fn missing(&self) -> Vec<Controller> {
        Controller::BOUNDS.into_iter().filter(|controller| self.version_of(*controller).is_none()).collect()
    }

    /// Whether groups are more than names on this host.
    pub fn makes_groups(&self) -> bool {
        self.unified.is_some() || !self.legacy.is_empty()
    }

    /// Whether a group can be killed at once.
    pub fn kills_at_once(&self) -> bool {
        self.unified.is_some()
    }

    /// What detection found in the way, in words for an operator.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Makes a group with limits. An existing one of that name is taken over and gets the limits.
    ///
    /// # Errors
    /// When the kernel refuses a directory or a limit; what was made is removed again.
    pub fn create(&self, name: &str, limits: &Limits) -> Result<Cgroup, CgroupError> {
        check_name(name)?;
        let made = self.create_directories(name, limits);
        if made.is_err() {
            let _ = self.remove(name);
        }
        made
    }

    fn create_directories(&self, name: &str, limits: &Limits) -> Result<Cgroup, CgroupError> {
        let mut cgroup = Cgroup {
            name: name.to_string(),
            unified: None,
            legacy: Vec::new(),
            bounds_memory: self.version_of(Controller::Memory).is_some(),
        };
        if let Some(base) = &self.unified {
            let directory = base.join(name);
            make_directory(&directory)?;
            for controller in &self.unified_controllers {
                controller.apply(Version::Unified, &directory, limits)?;
            }
            cgroup.unified = Some(directory);
        }
        for (controller, base) in &self.legacy {
            let directory = base.join(name);
            make_directory(&directory)?;
            controller.apply(Version::Legacy, &directory, limits)?;
            if !cgroup.legacy.contains(&directory) {
                cgroup.legacy.push(directory);
            }
        }
        Ok(cgroup)
    }

    /// Host pids in the group.
    ///
    /// # Errors
    /// When the kernel refuses; a group that does not exist is empty.
    pub fn pids(&self, name: &str) -> Result<Vec<i32>, CgroupError> {
        check_name(name)?;
        let mut pids = BTreeSet::new();
        for directory in self.directories(name) {
            pids.extend(files::numbers(&directory.join("cgroup.procs"))?);
        }
        Ok(pids.into_iter().collect())
    }

    /// Kills everything in the group and waits until it is empty.
    ///
    /// # Errors
    /// When it is not empty after five seconds.
    pub fn kill(&self, name: &str) -> Result<(), CgroupError> {
        check_name(name)?;
        let unified = self.unified.as_ref().map(|base| base.join(name));
        let freezer = self.legacy.get(&Controller::Freezer).map(|base| base.join(name));
        kill::kill(unified.as_deref(), freezer.as_deref(), || self.pids(name), PATIENCE)
    }

    /// Removes an empty group. One that does not exist is no error.
    ///
    /// # Errors
    /// When something is still in it after five seconds.
    pub fn remove(&self, name: &str) -> Result<(), CgroupError> {
        check_name(name)?;
        self.directories(name).iter().try_for_each(|directory| kill::remove_directory(directory, PATIENCE))
    }

    /// Removes the directories that hold our groups, where they are empty: the service stops. Groups can be made again after
    /// this only by another manager.
    pub fn retire(&self) {
        let directories: BTreeSet<&PathBuf> = self.legacy.values().chain(&self.unified).collect();
        for directory in directories {
            // One that still holds a group is found again by the next start.
            let _ = fs::remove_dir(directory);
        }
    }

    /// What the group has used.
    ///
    /// # Errors
    /// When `name` is no name. What cannot be read is `None`.
    pub fn stats(&self, name: &str) -> Result<CgroupStats, CgroupError> {
        check_name(name)?;
        let mut stats = CgroupStats::default();
        for controller in Controller::ALL {
            let version = self.version_of(controller);
            let base = match version {
                Some(Version::Unified) => self.unified.as_ref(),
                Some(Version::Legacy) => self.legacy.get(&controller),
                None => None,
            };
            if let (Some(version), Some(base)) = (version, base) {
                controller.read(version, &base.join(name), &mut stats);
            }
        }
        Ok(stats)
    }

    /// Names of all groups there are, for finding what an earlier service left.
    pub fn list(&self) -> Vec<String> {
        let bases: BTreeSet<&PathBuf> = self.unified.iter().chain(self.legacy.values()).collect();
        let mut names = BTreeSet::new();
        for base in bases {
            let entries = fs::read_dir(base).into_iter().flatten().flatten();
            names.extend(
                entries
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .filter_map(|entry| entry.file_name().into_string().ok()),
            );
        }
        names.into_iter().collect()
    }

    fn directories(&self, name: &str) -> BTreeSet<PathBuf> {
        self.unified.iter().chain(self.legacy.values()).map(|base| base.join(name)).collect()
    }
}

fn check_name(name: &str) -> Result<(), CgroupError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(CgroupError::Name(name.to_string()));
    }
    Ok(())
}

pub(super) fn make_directory(path: &Path) -> Result<(), CgroupError> {
    match DirBuilder::new().create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(CgroupError::Io { action: "make", path: path.to_path_buf(), source: error })
        }
        _ => Ok(()),
    }
}
