//! A project's source: a tree of regular files and directories, edited by path.
//!
//! Every directory is an entry of its own, so a listing needs no derivation and an empty directory exists. The decisions
//! here keep the tree consistent: no file lies beneath a file, and every entry's ancestors are directories.

use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::digest::BlobId;
use crate::error::{Code, Error, Result};
use crate::path::SourcePath;
use crate::time::Timestamp;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Whether it may be executed.
        executable: bool,
        /// Its size in bytes.
        size: u64,
        /// Its bytes.
        blob: BlobId,
    },
}

/// One entry of a source tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceEntry {
    /// Where, relative to the project's root.
    pub path: SourcePath,
    /// What.
    #[serde(flatten)]
    pub kind: EntryKind,
    /// When it was last written.
    pub modified_at: Timestamp,
}

impl SourceEntry {
    /// Whether the entry is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, EntryKind::Directory)
    }

    /// Whether the entry is a file that may be executed.
    pub fn is_executable(&self) -> bool {
        matches!(self.kind, EntryKind::File { executable: true, .. })
    }

    /// The file's size; zero for a directory.
    pub fn size(&self) -> u64 {
        match self.kind {
            EntryKind::Directory => 0,
            EntryKind::File { size, .. } => size,
        }
    }
}

/// How many files a tree holds and how many bytes they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TreeSize {
    /// Regular files, not directories.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl TreeSize {
    /// The size of a tree with these entries.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a SourceEntry>) -> Self {
        let mut size = Self::default();
        for entry in entries {
            size.add(entry);
        }
        size
    }

    fn add(&mut self, entry: &SourceEntry) {
        if !entry.is_directory() {
            self.files += 1;
            self.bytes += entry.size();
        }
    }

    fn remove(&mut self, entry: &SourceEntry) {
        if !entry.is_directory() {
            self.files = self.files.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(entry.size());
        }
    }
}

/// What a commit does to one project's source: `clear`, then `removed`, then `written`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceEdit {
    /// Removes everything first.
    pub clear: bool,
    /// Paths to remove, each named exactly (a tree is expanded by the decision).
    pub removed: Vec<SourcePath>,
    /// Entries to insert or replace.
    pub written: Vec<SourceEntry>,
}

/// An edit and the size of the tree after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceDecision {
    /// The rows to change.
    pub edit: SourceEdit,
    /// The tree's size afterwards.
    pub size: TreeSize,
}

fn clash(path: &SourcePath, why: &str) -> Error {
    let mut shown = path.as_str().to_owned();
    if let Some((end, _)) = shown.char_indices().nth(200) {
        shown.truncate(end);
    }
    Error::new(Code::ProjectInvalid, format!("`{shown}` {why}")).at("path")
}

/// Writes one file (UHP Environments §3). `nearby` holds what exists at the path and at its ancestors.
pub fn write_file(nearby: &[SourceEntry], size: TreeSize, file: SourceEntry) -> Result<SourceDecision> {
    let mut size = size;
    if let Some(existing) = nearby.iter().find(|entry| entry.path == file.path) {
        if existing.is_directory() {
            return Err(clash(&file.path, "is a directory"));
        }
        size.remove(existing);
    }
    let mut written = missing_ancestors(nearby, &file.path, file.modified_at)?;
    size.add(&file);
    written.push(file);
    Ok(SourceDecision { edit: SourceEdit { written, ..SourceEdit::default() }, size })
}

/// Sets or clears a file's executable bit. Its bytes stay as they were, so the time at which they were written does, too; a
/// bit that is as wanted changes nothing (`None`).
pub fn set_executable(there: &SourceEntry, executable: bool) -> Result<Option<SourceEntry>> {
    let mut entry = there.clone();
    match &mut entry.kind {
        EntryKind::Directory => Err(clash(&entry.path, "is a directory, which has no executable bit")),
        EntryKind::File { executable: bit, .. } if *bit == executable => Ok(None),
        EntryKind::File { executable: bit, .. } => {
            *bit = executable;
            Ok(Some(entry))
        }
    }
}

/// Makes an empty directory; making one that exists changes nothing.
pub fn make_directory(
    nearby: &[SourceEntry],
    size: TreeSize,
    path: &SourcePath,
    at: Timestamp,
) -> Result<SourceDecision> {
    let mut written = missing_ancestors(nearby, path, at)?;
    match nearby.iter().find(|entry| entry.path == *path) {
        Some(existing) if existing.is_directory() => {}
        Some(_) => return Err(clash(path, "is a file")),
        None => written.push(SourceEntry { path: path.clone(), kind: EntryKind::Directory, modified_at: at }),
    }
    Ok(SourceDecision { edit: SourceEdit { written, ..SourceEdit::default() }, size })
}

/// Removes a file or a directory tree. `subtree` holds the entry itself and everything beneath it.
pub fn remove_tree(subtree: &[SourceEntry], size: TreeSize, path: &SourcePath) -> Result<SourceDecision> {
    if !subtree.iter().any(|entry| entry.path == *path) {
        return Err(Error::new(Code::FileNotFound, "there is no such file or directory in the project").at("path"));
    }
    let mut size = size;
    for entry in subtree {
        size.remove(entry);
    }
    let removed = subtree.iter().map(|entry| entry.path.clone()).collect();
    Ok(SourceDecision { edit: SourceEdit { removed, ..SourceEdit::default() }, size })
}

/// Adds the directories that `path` lies in to those that other paths lie in. Over many paths each directory is looked at
/// once: whatever lies above one that was found was found with it.
pub fn add_directories<'a, S: BuildHasher>(found: &mut HashSet<&'a str, S>, path: &'a SourcePath) {
    let mut above = path.parent();
    while let Some(directory) = above.filter(|directory| found.insert(directory)) {
        above = directory.rsplit_once('/').map(|(parent, _)| parent);
    }
}

/// Lands a whole tree, over `existing` or in its place (UHP Environments §3.1). The incoming tree wins where kinds clash:
/// a file in the way of a directory, or a directory in the way of a file, is removed with everything beneath it. More than
/// `max` incoming entries are refused; the directories that they lie in count, whether or not they came as entries.
pub fn import(
    existing: &[SourceEntry],
    replace: bool,
    incoming: Vec<SourceEntry>,
    max: u64,
    at: Timestamp,
) -> Result<SourceDecision> {
    let mut incoming: BTreeMap<SourcePath, SourceEntry> =
        incoming.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    let too_many = || {
        let message = format!("more than {max} members of an archive, with the directories that they lie in");
        Error::new(Code::FileTooLarge, message).detail(json!({ "max_members": max }))
    };
    let mut directories = HashSet::new();
    for path in incoming.keys() {
        add_directories(&mut directories, path);
        // A few long paths can lie in very many.
        if directories.len() as u64 > max {
            return Err(too_many());
        }
    }
    let directories: Vec<SourcePath> = directories.into_iter().map(SourcePath::recorded).collect::<Result<_>>()?;
    for path in directories {
        let directory = SourceEntry { path: path.clone(), kind: EntryKind::Directory, modified_at: at };
        incoming.entry(path).and_modify(|entry| entry.kind = EntryKind::Directory).or_insert(directory);
    }
    if incoming.len() as u64 > max {
        return Err(too_many());
    }
    if replace {
        let size = TreeSize::of(incoming.values());
        let edit = SourceEdit { clear: true, removed: Vec::new(), written: incoming.into_values().collect() };
        return Ok(SourceDecision { edit, size });
    }
    let mut size = TreeSize::default();
    let mut removed = Vec::new();
    let mut unchanged = HashSet::new();
    // Directories that are there and become files, or lie beneath one that does.
    let mut gone: HashSet<&str> = HashSet::new();
    let mut sorted: Vec<&SourceEntry> = existing.iter().collect();
    // Parents sort before what they hold.
    sorted.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    for entry in sorted {
        match incoming.get(&entry.path) {
            Some(new) if new.kind == entry.kind => {
                unchanged.insert(&entry.path);
            }
            Some(new) => {
                if entry.is_directory() && !new.is_directory() {
                    gone.insert(entry.path.as_str());
                }
            }
            None if entry.path.parent().is_some_and(|above| gone.contains(above)) => {
                if entry.is_directory() {
                    gone.insert(entry.path.as_str());
                }
                removed.push(entry.path.clone());
            }
            None => size.add(entry),
        }
    }
    for entry in incoming.values() {
        size.add(entry);
    }
    let written = incoming.into_values().filter(|entry| !unchanged.contains(&entry.path)).collect();
    Ok(SourceDecision { edit: SourceEdit { clear: false, removed, written }, size })
}

fn missing_ancestors(nearby: &[SourceEntry], path: &SourcePath, at: Timestamp) -> Result<Vec<SourceEntry>> {
    let mut missing = Vec::new();
    for above in path.ancestors() {
        match nearby.iter().find(|entry| entry.path == above) {
            Some(entry) if entry.is_directory() => {}
            Some(_) => return Err(clash(&above, "is a file, so nothing can lie beneath it")),
            None => missing.push(SourceEntry { path: above, kind: EntryKind::Directory, modified_at: at }),
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AT: Timestamp = Timestamp::from_micros(7);

    fn path(text: &str) -> SourcePath {
        SourcePath::parse(text).unwrap()
    }

    fn file(text: &str, size: u64) -> SourceEntry {
        let blob = BlobId::from_bytes([u8::try_from(size % 251).unwrap(); 32]);
        SourceEntry { path: path(text), kind: EntryKind::File { executable: false, size, blob }, modified_at: AT }
    }

    /// A reference implementation of the edit: what the rows hold afterwards.
    fn apply(tree: &mut BTreeMap<SourcePath, SourceEntry>, edit: SourceEdit) {
        if edit.clear {
            tree.clear();
        }
        for gone in &edit.removed {
            tree.remove(gone).expect("a decision removes only what exists");
        }
        tree.extend(edit.written.into_iter().map(|entry| (entry.path.clone(), entry)));
    }

    fn assert_consistent(tree: &BTreeMap<SourcePath, SourceEntry>, size: TreeSize) {
        assert_eq!(TreeSize::of(tree.values()), size);
        for entry in tree.values() {
            for above in entry.path.ancestors() {
                assert!(tree.get(&above).is_some_and(SourceEntry::is_directory), "{above} above {}", entry.path);
            }
        }
    }

    #[test]
    fn clashes_are_refused_by_name() {
        let nearby = [file("a", 1)];
        let error = write_file(&nearby, TreeSize { files: 1, bytes: 1 }, file("a/b", 2)).unwrap_err();
        assert_eq!((error.code, error.message.contains("`a`")), (Code::ProjectInvalid, true));
        assert!(make_directory(&nearby, TreeSize::default(), &path("a"), AT).is_err());
        let directory = SourceEntry { path: path("d"), kind: EntryKind::Directory, modified_at: AT };
        assert!(write_file(&[directory], TreeSize::default(), file("d", 1)).is_err());
        assert_eq!(remove_tree(&[], TreeSize::default(), &path("x")).unwrap_err().code, Code::FileNotFound);
    }

    #[test]
    fn the_executable_bit_of_files_alone_is_set() {
        let plain = file("a", 1);
        assert_eq!(set_executable(&plain, false).unwrap(), None);
        let changed = set_executable(&plain, true).unwrap().unwrap();
        assert!(changed.is_executable() && changed.modified_at == plain.modified_at && changed.size() == 1);
        assert_eq!(set_executable(&changed, false).unwrap(), Some(plain));
        let directory = SourceEntry { path: path("d"), kind: EntryKind::Directory, modified_at: AT };
        assert_eq!(set_executable(&directory, true).unwrap_err().code, Code::ProjectInvalid);
    }

    #[test]
    fn importing_the_same_tree_again_writes_nothing() {
        let first = import(&[], false, vec![file("a/b", 3), file("c", 1)], 3, AT).unwrap();
        let tree = first.edit.written.clone();
        let again = import(&tree, false, vec![file("a/b", 3), file("c", 1)], 3, Timestamp::from_micros(9)).unwrap();
        assert_eq!(again.edit, SourceEdit::default());
        assert_eq!(again.size, first.size);
    }

    #[test]
    fn directories_count_among_the_members_of_an_import() {
        let deep = |name: &str| file(&format!("{}/{name}", vec!["d"; 20].join("/")), 1);
        let tree = vec![deep("a"), deep("b"), file("d/d/c", 1)];
        let decision = import(&[], false, tree.clone(), 23, AT).unwrap();
        assert_eq!((decision.edit.written.len(), decision.size.files), (23, 3));
        for max in [19, 22] {
            let error = import(&[], true, tree.clone(), max, AT).unwrap_err();
            assert_eq!(error.code, Code::FileTooLarge);
            assert_eq!(error.detail, Some(json!({ "max_members": max })));
        }
    }

    proptest! {
        #[test]
        fn every_sequence_of_edits_leaves_a_consistent_tree(
            steps in prop::collection::vec((0..4u8, "[ab](/[ab]){0,3}", 0..100u64), 0..40),
        ) {
            let mut tree = BTreeMap::new();
            let mut size = TreeSize::default();
            for (kind, text, bytes) in steps {
                let target = path(&text);
                let existing: Vec<SourceEntry> = tree.values().cloned().collect();
                let decision = match kind {
                    0 => write_file(&existing, size, file(&text, bytes)),
                    1 => make_directory(&existing, size, &target, AT),
                    2 => {
                        let subtree: Vec<_> = existing.iter()
                            .filter(|e| e.path == target || e.path.is_beneath(&target)).cloned().collect();
                        remove_tree(&subtree, size, &target)
                    }
                    _ => import(&existing, bytes % 5 == 0, vec![file(&text, bytes), file("a/a", 1)], 9, AT),
                };
                if let Ok(decision) = decision {
                    apply(&mut tree, decision.edit);
                    size = decision.size;
                }
                assert_consistent(&tree, size);
            }
        }
    }
}
