//! A sink that keeps everything, for comparison.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Cursor, Read, Seek},
    path::Path,
};

use stead_bundles::{
    archive::{ArchiveError, Limits, Report, Sink, SkipReason, read_archive},
    path::BundlePath,
};

#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) directories: BTreeSet<String>,
    pub(crate) files: BTreeMap<String, (bool, Vec<u8>)>,
    pub(crate) skipped: Vec<(String, String)>,
    current: Option<String>,
}

impl Sink for Collected {
    fn directory(&mut self, path: &BundlePath) -> io::Result<()> {
        assert!(self.directories.insert(path.to_string()), "{path} twice");
        Ok(())
    }

    fn file(&mut self, path: &BundlePath, executable: bool, _size: u64) -> io::Result<()> {
        assert!(self.files.insert(path.to_string(), (executable, Vec::new())).is_none(), "{path} twice");
        self.current = Some(path.to_string());
        Ok(())
    }

    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let current = self.current.as_ref().expect("a chunk belongs to a file");
        self.files.get_mut(current).expect("the file was announced").1.extend_from_slice(bytes);
        Ok(())
    }

    fn file_end(&mut self) -> io::Result<()> {
        self.current.take().map(|_| ()).ok_or_else(|| io::Error::other("an end without a file"))
    }

    fn skipped(&mut self, name: &str, reason: SkipReason) -> io::Result<()> {
        self.skipped.push((name.to_owned(), reason.to_string()));
        Ok(())
    }
}

pub(crate) fn read<R: Read + Seek>(mut input: R, limits: &Limits) -> Result<(Report, Collected), ArchiveError> {
    let mut collected = Collected::default();
    let report = read_archive(&mut input, limits, &mut collected)?;
    assert_eq!(report.files as usize, collected.files.len());
    assert_eq!(report.directories as usize, collected.directories.len());
    assert_eq!(report.skipped.count as usize, collected.skipped.len());
    assert_eq!(report.bytes as usize, collected.files.values().map(|(_, bytes)| bytes.len()).sum::<usize>());
    Ok((report, collected))
}

pub(crate) fn read_bytes(bytes: &[u8]) -> Result<(Report, Collected), ArchiveError> {
    read(Cursor::new(bytes), &Limits::default())
}

pub(crate) fn read_case(name: &str) -> Result<(Report, Collected), ArchiveError> {
    read(open(name), &Limits::default())
}

pub(crate) fn open(name: &str) -> File {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/field-cases").join(name);
    File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
