//! Slots: ranges of host user ids and names, leased on disk.
//!
//! A lease outlives the server process and its database; it ends when the last file of its user is gone or taken back. One workspace
//! cannot lease all of them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use stead_domain::ports::ProviderError;
use stead_domain::{EnvironmentId, WorkspaceId};

/// Who has a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    /// The tenant it counts for. Leases of earlier versions do not say; they count for nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<WorkspaceId>,
    #[serde(flatten)]
    pub(crate) holder: Holder,
}

/// What a slot is leased to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Holder {
    /// An environment, until its files are deleted.
    Environment {
        /// Which one.
        environment: EnvironmentId,
    },
    /// A build step, until its directories are taken back.
    Build {
        /// Directories that the slot's user owns meanwhile.
        directories: Vec<PathBuf>,
    },
}

/// What came of asking for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leased {
    /// It is the asker's.
    Slot(u32),
    /// All of them are leased.
    Full,
    /// The workspace has as many as it may have.
    WorkspaceFull,
}

impl Leased {
    /// The slot, or why there is none. Both refusals pass.
    pub(crate) fn slot(self) -> Result<u32, ProviderError> {
        match self {
            Self::Slot(slot) => Ok(slot),
            Self::Full => {
                let message = "this machine holds as many environments and build steps as it has slots for";
                Err(ProviderError::passing("native_full", message))
            }
            Self::WorkspaceFull => {
                let message = "the workspace holds as many environments and build steps as one workspace may have on this \
                               machine (native.workspace_slots); sessions that are deleted make room";
                Err(ProviderError::passing("workspace_full", message))
            }
        }
    }
}

/// The leases of one service.
#[derive(Debug)]
pub(crate) struct Slots {
    directory: PathBuf,
    count: u32,
    /// The most that one workspace may have.
    each: u32,
    /// Whose the slots are, as last read. The files are the truth; this spares reading them all for each lease, and one lease
    /// at a time is counted under its lock.
    workspaces: Mutex<BTreeMap<u32, Option<WorkspaceId>>>,
}

impl Slots {
    /// Opens the directory of leases, making it when it is missing. One workspace gets at most `each` of `count` slots.
    pub(crate) fn open(directory: PathBuf, count: u32, each: u32) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Self { directory, count, each, workspaces: Mutex::default() })
    }

    /// Whether a directory holds any lease.
    pub(crate) fn any(directory: &Path) -> io::Result<bool> {
        match numbers(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            outcome => Ok(!outcome?.is_empty()),
        }
    }

    /// All leases in a directory; none when there is no such directory.
    pub(crate) fn read_all(directory: &Path) -> io::Result<Vec<(u32, Option<Lease>)>> {
        if !directory.exists() {
            return Ok(Vec::new());
        }
        Self { directory: directory.to_owned(), count: 0, each: 0, workspaces: Mutex::default() }.list()
    }

    /// Removes what an earlier process was about to give the name of a slot. Nobody else may be at it.
    pub(crate) fn remove_unfinished(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Leases the lowest free slot.
    pub(crate) fn lease(&self, lease: &Lease) -> io::Result<Leased> {
        let mut workspaces = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        self.look(&mut workspaces)?;
        let free: Vec<u32> = (0..self.count).filter(|slot| !workspaces.contains_key(slot)).collect();
        let held = |workspace| workspaces.values().filter(|found| **found == Some(workspace)).count();
        if !free.is_empty() && lease.workspace.is_some_and(|workspace| held(workspace) >= self.each as usize) {
            return Ok(Leased::WorkspaceFull);
        }
        for slot in free {
            if self.put(slot, lease)? {
                workspaces.insert(slot, lease.workspace);
                return Ok(Leased::Slot(slot));
            }
        }
        Ok(Leased::Full)
    }

    /// Makes sure that a slot is leased; answers whether this holds now for exactly this holder.
    pub(crate) fn ensure(&self, slot: u32, lease: &Lease) -> io::Result<bool> {
        if self.put(slot, lease)? {
            return Ok(true);
        }
        let Some(found) = self.read(slot)?.filter(|found| found.holder == lease.holder) else { return Ok(false) };
        if found.workspace.is_none() && lease.workspace.is_some() {
            fs::rename(self.write(lease)?, self.directory.join(slot.to_string()))?;
            self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, lease.workspace);
        }
        Ok(true)
    }

    /// Ends a lease; one that does not exist is no error.
    pub(crate) fn release(&self, slot: u32) -> io::Result<()> {
        match fs::remove_file(self.directory.join(slot.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).remove(&slot);
        Ok(())
    }

    /// All leases. One that cannot be read has no owner and is nobody's to release.
    pub(crate) fn list(&self) -> io::Result<Vec<(u32, Option<Lease>)>> {
        numbers(&self.directory)?.into_iter().map(|slot| Ok((slot, self.read(slot)?))).collect()
    }

    /// Brings what is known in line with the files.
    fn look(&self, known: &mut BTreeMap<u32, Option<WorkspaceId>>) -> io::Result<()> {
        let before = std::mem::take(known);
        for slot in numbers(&self.directory)? {
            let workspace = match before.get(&slot) {
                Some(workspace) => *workspace,
                None => self.read(slot)?.and_then(|lease| lease.workspace),
            };
            known.insert(slot, workspace);
        }
        Ok(())
    }

    fn read(&self, slot: u32) -> io::Result<Option<Lease>> {
        match fs::read(self.directory.join(slot.to_string())) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a whole file the slot's name, which fails when another has it.
    fn put(&self, slot: u32, lease: &Lease) -> io::Result<bool> {
        let temporary = self.write(lease)?;
        let linked = fs::hard_link(&temporary, self.directory.join(slot.to_string()));
        fs::remove_file(&temporary)?;
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a file under a name of its own.
    fn write(&self, lease: &Lease) -> io::Result<PathBuf> {
        let temporary = self.directory.join(format!(".{:016x}", rand::random::<u64>()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        if let Err(error) = file.write_all(&serde_json::to_vec(lease)?) {
            // There is a name for it even where there is no room for its contents.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        Ok(temporary)
    }
}

fn numbers(directory: &Path) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(directory)?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ENVIRONMENT: &str = "env_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00";

    fn lease_of(workspace: u8, holder: Holder) -> Lease {
        let id = format!("{}_018f3c2a7b4c7d3e9f6a5b4c3d2e1f{workspace:02x}", WorkspaceId::PREFIX);
        Lease { workspace: Some(id.parse().unwrap()), holder }
    }

    fn build(workspace: u8) -> Lease {
        lease_of(workspace, Holder::Build { directories: vec!["/somewhere".into()] })
    }

    #[test]
    fn no_slot_is_leased_twice() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Slots::open(folder.path().join("slots"), 40, 40).unwrap();
        let (one, two) = (open(), open());
        let build = build(1);
        let slot = |leased| match leased {
            Leased::Slot(slot) => slot,
            other => panic!("{other:?}"),
        };
        let taken: Vec<u32> = std::thread::scope(|scope| {
            let build = &build;
            let take = move |slots: &Slots| (0..20).map(|_| slot(slots.lease(build).unwrap())).collect::<Vec<_>>();
            let threads = [&one, &two].map(|slots| scope.spawn(move || take(slots)));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().copied().collect::<BTreeSet<_>>(), (0..40).collect());
        let environment = ENVIRONMENT.parse().unwrap();
        let lease = lease_of(2, Holder::Environment { environment });
        assert_eq!(one.lease(&lease).unwrap(), Leased::Full);
        two.release(7).unwrap();
        two.release(7).unwrap();
        assert_eq!(open().lease(&lease).unwrap(), Leased::Slot(7));
        assert!(one.ensure(7, &lease).unwrap() && !one.ensure(7, &build).unwrap());
        assert_eq!(one.list().unwrap().iter().filter(|(_, found)| found.as_ref() == Some(&build)).count(), 39);
    }

    #[test]
    fn one_workspace_has_a_share_and_leases_of_earlier_versions_count_for_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("slots");
        let slots = Slots::open(directory.clone(), 4, 2).unwrap();
        fs::write(directory.join("0"), format!("{{\"kind\":\"environment\",\"environment\":\"{ENVIRONMENT}\"}}"))
            .unwrap();
        let lease = |number| slots.lease(&build(number)).unwrap();
        assert_eq!([lease(1), lease(1), lease(1)], [Leased::Slot(1), Leased::Slot(2), Leased::WorkspaceFull]);
        assert_eq!(Leased::WorkspaceFull.slot().map_err(|error| (error.code, error.permanent)), {
            Err(("workspace_full".to_owned(), false))
        });
        assert_eq!([lease(2), lease(2)], [Leased::Slot(3), Leased::Full], "another one has its own share");
        slots.release(2).unwrap();
        // The record says whose it was.
        let old = Holder::Environment { environment: ENVIRONMENT.parse().unwrap() };
        assert!(slots.ensure(0, &lease_of(1, old)).unwrap());
        slots.release(3).unwrap();
        assert_eq!(lease(1), Leased::WorkspaceFull);
        assert_eq!(Slots::open(directory.clone(), 4, 2).unwrap().lease(&build(1)).unwrap(), { Leased::WorkspaceFull });
        assert!(Slots::any(&directory).unwrap() && !Slots::any(&folder.path().join("none")).unwrap());
    }
}
