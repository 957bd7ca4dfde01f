//! Putting and opening: small blobs go into packs, large ones into files of their own.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use rustix::fs::OFlags;
use stead_domain::{
    BlobId,
    ports::{BlobError, BlobFile, StoredBlob},
};

use crate::{
    known::Stamp,
    local::{Shared, failed},
    packs,
    singles::{self, hash_reader, id_of},
    tenant::{State, Tenant},
};

/// The length up to which a blob goes into a pack. Such a one is read whole when it is opened.
const SMALL: usize = 64 << 10;
/// The length up to which a blob is read before it is written, so that one that is there already is not written at all.
const IN_MEMORY: usize = 1 << 20;
const BUFFER_BYTES: usize = 128 << 10;

/// A file in `incoming`, removed unless it got its final name.
struct Incoming {
    path: PathBuf,
    file: File,
}

/// Counts a blob that was not there before.
fn count(stored: StoredBlob) {
    metrics::counter!("stead_blob_stored_bytes_total").increment(stored.bytes);
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Already renamed, or litter that the next start removes.
        let _ = fs::remove_file(&self.path);
    }
}

/// Tells what is gone for good, which trying again does not bring back, from a store that does not answer.
fn lost_or_failed(action: &'static str, id: BlobId) -> impl FnOnce(io::Error) -> BlobError {
    move |error| {
        let is_lost = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory)
            || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        if !is_lost {
            return failed(action)(error);
        }
        tracing::error!(blob.id = %id, error.message = %error, "a blob cannot be read");
        BlobError::Damaged(id)
    }
}

impl Shared {
    pub(crate) fn put_stream(&self, tenant: &Tenant, reader: &mut dyn Read) -> Result<StoredBlob, BlobError> {
        let mut head = Vec::new();
        let taken = Read::take(&mut *reader, IN_MEMORY as u64 + 1).read_to_end(&mut head);
        taken.map_err(failed("read what is to be stored"))?;
        if head.len() <= IN_MEMORY {
            return self.put_bytes(tenant, &head);
        }
        let mut incoming = self.incoming()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&head);
        incoming.file.write_all(&head).map_err(failed("write"))?;
        let mut bytes = head.len() as u64;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed("read what is to be stored")(error)),
            };
            hasher.update(&buffer[..count]);
            incoming.file.write_all(&buffer[..count]).map_err(failed("write"))?;
            bytes += count as u64;
        }
        let stored = StoredBlob { id: id_of(&hasher), bytes };
        self.put_file(tenant, stored, &incoming.path)?;
        Ok(stored)
    }

    pub(crate) fn put_bytes(&self, tenant: &Tenant, bytes: &[u8]) -> Result<StoredBlob, BlobError> {
        let stored = StoredBlob { id: packs::hash(bytes), bytes: bytes.len() as u64 };
        if bytes.len() <= SMALL {
            return self.put_small(tenant, stored, bytes);
        }
        tenant.lock().marks.remove(&stored.id);
        if !self.is_good_single(tenant, stored.id)? {
            let mut incoming = self.incoming()?;
            incoming.file.write_all(bytes).map_err(failed("write"))?;
            self.put_file(tenant, stored, &incoming.path)?;
        }
        Ok(stored)
    }

    fn put_small(&self, tenant: &Tenant, stored: StoredBlob, bytes: &[u8]) -> Result<StoredBlob, BlobError> {
        let mut state = tenant.lock();
        state.marks.remove(&stored.id);
        state.flush_failed(self.barrier.failed());
        if state.packs.is_good(stored.id) {
            return Ok(stored);
        }
        if state.has_singles {
            match self.open_single(tenant, stored.id) {
                Ok(_) => return Ok(stored),
                Err(BlobError::Missing(_)) => {}
                Err(BlobError::Damaged(_)) => {
                    tracing::warn!(blob.id = %stored.id, "a damaged blob is replaced");
                    let removed = fs::remove_file(singles::path(&tenant.directory, stored.id));
                    removed.map_err(failed("replace a damaged blob"))?;
                    state.singles = None;
                }
                Err(error) => return Err(error),
            }
        }
        let written = state.packs.append(stored.id, bytes).map_err(failed("write"))?;
        self.barrier.note_pack(written);
        count(stored);
        Ok(stored)
    }

    /// Takes a file over by renaming it, unless it is small, somebody else could still change it or it lies on another file
    /// system.
    pub(crate) fn adopt(&self, tenant: &Tenant, path: &Path) -> Result<StoredBlob, BlobError> {
        let open = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path);
        let mut file = open.map_err(failed("open the file to take over"))?;
        let metadata = file.metadata().map_err(failed("inspect the file to take over"))?;
        if !metadata.is_file() {
            return Err(failed("take a file over")(io::Error::other("it is not a regular file")));
        }
        let ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.nlink() == 1;
        let stored = if ours && metadata.len() > SMALL as u64 {
            let stored = hash_reader(&mut file).map_err(failed("read the file to take over"))?;
            match self.put_file(tenant, stored, path) {
                Err(BlobError::Io { source, .. }) if source.kind() == io::ErrorKind::CrossesDevices => {
                    file.rewind().map_err(failed("read the file to take over"))?;
                    self.put_stream(tenant, &mut file)?
                }
                placed => placed.map(|()| stored)?,
            }
        } else {
            self.put_stream(tenant, &mut file)?
        };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove the file taken over")(error)),
            _ => Ok(stored),
        }
    }

    fn incoming(&self) -> Result<Incoming, BlobError> {
        let number = self.next_incoming.fetch_add(1, Ordering::Relaxed);
        let path = self.incoming.join(number.to_string());
        let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        Ok(Incoming { file: open.map_err(failed("begin a blob"))?, path })
    }

    /// Makes a complete file a blob unless there is a good one already.
    fn put_file(&self, tenant: &Tenant, stored: StoredBlob, from: &Path) -> Result<(), BlobError> {
        tenant.lock().marks.remove(&stored.id);
        if self.is_good_single(tenant, stored.id)? {
            return Ok(());
        }
        fs::set_permissions(from, Permissions::from_mode(0o400)).map_err(failed("protect a blob"))?;
        let path = singles::path(&tenant.directory, stored.id);
        let placing = self.barrier.place();
        self.place(tenant, &mut tenant.lock(), stored, from, &path)?;
        // What stands there now, whoever was faster: it was named just now or compared.
        if let Some((_, metadata)) = singles::open(&path).map_err(failed("inspect"))? {
            self.known.placed(tenant.id, stored.id, Stamp::of(&metadata));
        }
        placing.note(path);
        Ok(())
    }

    fn place(
        &self,
        tenant: &Tenant,
        state: &mut State,
        stored: StoredBlob,
        from: &Path,
        path: &Path,
    ) -> Result<(), BlobError> {
        match singles::rename_to(from, path) {
            // Another put was faster, or the file there is damaged. A good one is never replaced: it may be durable.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !self.is_good_single(tenant, stored.id)? {
                    tracing::warn!(blob.id = %stored.id, "a damaged blob is replaced");
                    singles::replace(from, path).map_err(failed("replace a damaged blob"))?;
                    state.singles = None;
                }
                Ok(())
            }
            renamed => {
                renamed.map_err(failed("name a blob"))?;
                state.single_added(stored.bytes);
                count(stored);
                Ok(())
            }
        }
    }

    /// Whether the blob is there and whole. One that is there and damaged, or may be, counts as absent, so that a put repairs it.
    fn is_good_single(&self, tenant: &Tenant, id: BlobId) -> Result<bool, BlobError> {
        if self.known.is_suspect(tenant.id, id, self.barrier.failed()) {
            return Ok(false);
        }
        match self.open_single(tenant, id) {
            Ok(_) => Ok(true),
            Err(BlobError::Missing(_) | BlobError::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn open_single(&self, tenant: &Tenant, id: BlobId) -> Result<BlobFile, BlobError> {
        let opened = singles::open(&singles::path(&tenant.directory, id)).map_err(lost_or_failed("open", id))?;
        let (mut file, metadata) = opened.ok_or(BlobError::Missing(id))?;
        let stamp = Stamp::of(&metadata);
        if !self.known.contains(tenant.id, id, stamp) {
            let found = hash_reader(&mut file).map_err(lost_or_failed("check", id))?;
            if found.id != id {
                return Err(BlobError::Damaged(id));
            }
            // The stamp is from before the reading: what was written meanwhile has another.
            self.known.insert(tenant.id, id, stamp);
        }
        Ok(BlobFile::from_file(file, 0, metadata.len()))
    }

    pub(crate) fn open(&self, tenant: &Tenant, id: BlobId) -> Result<BlobFile, BlobError> {
        let packed = {
            let mut state = tenant.lock();
            state.marks.remove(&id);
            state.packs.find(id).map_err(lost_or_failed("open", id))?
        };
        let Some((file, slot)) = packed else { return self.open_single(tenant, id) };
        let bytes = packs::read(&file, id, slot).map_err(lost_or_failed("read", id))?;
        bytes.map(BlobFile::from_bytes).ok_or(BlobError::Damaged(id))
    }
}

#[cfg(test)]
mod tests {
    use stead_domain::ports::Blobs as _;

    use crate::LocalBlobs;

    #[tokio::test]
    async fn what_a_failed_flush_may_have_lost_is_written_anew() {
        let root = tempfile::tempdir().unwrap();
        let blobs = LocalBlobs::open(root.path()).unwrap();
        let workspace = "ws_0192f000000070008000000000000001".parse().unwrap();
        let contents = [vec![1; 100], vec![2; 100_000]];
        let pack = root.path().join(format!("{workspace}/packs/00000000.pack"));
        let mut ids = Vec::new();
        for content in &contents {
            ids.push(blobs.put(workspace, content.clone()).await.unwrap().id);
        }
        blobs.sync().await.unwrap();
        let large = super::singles::path(&root.path().join(workspace.to_string()), ids[1]);
        let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&large).unwrap());
        // A path below a file gives an error that is not "not found".
        blobs.barrier().place().note(pack.join("below"));
        assert!(blobs.sync().await.is_err());
        // The file is kept open, since its number might be used again.
        let (before, _open) = (inode(), std::fs::File::open(&large).unwrap());
        for (content, id) in contents.iter().zip(&ids) {
            assert_eq!(blobs.read(workspace, *id).await.unwrap(), *content, "it is served all the same");
            blobs.put(workspace, content.clone()).await.unwrap();
            assert_eq!(blobs.read(workspace, *id).await.unwrap(), *content);
        }
        assert!(pack.with_file_name("00000001.pack").exists());
        let after = inode();
        assert_ne!(before, after);
        // Once is enough.
        for content in contents {
            blobs.put(workspace, content).await.unwrap();
        }
        assert_eq!(inode(), after);
        assert_eq!(std::fs::metadata(pack.with_file_name("00000001.pack")).unwrap().len(), 148);
        blobs.sync().await.unwrap();
    }
}
