//! The data directory, which belongs to one server process at a time.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Where sessions' files are.
pub(super) const ENVIRONMENTS: &str = "environments";
/// What a first start puts among them before there is a database.
const BEFORE: [&str; 2] = ["slots", "place.json"];

/// The directory, locked until this is dropped. The kernel releases the lock when the process ends, however it ends.
///
/// There are two locks. The file's is the one that earlier versions know, and the file says who holds it; but a file can be
/// removed while a server runs, and the next one would lock another of that name. So the directory itself is locked as well.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    _lock: File,
    _own: File,
}

/// What came of claiming the directory.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is ours.
    Ours(DataDirectory),
    /// Another process, named by its number where that is known, has it.
    Held(String),
}

impl DataDirectory {
    /// Makes the directory unless it is there, closes it to everybody else, and locks it.
    pub(super) fn claim(path: &Path) -> anyhow::Result<Claim> {
        DirBuilder::new()
            .recursive(true)
            .mode(CLOSED)
            .create(path)
            .with_context(|| format!("failed to make the data directory {}", path.display()))?;
        close(path)?;
        let file = path.join("lock");
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&file)
            .with_context(|| format!("failed to open {}", file.display()))?;
        // Whoever started on it first owns what is in it, whoever has the directory now.
        let metadata = lock.metadata().with_context(|| format!("failed to look at {}", file.display()))?;
        ensure_own(path, &metadata)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            // Who holds it is a courtesy; that somebody does is what matters.
            let _ = Read::by_ref(&mut lock).take(32).read_to_string(&mut holder);
            return Ok(Claim::Held(holder.trim().to_owned()));
        }
        let own = File::open(path).with_context(|| format!("failed to open {}", path.display()))?;
        match flock(&own, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(Claim::Held(holder_of(&own))),
            // Some network file systems lock no directories; the file's lock holds there.
            Err(error) => tracing::debug!(%error, "the data directory itself cannot be locked"),
            Ok(()) => {}
        }
        lock.rewind().context("failed to write the lock file")?;
        // Written over what is there, which needs no room on a full disk, and cut to length then.
        let number = format!("{}\n", std::process::id());
        match lock.write_all(number.as_bytes()).and_then(|()| lock.set_len(number.len() as u64)) {
            Err(error) if error.kind() != ErrorKind::StorageFull => {
                return Err(error).context("failed to write the lock file");
            }
            _ => {}
        }
        Ok(Claim::Ours(Self { path: path.to_owned(), _lock: lock, _own: own }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// What a data directory is open to: its owner. What lies in it is mounted into sandboxes before they have users of their own.
const CLOSED: u32 = 0o700;

/// Sees to it that nobody else reads what is in the directory, or puts something into it.
fn close(path: &Path) -> anyhow::Result<()> {
    let metadata = std::fs::metadata(path).with_context(|| format!("failed to look at {}", path.display()))?;
    ensure_own(path, &metadata)?;
    let mode = metadata.mode() & 0o777;
    if mode & !CLOSED == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(CLOSED)).with_context(|| {
        format!("the data directory {} is open to others (mode {mode:03o}) and cannot be closed", path.display())
    })?;
    tracing::warn!("closed the data directory {} to everybody else; its mode was {mode:03o}", path.display());
    Ok(())
}

/// Root may open all that another user has, and would leave behind what its owner cannot.
fn ensure_own(path: &Path, metadata: &Metadata) -> anyhow::Result<()> {
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    ensure!(
        owner == user,
        "the data directory {} belongs to user {owner}, and this is user {user}: start the server as its owner",
        path.display()
    );
    Ok(())
}

/// Who has locked a file, as the kernel's list of locks says it: a number, or words for want of one.
fn holder_of(file: &File) -> String {
    let unknown = || "whose number is not known".to_owned();
    let (Ok(metadata), Ok(locks)) = (file.metadata(), std::fs::read_to_string("/proc/locks")) else { return unknown() };
    // `1: FLOCK  ADVISORY  WRITE 4711 08:01:5678 0 EOF`
    let inode = format!(":{}", metadata.ino());
    let holder = locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1) == Some(&"FLOCK") && words.get(5)?.ends_with(&inode);
        words.get(4).filter(|_| is_it).map(|&number| number.to_owned())
    });
    holder.unwrap_or_else(unknown)
}

/// Whether there are files of sessions.
pub(super) fn has_environments(data: &Path) -> bool {
    let is_one = |name: &OsStr| !BEFORE.iter().any(|before| name.as_encoded_bytes().starts_with(before.as_bytes()));
    std::fs::read_dir(data.join(ENVIRONMENTS))
        .is_ok_and(|entries| entries.flatten().any(|entry| is_one(&entry.file_name())))
}

/// Writes a small file that is either whole and durable or as it was, for its owner alone. Blocking.
pub(super) fn put(path: &Path, text: &str) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// What is left on the disk of a directory for any user, in bytes. Blocking.
pub(super) fn room(path: &Path) -> Option<u64> {
    rustix::fs::statvfs(path).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Writes something to the disk of the data directory and removes it: whether a server that starts there now could write down
/// what it must. Blocking.
pub(super) fn try_to_write(path: &Path) -> anyhow::Result<()> {
    let trial = path.join(TRIAL);
    let write = || {
        let mut file = File::create(&trial)?;
        file.write_all(&vec![b'.'; ROOM as usize])?;
        file.sync_all()
    };
    let written = write();
    // Whatever came of it; what is not there need not be removed.
    let _ = std::fs::remove_file(&trial);
    written.with_context(|| format!("failed to write in the data directory {}", path.display()))
}

/// What is written to find out whether something can be.
const TRIAL: &str = ".trial";
/// Less than this is no room.
const ROOM: u64 = 64 << 10;

/// Says of an error that the disk beneath the data directory is full, if it is: what fails first may be anything.
pub(super) fn say_if_full(error: anyhow::Error, path: &Path) -> anyhow::Error {
    if room(path).is_none_or(|left| left >= ROOM) {
        return error;
    }
    error.context(format!(
        "no room is left on the disk of the data directory {}; make some and start again",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_is_for_its_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("admin.key");
        for text in ["a longer secret\n", "secret\n"] {
            put(&path, text).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_has_one_holder_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let claimed = || DataDirectory::claim(&path).unwrap();
        let Claim::Ours(first) = claimed() else { panic!("nobody else has it") };
        let Claim::Held(holder) = claimed() else { panic!("it was claimed twice") };
        assert_eq!(holder, std::process::id().to_string());
        // A file can be removed.
        std::fs::remove_file(path.join("lock")).unwrap();
        let Claim::Held(holder) = claimed() else { panic!("it was claimed twice") };
        assert_eq!(holder, std::process::id().to_string());
        drop(first);
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode(), CLOSED);
        // One that was made by hand.
        for open in [0o755, 0o777, 0o701] {
            std::fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
            assert!(matches!(claimed(), Claim::Ours(_)));
            assert_eq!(mode(), CLOSED, "{open:o}");
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path.join("lock"), Some(54_321), None).unwrap();
            let refused = DataDirectory::claim(&path).unwrap_err().to_string();
            assert!(refused.contains("belongs to user 54321"), "{refused}");
            let others = root.path().join("others");
            std::fs::create_dir(&others).unwrap();
            std::os::unix::fs::chown(&others, Some(54_321), None).unwrap();
            let refused = DataDirectory::claim(&others).unwrap_err().to_string();
            assert!(refused.contains("belongs to user 54321"), "{refused}");
            assert_eq!(std::fs::read_dir(&others).unwrap().count(), 0);
        }
    }
}
