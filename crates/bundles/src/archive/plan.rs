//! Deciding where every member lands, with the whole list in view. Pure.
//!
//! Rules, in this order: a refused member is skipped; litter of desktop systems is ignored; of members with one name
//! the last wins; a name that is both a file and a directory stays the directory; if all that is left lies in one
//! directory, that directory is stripped, once.

use std::{collections::BTreeMap, fmt, ops::Bound};

use super::{
    error::{ArchiveError, shown},
    limits::{Limit, Limits},
};
use crate::path::{BundlePath, PathRefusal};

/// How many skipped members are named; more are only counted.
const SKIPPED_NAMED: usize = 1000;
/// The text of all paths, in bytes.
const PATHS_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// Why a member does not land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// Its name is not a path beneath the root.
    Path(PathRefusal),
    /// Its name is not UTF-8, and nothing says what else it is.
    NotUtf8,
    /// A symbolic link.
    SymbolicLink,
    /// A hard link.
    HardLink,
    /// A device node, socket or named pipe.
    Special,
    /// A tar member type that this crate does not know.
    UnknownType(u8),
    /// A file whose name is a directory elsewhere in the archive.
    IsDirectory,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(refusal) => write!(formatter, "its name {refusal}"),
            Self::NotUtf8 => formatter.write_str("its name is not UTF-8"),
            Self::SymbolicLink => formatter.write_str("it is a symbolic link"),
            Self::HardLink => formatter.write_str("it is a hard link"),
            Self::Special => formatter.write_str("it is a device, socket or pipe"),
            Self::UnknownType(kind) => write!(formatter, "it has the unknown type `{}`", kind.escape_ascii()),
            Self::IsDirectory => formatter.write_str("a directory has the same name"),
        }
    }
}

/// Members that do not land.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// All of them.
    pub count: u64,
    /// The first 1000 of them.
    pub members: Vec<SkippedMember>,
}

/// A member that does not land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedMember {
    /// Its name, shortened and freed of control characters.
    pub name: String,
    /// Why.
    pub reason: SkipReason,
}

/// What a kept member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedKind {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Whether any executable bit was set.
        executable: bool,
        /// The size the archive states, in bytes.
        size: u64,
    },
}

/// A member that lands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMember {
    /// Its place in the archive, counted from zero over all members.
    pub ordinal: u64,
    /// Where it lands.
    pub path: BundlePath,
    /// What it is.
    pub kind: PlannedKind,
}

/// Where everything lands. Members are in the archive's order, each path once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchivePlan {
    /// What lands.
    pub members: Vec<PlannedMember>,
    /// What does not.
    pub skipped: Skipped,
    /// Litter of desktop systems that was left out.
    pub ignored: u64,
    /// Members that a later one replaced.
    pub replaced: u64,
    /// Bytes of all files that land, as the archive states them.
    pub expanded_bytes: u64,
    /// The directory that was stripped.
    pub wrapper: Option<String>,
}

/// What a lister found under a name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found {
    Directory,
    File { executable: bool, size: u64 },
    Refused(SkipReason),
}

/// Collects members and makes the plan.
pub(crate) struct Planner<'a> {
    limits: &'a Limits,
    members: u64,
    stated_bytes: u64,
    path_bytes: u64,
    kept: BTreeMap<BundlePath, (u64, PlannedKind)>,
    plan: ArchivePlan,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self { limits, members: 0, stated_bytes: 0, path_bytes: 0, kept: BTreeMap::new(), plan: ArchivePlan::default() }
    }

    /// Takes the next member. Its ordinal is the number of calls before this one.
    pub(crate) fn add(&mut self, name: &str, found: Found) -> Result<(), ArchiveError> {
        let ordinal = self.members;
        self.members += 1;
        if self.members > self.limits.members {
            return Err(ArchiveError::TooLarge { limit: Limit::Members, max: self.limits.members });
        }
        let kind = match found {
            Found::Directory => PlannedKind::Directory,
            Found::File { executable, size } => {
                if size > self.limits.file_bytes {
                    return Err(ArchiveError::TooLarge { limit: Limit::FileBytes, max: self.limits.file_bytes });
                }
                self.stated_bytes = self.stated_bytes.saturating_add(size);
                if self.stated_bytes > self.limits.expanded_bytes {
                    return Err(ArchiveError::TooLarge {
                        limit: Limit::ExpandedBytes,
                        max: self.limits.expanded_bytes,
                    });
                }
                PlannedKind::File { executable, size }
            }
            Found::Refused(reason) => {
                self.skip(name, reason);
                return Ok(());
            }
        };
        let path = match BundlePath::parse(name) {
            Ok(path) if path.depth() > self.limits.depth => {
                self.skip(name, SkipReason::Path(PathRefusal::TooDeep));
                return Ok(());
            }
            Ok(path) => path,
            // `tar -c .` names the root itself; nothing is lost by leaving it out.
            Err(PathRefusal::Root) if kind == PlannedKind::Directory => return Ok(()),
            Err(refusal) => {
                self.skip(name, SkipReason::Path(refusal));
                return Ok(());
            }
        };
        if path.root() == "__MACOSX" || path.file_name() == ".DS_Store" {
            self.plan.ignored += 1;
            return Ok(());
        }
        self.path_bytes += path.as_str().len() as u64;
        if self.path_bytes > PATHS_MAX_BYTES {
            return Err(ArchiveError::TooLarge { limit: Limit::PathBytes, max: PATHS_MAX_BYTES });
        }
        self.keep(path, ordinal, kind);
        Ok(())
    }

    fn keep(&mut self, path: BundlePath, ordinal: u64, kind: PlannedKind) {
        match (self.kept.get(&path).map(|(_, kind)| *kind), kind) {
            (Some(PlannedKind::Directory), PlannedKind::Directory) => return,
            (Some(PlannedKind::Directory), PlannedKind::File { .. }) => {
                self.skip(path.as_str(), SkipReason::IsDirectory);
                return;
            }
            (Some(PlannedKind::File { .. }), PlannedKind::Directory) => {
                self.skip(path.as_str(), SkipReason::IsDirectory);
            }
            (Some(PlannedKind::File { .. }), PlannedKind::File { .. }) => self.plan.replaced += 1,
            (None, _) => {}
        }
        self.kept.insert(path, (ordinal, kind));
    }

    fn skip(&mut self, name: &str, reason: SkipReason) {
        self.plan.skipped.count += 1;
        if self.plan.skipped.members.len() < SKIPPED_NAMED {
            self.plan.skipped.members.push(SkippedMember { name: shown(name), reason });
        }
    }

    /// Makes the plan once every member was added.
    pub(crate) fn finish(mut self) -> ArchivePlan {
        self.drop_apple_doubles();
        self.drop_shadowed_files();
        self.plan.wrapper = self.wrapper();
        let stripped = self.plan.wrapper.is_some();
        for (path, (ordinal, kind)) in self.kept {
            let path = if stripped { path.without_root() } else { Some(path) };
            let Some(path) = path else { continue };
            if let PlannedKind::File { size, .. } = kind {
                self.plan.expanded_bytes += size;
            }
            self.plan.members.push(PlannedMember { ordinal, path, kind });
        }
        self.plan.members.sort_unstable_by_key(|member| member.ordinal);
        self.plan
    }

    /// macOS tars carry `._name` beside `name`; without a `name` it is somebody's own file.
    fn drop_apple_doubles(&mut self) {
        let doubles: Vec<BundlePath> = self
            .kept
            .iter()
            .filter(|(path, (_, kind))| {
                *kind != PlannedKind::Directory
                    && path.file_name().strip_prefix("._").is_some_and(|name| {
                        let sibling =
                            path.parent().map_or_else(|| name.to_owned(), |parent| format!("{parent}/{name}"));
                        BundlePath::parse(&sibling)
                            .is_ok_and(|sibling| self.kept.contains_key(&sibling) || has_children(&self.kept, &sibling))
                    })
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in doubles {
            self.kept.remove(&path);
            self.plan.ignored += 1;
        }
    }

    fn drop_shadowed_files(&mut self) {
        let shadowed: Vec<BundlePath> = self
            .kept
            .iter()
            .filter(|(path, (_, kind))| *kind != PlannedKind::Directory && has_children(&self.kept, path))
            .map(|(path, _)| path.clone())
            .collect();
        for path in shadowed {
            self.kept.remove(&path);
            self.skip(path.as_str(), SkipReason::IsDirectory);
        }
    }

    /// The one directory that holds everything, if there is one with something in it.
    fn wrapper(&self) -> Option<String> {
        let root = self.kept.keys().next()?.root();
        let wraps = self.kept.iter().all(|(path, (_, kind))| {
            path.root() == root && (path.parent().is_some() || *kind == PlannedKind::Directory)
        });
        let holds = self.kept.keys().any(|path| path.parent().is_some());
        (wraps && holds).then(|| root.to_owned())
    }
}

fn has_children(kept: &BTreeMap<BundlePath, (u64, PlannedKind)>, path: &BundlePath) -> bool {
    // Paths sort as their text, so the first one after `path/` is a child if there is any.
    let prefix = format!("{path}/");
    kept.range::<str, _>((Bound::Excluded(prefix.as_str()), Bound::Unbounded))
        .next()
        .is_some_and(|(candidate, _)| candidate.as_str().starts_with(&prefix))
}
