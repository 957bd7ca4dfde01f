//! Blobs in a local directory.
//!
//! ```text
//! <root>/incoming/<n>                      being written; emptied at start
//! <root>/<workspace>/<2 hex>/<62 hex>      a blob, read-only, named by the hash of its bytes
//! ```
//!
//! A put writes to `incoming` and gives the file its name only when it is complete, never over a file that is good.
//! Nothing is flushed before [`Blobs::sync`]. One process at a time uses a directory.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use stead_domain::{
    BlobId, WorkspaceId,
    ports::{BlobError, BlobFile, Blobs, PortFuture, StoredBlob},
};

use crate::{barrier::Barrier, known::Known};

const INCOMING: &str = "incoming";
const BUFFER_BYTES: usize = 128 * 1024;

/// The local implementation of [`Blobs`]. Clones share everything.
#[derive(Debug, Clone)]
pub struct LocalBlobs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    incoming: PathBuf,
    next_incoming: AtomicU64,
    known: Known,
    barrier: Arc<Barrier>,
}

/// A file in `incoming`, removed unless it got its final name.
struct Incoming {
    path: PathBuf,
    file: File,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Already renamed, or litter that the next start removes.
        let _ = fs::remove_file(&self.path);
    }
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> BlobError {
    move |source| BlobError::Io { action, source }
}

impl LocalBlobs {
    /// Opens or makes the directory and removes what an earlier process left half written; blocking.
    pub fn open(root: &Path) -> Result<Self, BlobError> {
        let incoming = root.join(INCOMING);
        fs::create_dir_all(&incoming).map_err(failed("make the directory"))?;
        fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(failed("protect the directory"))?;
        for entry in fs::read_dir(&incoming).map_err(failed("list unfinished blobs"))? {
            let entry = entry.map_err(failed("list unfinished blobs"))?;
            fs::remove_file(entry.path()).map_err(failed("remove an unfinished blob"))?;
        }
        let barrier = Arc::new(Barrier::new(root).map_err(failed("open the directory"))?);
        let shared = Shared {
            root: root.to_owned(),
            incoming,
            next_incoming: AtomicU64::new(0),
            known: Known::default(),
            barrier,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Runs blocking work on a clone of the store.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, BlobError> + Send + 'static,
    ) -> PortFuture<'_, Result<T, BlobError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let joined = tokio::task::spawn_blocking(move || work(&shared)).await;
            joined.map_err(|error| failed("finish its work")(io::Error::other(error)))?
        })
    }
}

impl Blobs for LocalBlobs {
    fn put(&self, workspace: WorkspaceId, bytes: Vec<u8>) -> PortFuture<'_, Result<StoredBlob, BlobError>> {
        self.blocking(move |shared| shared.put_bytes(workspace, &bytes))
    }

    fn put_blocking(&self, workspace: WorkspaceId, reader: &mut dyn Read) -> Result<StoredBlob, BlobError> {
        self.shared.put_stream(workspace, reader)
    }

    fn adopt_blocking(&self, workspace: WorkspaceId, file: PathBuf) -> Result<StoredBlob, BlobError> {
        self.shared.adopt(workspace, &file)
    }

    fn open_blocking(&self, workspace: WorkspaceId, id: BlobId) -> Result<BlobFile, BlobError> {
        self.shared.open(workspace, id)
    }

    fn read(&self, workspace: WorkspaceId, id: BlobId) -> PortFuture<'_, Result<Vec<u8>, BlobError>> {
        self.blocking(move |shared| {
            let mut bytes = Vec::new();
            shared.open_unchecked(workspace, id)?.read_to_end(&mut bytes).map_err(failed("read"))?;
            if hash(&bytes) != id {
                return Err(BlobError::Damaged(id));
            }
            shared.known.insert(workspace, id, bytes.len() as u64);
            Ok(bytes)
        })
    }

    fn open(&self, workspace: WorkspaceId, id: BlobId) -> PortFuture<'_, Result<BlobFile, BlobError>> {
        self.blocking(move |shared| shared.open(workspace, id))
    }

    fn sync(&self) -> PortFuture<'_, Result<(), BlobError>> {
        Box::pin(async move { self.shared.barrier.wait().await.map_err(failed("make blobs durable")) })
    }
}

impl Shared {
    fn path(&self, workspace: WorkspaceId, id: BlobId) -> PathBuf {
        let text = id.to_string();
        let (shard, name) = text.split_at(2);
        self.root.join(workspace.to_string()).join(shard).join(name)
    }

    fn put_bytes(&self, workspace: WorkspaceId, bytes: &[u8]) -> Result<StoredBlob, BlobError> {
        let stored = StoredBlob { id: hash(bytes), bytes: bytes.len() as u64 };
        if self.is_good(workspace, stored)? {
            return Ok(stored);
        }
        let mut incoming = self.incoming()?;
        incoming.file.write_all(bytes).map_err(failed("write"))?;
        self.place(workspace, stored, &incoming.path)?;
        Ok(stored)
    }

    fn put_stream(&self, workspace: WorkspaceId, reader: &mut dyn Read) -> Result<StoredBlob, BlobError> {
        let mut incoming = self.incoming()?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut bytes = 0;
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
        if !self.is_good(workspace, stored)? {
            self.place(workspace, stored, &incoming.path)?;
        }
        Ok(stored)
    }

    /// Takes a file over by renaming it, unless somebody else could still change it or it lies on another file system.
    fn adopt(&self, workspace: WorkspaceId, path: &Path) -> Result<StoredBlob, BlobError> {
        let open = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path);
        let mut file = open.map_err(failed("open the file to take over"))?;
        let metadata = file.metadata().map_err(failed("inspect the file to take over"))?;
        if !metadata.is_file() {
            return Err(failed("take a file over")(io::Error::other("it is not a regular file")));
        }
        let ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.nlink() == 1;
        let stored = if ours {
            let (id, bytes) = hash_reader(&mut file).map_err(failed("read the file to take over"))?;
            let stored = StoredBlob { id, bytes };
            if !self.is_good(workspace, stored)? {
                match self.place(workspace, stored, path) {
                    Err(BlobError::Io { source, .. }) if source.kind() == io::ErrorKind::CrossesDevices => {
                        file.rewind().map_err(failed("read the file to take over"))?;
                        self.put_stream(workspace, &mut file)?;
                    }
                    placed => placed?,
                }
            }
            stored
        } else {
            self.put_stream(workspace, &mut file)?
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

    /// Whether the blob is there and whole. One that is there and damaged counts as absent, so that a put repairs it.
    fn is_good(&self, workspace: WorkspaceId, wanted: StoredBlob) -> Result<bool, BlobError> {
        match self.open(workspace, wanted.id) {
            Ok(_) => Ok(true),
            Err(BlobError::Missing(_) | BlobError::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives a complete file its final name.
    fn place(&self, workspace: WorkspaceId, stored: StoredBlob, from: &Path) -> Result<(), BlobError> {
        fs::set_permissions(from, Permissions::from_mode(0o400)).map_err(failed("protect a blob"))?;
        let path = self.path(workspace, stored.id);
        let placing = self.barrier.place();
        let mut renamed = rename_without_replacing(from, &path);
        if matches!(&renamed, Err(error) if error.kind() == io::ErrorKind::NotFound)
            && let Some(shard) = path.parent()
        {
            fs::create_dir_all(shard).map_err(failed("make a directory for blobs"))?;
            renamed = rename_without_replacing(from, &path);
        }
        match renamed {
            // Another put was faster, or the file there is damaged. A good one is never replaced: it may be durable.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !self.is_good(workspace, stored)? {
                    tracing::warn!(blob.id = %stored.id, "a damaged blob is replaced");
                    fs::rename(from, &path).map_err(failed("replace a damaged blob"))?;
                }
            }
            other => other.map_err(failed("name a blob"))?,
        }
        placing.note(path);
        self.known.insert(workspace, stored.id, stored.bytes);
        Ok(())
    }

    fn open_unchecked(&self, workspace: WorkspaceId, id: BlobId) -> Result<File, BlobError> {
        match File::open(self.path(workspace, id)) {
            Ok(file) => Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(BlobError::Missing(id)),
            Err(error) => Err(failed("open")(error)),
        }
    }

    fn open(&self, workspace: WorkspaceId, id: BlobId) -> Result<BlobFile, BlobError> {
        let mut file = self.open_unchecked(workspace, id)?;
        let length = file.metadata().map_err(failed("inspect"))?.len();
        if !self.known.contains(workspace, id, length) {
            let (found, bytes) = hash_reader(&mut file).map_err(failed("check"))?;
            if found != id {
                return Err(BlobError::Damaged(id));
            }
            self.known.insert(workspace, id, bytes);
        }
        Ok(BlobFile::from_file(file, 0, length))
    }
}

fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not know the flag; a link cannot replace either.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        renamed => renamed.map_err(io::Error::from),
    }
}

fn hash(bytes: &[u8]) -> BlobId {
    BlobId::from_bytes(*blake3::hash(bytes).as_bytes())
}

fn id_of(hasher: &blake3::Hasher) -> BlobId {
    BlobId::from_bytes(*hasher.finalize().as_bytes())
}

fn hash_reader(reader: &mut impl Read) -> io::Result<(BlobId, u64)> {
    let mut hasher = blake3::Hasher::new();
    let bytes = io::copy(reader, &mut hasher)?;
    Ok((id_of(&hasher), bytes))
}
