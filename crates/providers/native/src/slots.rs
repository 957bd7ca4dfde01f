//! Slots: ranges of host user ids and names, leased on disk.
//!
//! A lease outlives the server process and its database; it ends when the last file of its user is gone or taken back.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stead_domain::EnvironmentId;

/// Who has a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Lease {
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

/// The leases of one service.
#[derive(Debug)]
pub(crate) struct Slots {
    directory: PathBuf,
    count: u32,
}

impl Slots {
    /// Opens the directory of leases, making it when it is missing.
    pub(crate) fn open(directory: PathBuf, count: u32) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Self { directory, count })
    }

    /// Leases the lowest free slot; `None` when all are leased.
    pub(crate) fn lease(&self, lease: &Lease) -> io::Result<Option<u32>> {
        let taken: BTreeSet<u32> = self.numbers()?.into_iter().collect();
        for slot in (0..self.count).filter(|slot| !taken.contains(slot)) {
            if self.put(slot, lease)? {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Makes sure that a slot is leased; answers whether this holds now for exactly this lease.
    pub(crate) fn ensure(&self, slot: u32, lease: &Lease) -> io::Result<bool> {
        Ok(self.put(slot, lease)? || self.read(slot)?.as_ref() == Some(lease))
    }

    /// Ends a lease; one that does not exist is no error.
    pub(crate) fn release(&self, slot: u32) -> io::Result<()> {
        match fs::remove_file(self.directory.join(slot.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// All leases. One that cannot be read has no owner and is nobody's to release.
    pub(crate) fn list(&self) -> io::Result<Vec<(u32, Option<Lease>)>> {
        self.numbers()?.into_iter().map(|slot| Ok((slot, self.read(slot)?))).collect()
    }

    fn read(&self, slot: u32) -> io::Result<Option<Lease>> {
        match fs::read(self.directory.join(slot.to_string())) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn numbers(&self) -> io::Result<Vec<u32>> {
        let entries = fs::read_dir(&self.directory)?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }

    /// Gives a whole file the slot's name, which fails when another has it.
    fn put(&self, slot: u32, lease: &Lease) -> io::Result<bool> {
        let temporary = self.directory.join(format!(".{:016x}", rand::random::<u64>()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(lease)?)?;
        let linked = fs::hard_link(&temporary, self.directory.join(slot.to_string()));
        fs::remove_file(&temporary)?;
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_slot_is_leased_twice() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Slots::open(folder.path().join("slots"), 40).unwrap();
        let (one, two) = (open(), open());
        let build = Lease::Build { directories: vec!["/somewhere".into()] };
        let taken: Vec<u32> = std::thread::scope(|scope| {
            let build = &build;
            let take = move |slots: &Slots| (0..20).map(|_| slots.lease(build).unwrap().unwrap()).collect::<Vec<_>>();
            let threads = [&one, &two].map(|slots| scope.spawn(move || take(slots)));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().copied().collect::<BTreeSet<_>>(), (0..40).collect());
        assert_eq!(one.lease(&build).unwrap(), None);
        two.release(7).unwrap();
        two.release(7).unwrap();
        let environment = "env_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap();
        let lease = Lease::Environment { environment };
        assert_eq!(open().lease(&lease).unwrap(), Some(7));
        assert!(one.ensure(7, &lease).unwrap() && !one.ensure(7, &build).unwrap());
        assert_eq!(one.list().unwrap().iter().filter(|(_, found)| found.as_ref() == Some(&build)).count(), 39);
    }
}
