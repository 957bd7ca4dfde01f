//! Entry points for a fuzzer: each takes arbitrary bytes, and any panic, hang or large allocation is a finding.
//!
//! Archives are tried as they are ([`fuzz_archive`]) and with the sums that a fuzzer cannot guess ([`fuzz_tar`], [`fuzz_zip`]).

mod archives;

use std::io::{self, Cursor};

pub use archives::{fuzz_tar, fuzz_zip};

use crate::{
    archive::{self, Limits, Sink},
    git::{Advertised, BlobReader, GitFailure, GitFile, GitRef, GitTree, GitUrl, is_lfs_pointer, submodule_urls},
    manifest::{
        PackageJson, PackageLock, PipfileLock, PnpmLock, PnpmWorkspace, PoetryLock, Pyproject, PythonLock,
        Requirements, UvLock, YarnLock, YarnSettings, encoding_problem, normalise_for_bash, pipfile_requirements,
        through_registry,
    },
    path::BundlePath,
};

/// Checks what a [`Sink`] may rely on.
#[derive(Default)]
struct CheckedSink {
    left: Option<u64>,
}

impl Sink for CheckedSink {
    fn directory(&mut self, path: &BundlePath) -> io::Result<()> {
        fuzz_path(path.as_str().as_bytes());
        Ok(())
    }

    fn file(&mut self, path: &BundlePath, _executable: bool, size: u64) -> io::Result<()> {
        fuzz_path(path.as_str().as_bytes());
        assert!(self.left.replace(size).is_none(), "a file begins within another");
        Ok(())
    }

    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.left.and_then(|left| left.checked_sub(bytes.len() as u64));
        assert!(left.is_some() && !bytes.is_empty(), "a chunk outside of its file's size");
        self.left = left;
        Ok(())
    }

    fn file_end(&mut self) -> io::Result<()> {
        assert_eq!(self.left.take(), Some(0), "a file ends before its size is reached");
        Ok(())
    }
}

/// Reads `data` as an archive under small limits.
pub fn fuzz_archive(data: &[u8]) {
    const MIB: u64 = 1024 * 1024;
    let limits = Limits { archive_bytes: MIB, expanded_bytes: 4 * MIB, file_bytes: 2 * MIB, members: 1000, depth: 16 };
    let mut sink = CheckedSink::default();
    if let Ok(report) = archive::read_archive(&mut Cursor::new(data), &limits, &mut sink) {
        assert!(report.bytes <= limits.expanded_bytes, "more bytes than the limit");
        assert!(sink.left.is_none(), "a file without an end");
    }
}

/// Reads `data` as every kind of manifest that people write.
pub fn fuzz_manifests(data: &[u8]) {
    // Failing is fine here; only panicking is not.
    let _ = Requirements::parse("requirements/dev.txt", data).map(|parsed| parsed.is_pinned());
    let _ = Pyproject::parse(data).map(|parsed| parsed.static_dependencies());
    let _ = PackageJson::parse(data);
    let _ = encoding_problem(data);
    assert!(normalise_for_bash(data).len() <= data.len(), "a script grew");
}

/// Reads `data` as every kind of lock and setting of Node's tools.
pub fn fuzz_node_locks(data: &[u8]) {
    let _ = PackageLock::parse(data);
    let _ = PnpmLock::parse(data);
    let _ = PnpmWorkspace::parse(data);
    let _ = YarnLock::parse(data);
    let _ = through_registry(&String::from_utf8_lossy(data), "https://registry.example");
    let _ = YarnSettings::parse(data);
    let _ = YarnSettings::parse_classic(data);
}

/// Reads `data` as every kind of lock of Python's tools; no package of it may fill more than its own line. Behind a NUL stands
/// the manifest that the lock belongs to.
pub fn fuzz_python_locks(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0);
    let (data, manifest) = end.map_or((data, data), |end| (&data[..end], &data[end + 1..]));
    let check = |lock: &PythonLock| {
        for package in &lock.packages {
            let line = package.line("/env/p");
            assert!(!line.contains(['\n', '\r']) && !line.starts_with('-'), "an odd line: {line:?}");
        }
    };
    if let Ok(parsed) = UvLock::parse(data, &[]) {
        check(&parsed.lock);
        if let Ok(manifest) = Pyproject::parse(manifest) {
            parsed.members.iter().for_each(|member| drop(member.fits(&manifest)));
        }
    }
    if let Ok(parsed) = PoetryLock::parse(data, manifest) {
        check(&parsed.lock);
        let _ = parsed.fits();
    }
    if let Ok(parsed) = PipfileLock::parse(data) {
        check(&parsed.lock);
        let _ = parsed.fits(manifest);
    }
    if let Ok(lock) = pipfile_requirements(data) {
        check(&lock);
    }
}

/// Reads `data` as everything that a caller or git says of a repository. Behind two NULs stand the bytes of its files, as git
/// gives them in pieces.
pub fn fuzz_git(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(url) = GitUrl::parse(&text) {
        let shown = url.to_string();
        assert!(!shown.starts_with('-') && !shown.chars().any(char::is_control), "an odd address: {shown:?}");
        assert_eq!(GitUrl::parse(&shown).map(|again| again.to_string()), Ok(shown), "an accepted address is refused");
    }
    if let Ok(reference) = GitRef::parse(Some(&text)) {
        assert!(reference.candidates().iter().all(|name| !name.starts_with('-') && !name.contains("..")));
    }
    let _ = (GitFailure::of(&text), submodule_urls(data), Advertised::parse(data), is_lfs_pointer(data));
    let end = data.windows(2).position(|pair| pair == [0, 0]);
    let (listing, bytes) = end.map_or((data, data), |end| (&data[..=end], &data[end + 2..]));
    let limits = Limits { expanded_bytes: 1 << 20, file_bytes: 1 << 18, members: 100, ..Limits::default() };
    if let Ok(tree) = GitTree::parse(listing, &limits) {
        assert!(tree.files.iter().map(|file| file.size).sum::<u64>() <= limits.expanded_bytes);
        let whole = read_blobs(tree.files.clone(), std::iter::once(bytes));
        assert_eq!(read_blobs(tree.files, bytes.chunks(7)), whole, "pieces are read differently than the whole");
    }
}

/// Whether the bytes are those of the files.
fn read_blobs<'a>(files: Vec<GitFile>, mut pieces: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut reader, mut sink) = (BlobReader::new(files), CheckedSink::default());
    let fed = pieces.all(|piece| reader.feed(piece, &mut sink).is_ok());
    fed && reader.finish().is_ok()
}

/// Reads `data` as a path and checks that an accepted one stays beneath its root.
pub fn fuzz_path(data: &[u8]) {
    if let Ok(path) = BundlePath::parse(&String::from_utf8_lossy(data)) {
        assert!(path.segments().all(|segment| !matches!(segment, "" | "." | "..")), "an odd segment in {path:?}");
        assert_eq!(BundlePath::parse(path.as_str()).as_ref(), Ok(&path), "an accepted path is refused again");
    }
}
