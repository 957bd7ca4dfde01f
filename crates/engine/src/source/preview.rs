//! Whether the files of an archive fit the workspace's quota, found out before any of them is stored: what a refused import had
//! stored would count until it is collected, and keep everything else out. Costs a second reading of the archive, where
//! there is a quota.

use std::collections::HashSet;
use std::io;

use stead_bundles::archive::Sink;
use stead_bundles::path::BundlePath;
use stead_domain::BlobId;

use crate::quotas::BlobRoom;

/// Takes files and keeps nothing of them. Blocking.
pub(super) struct Preview {
    room: BlobRoom,
    seen: HashSet<BlobId>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Preview {
    pub(super) fn new(room: BlobRoom) -> Self {
        Self { room, seen: HashSet::new(), hasher: blake3::Hasher::new(), bytes: 0 }
    }
}

impl Sink for Preview {
    fn directory(&mut self, _: &BundlePath) -> io::Result<()> {
        Ok(())
    }

    fn file(&mut self, _: &BundlePath, _: bool, _: u64) -> io::Result<()> {
        self.hasher.reset();
        self.bytes = 0;
        Ok(())
    }

    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn file_end(&mut self) -> io::Result<()> {
        let id = BlobId::from_bytes(*self.hasher.finalize().as_bytes());
        if self.seen.insert(id) {
            self.room.expect(id, self.bytes).map_err(io::Error::other)?;
        }
        Ok(())
    }
}
