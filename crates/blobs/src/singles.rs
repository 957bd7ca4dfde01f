//! Blobs in files of their own: the large ones, and small ones from before there were packs.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use stead_domain::{BlobId, ports::StoredBlob};

/// Where a blob lies in the directory of its workspace.
pub(crate) fn path(directory: &Path, id: BlobId) -> PathBuf {
    let text = id.to_string();
    let (shard, name) = text.split_at(2);
    directory.join(shard).join(name)
}

/// Opens a blob's file. Something else in its place is none.
pub(crate) fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    // Without waiting for the other end, should it be a pipe.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) => {
            let none = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO];
            let is_none = none.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
            return if is_none { Ok(None) } else { Err(error) };
        }
    };
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some((file, metadata)))
}

/// Puts a file in the place of a blob's that is of no use. A directory there is moved aside.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_ok_and(|there| there.is_dir()) {
        let aside = (0..u32::MAX).map(|number| to.with_extension(format!("aside-{number}")));
        if let Some(free) = aside.into_iter().find(|path| fs::symlink_metadata(path).is_err()) {
            tracing::error!(path = %to.display(), "a directory lies in the place of a blob and is moved aside");
            fs::rename(to, free)?;
        }
    }
    fs::rename(from, to)
}

/// The directories that hold them; none when the workspace has no directory.
pub(crate) fn shards(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut shards = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().len() == 2 {
            shards.push(entry.path());
        }
    }
    Ok(shards)
}

/// All of them.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<StoredBlob>> {
    let mut list = Vec::new();
    for shard in shards(directory)? {
        let prefix = shard.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let entries = match fs::read_dir(&shard) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(id) = name.to_str().and_then(|rest| format!("{prefix}{rest}").parse().ok()) {
                match entry.metadata() {
                    // Removed while this runs.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Ok(metadata) if !metadata.is_file() => {}
                    metadata => list.push(StoredBlob { id, bytes: metadata?.len() }),
                }
            }
        }
    }
    Ok(list)
}

/// Gives a complete file its final name, making the directory; an error of kind `AlreadyExists` when there is one.
pub(crate) fn rename_to(from: &Path, to: &Path) -> io::Result<()> {
    match (rename_without_replacing(from, to), to.parent()) {
        (Err(error), Some(shard)) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(shard)?;
            rename_without_replacing(from, to)
        }
        (renamed, _) => renamed,
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

pub(crate) fn id_of(hasher: &blake3::Hasher) -> BlobId {
    BlobId::from_bytes(*hasher.finalize().as_bytes())
}

pub(crate) fn hash_reader(reader: &mut impl Read) -> io::Result<StoredBlob> {
    let mut hasher = blake3::Hasher::new();
    let bytes = io::copy(reader, &mut hasher)?;
    Ok(StoredBlob { id: id_of(&hasher), bytes })
}
