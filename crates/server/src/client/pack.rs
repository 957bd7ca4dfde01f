//! Packing a directory as a tar while it is sent.
//!
//! Everything lies beneath one wrapping directory, which an import strips: without it the import would strip a directory of
//! the project's own when that is the only thing at its root.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc;

use super::Failure;

pub(crate) const WRAPPER: &str = "project";
const PIECE: usize = 64 << 10;

/// Never packed: history, and dependencies that a build installs anew.
const LEFT_OUT: [&str; 3] = [".git", "node_modules", ".venv"];

/// A directory on its way.
pub(crate) struct Packed {
    /// The tar, piece by piece.
    pub(crate) pieces: mpsc::Receiver<io::Result<Bytes>>,
    /// Roughly how many bytes will come.
    pub(crate) estimate: u64,
    /// The directories that were left out, relative to the root.
    pub(crate) left_out: Vec<PathBuf>,
    /// What cannot be sent, relative to the root, and why.
    pub(crate) skipped: Vec<(PathBuf, &'static str)>,
    /// The largest file here and its size.
    pub(crate) largest: Option<(PathBuf, u64)>,
}

/// What a walk through the directory found.
#[derive(Default)]
struct Found {
    members: Vec<Member>,
    left_out: BTreeSet<PathBuf>,
    skipped: Vec<(PathBuf, &'static str)>,
}

struct Member {
    path: PathBuf,
    inside: PathBuf,
    metadata: Metadata,
}

/// Begins packing `root`, a directory or a single file, so that it lands at `inside` in the project (empty: the root).
pub(crate) fn pack(root: &Path, inside: &Path) -> Result<Packed, Failure> {
    let mut found = Found::default();
    let failed = |error: io::Error| Failure::io(format_args!("read {}", root.display()), &error);
    let metadata = std::fs::metadata(root).map_err(failed)?;
    let at = Path::new(WRAPPER).join(inside);
    if metadata.is_dir() {
        walk(root, root, &at, &mut found)?;
    } else {
        found.members.push(Member { path: root.to_owned(), inside: at, metadata });
    }
    let Found { members, left_out, skipped } = found;
    let estimate = members.iter().map(|member| 512 + member.metadata.len().next_multiple_of(512)).sum::<u64>() + 1536;
    let files = members.iter().filter(|member| member.metadata.is_file());
    let largest = files.max_by_key(|member| member.metadata.len());
    let largest = largest.map(|member| (member.path.clone(), member.metadata.len()));
    let (sender, pieces) = mpsc::channel(16);
    tokio::task::spawn_blocking(move || {
        let mut writer = Pieces { sender: sender.clone(), buffer: Vec::with_capacity(PIECE) };
        if let Err(error) = write(&members, &mut writer) {
            // The receiver is gone only when the request has ended; then nobody asks why packing stopped.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Ok(Packed { pieces, estimate, left_out: left_out.into_iter().collect(), skipped, largest })
}

fn walk(root: &Path, directory: &Path, inside: &Path, found: &mut Found) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io(format_args!("read {}", directory.display()), &error);
    let mut entries = std::fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let relative = || path.strip_prefix(root).unwrap_or(&path).to_owned();
        if LEFT_OUT.iter().any(|left| name == *left) {
            found.left_out.insert(relative());
            continue;
        }
        if name.to_str().is_none() {
            found.skipped.push((relative(), "its name is not UTF-8"));
            continue;
        }
        let metadata = entry.metadata().map_err(failed)?;
        let kind = metadata.file_type();
        if !(kind.is_dir() || kind.is_file() || kind.is_symlink()) {
            found.skipped.push((relative(), "it is a device, socket or pipe"));
            continue;
        }
        let inside = inside.join(&name);
        found.members.push(Member { path: path.clone(), inside: inside.clone(), metadata });
        if kind.is_dir() {
            walk(root, &path, &inside, found)?;
        }
    }
    Ok(())
}

fn write(members: &[Member], writer: &mut Pieces) -> io::Result<()> {
    let mut builder = Builder::new(&mut *writer);
    let mut wrapper = Header::new_gnu();
    wrapper.set_entry_type(EntryType::Directory);
    wrapper.set_mode(0o755);
    wrapper.set_size(0);
    builder.append_data(&mut wrapper, format!("{WRAPPER}/"), io::empty())?;
    for member in members {
        append(&mut builder, member)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", member.path.display())))?;
    }
    builder.finish()?;
    drop(builder);
    writer.send()
}

fn append(builder: &mut Builder<&mut Pieces>, member: &Member) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mtime(u64::try_from(member.metadata.mtime()).unwrap_or(0));
    header.set_size(0);
    let kind = member.metadata.file_type();
    if kind.is_dir() {
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o755);
        builder.append_data(&mut header, &member.inside, io::empty())
    } else if kind.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        builder.append_link(&mut header, &member.inside, std::fs::read_link(&member.path)?)
    } else if kind.is_file() {
        let file = File::open(&member.path)?;
        let size = member.metadata.len();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(if member.metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 });
        header.set_size(size);
        // The header promises a size: a file that changes meanwhile must not shift what follows.
        builder.append_data(&mut header, &member.inside, Exactly { file, left: size })
    } else {
        // Sockets, pipes and devices have no content to send, and were told apart before.
        Ok(())
    }
}

/// A file of exactly the size it had.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(io::Error::other("the file became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Pieces {
    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        self.sender.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[tokio::test]
    async fn a_directory_is_packed_beneath_one_wrapper_without_dependencies() {
        let root = tempfile::tempdir().unwrap();
        for directory in ["src/deep", "empty", ".git", "src/node_modules", ".venv"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let long = format!("src/{}.txt", "n".repeat(150));
        for (path, text) in
            [("src/run.sh", "#!/bin/sh\n"), (".git/HEAD", "x"), (long.as_str(), "long"), (".gitignore", "x")]
        {
            std::fs::write(root.path().join(path), text).unwrap();
        }
        let executable = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(root.path().join("src/run.sh"), executable).unwrap();
        std::os::unix::fs::symlink("run.sh", root.path().join("src/link")).unwrap();
        let socket = root.path().join("src/socket");
        let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let latin = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
        std::fs::write(root.path().join(latin), "x").unwrap();

        let mut packed = pack(root.path(), Path::new("")).unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = packed.pieces.recv().await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        let mut archive = tar::Archive::new(bytes.as_slice());
        let found: Vec<(String, u32)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap())
            })
            .collect();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let long = format!("project/{long}");
        let expected = [
            "project/",
            "project/.gitignore",
            "project/empty",
            "project/src",
            "project/src/deep",
            "project/src/link",
            long.as_str(),
            "project/src/run.sh",
        ];
        assert_eq!(names, expected);
        assert_eq!(found.last().unwrap().1, 0o755);
        assert_eq!(packed.left_out.len(), 3);
        let skipped: Vec<_> = packed.skipped.iter().map(|(path, reason)| (path.as_os_str(), *reason)).collect();
        let pipe = (std::ffi::OsStr::new("src/socket"), "it is a device, socket or pipe");
        assert_eq!(skipped, [(latin, "its name is not UTF-8"), pipe]);
    }
}
