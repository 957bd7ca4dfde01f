//! The files of a commit, as `git ls-tree -r -t -z -l` lists them, and where each of them lands.
//!
//! Regular files land with their executable bit. Links and submodules do not, nor what has a name that a source may not have. Directories are
//! listed too, so that a tree of nothing but directories has an end: a few nested ones can stand for billions.

use std::collections::BTreeMap;
use std::fmt;

use super::advertised::is_object_id;
use crate::archive::{Limit, Limits};
use crate::path::{BundlePath, PathRefusal};

/// How many skipped members are named; more are only counted.
const SKIPPED_NAMED: usize = 1000;

/// Why a member does not land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitSkipReason {
    /// Its name is not a path beneath the root.
    Path(PathRefusal),
    /// Its name is not UTF-8.
    NotUtf8,
    /// A part of its name is git's own.
    GitDirectory,
    /// A symbolic link.
    SymbolicLink,
    /// A submodule.
    Submodule,
}

impl fmt::Display for GitSkipReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(refusal) => write!(formatter, "its name {refusal}"),
            Self::NotUtf8 => formatter.write_str("its name is not UTF-8"),
            Self::GitDirectory => formatter.write_str("its name contains `.git`"),
            Self::SymbolicLink => formatter.write_str("it is a symbolic link"),
            Self::Submodule => formatter.write_str("it is a submodule, which is not followed"),
        }
    }
}

/// A member that does not land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSkipped {
    /// Its name, shortened and freed of control characters.
    pub name: String,
    /// Why.
    pub reason: GitSkipReason,
}

/// A file that lands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFile {
    /// Where.
    pub path: BundlePath,
    /// Whether it may be executed.
    pub executable: bool,
    /// Its size in bytes.
    pub size: u64,
    /// The id of its bytes in the repository.
    pub id: String,
}

/// A commit's files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitTree {
    /// What lands, ordered by path; each path once.
    pub files: Vec<GitFile>,
    /// How many members do not land.
    pub skipped: u64,
    /// The first 1000 of them.
    pub skipped_members: Vec<GitSkipped>,
    /// Where submodules would lie; the first 1000.
    pub submodules: Vec<String>,
}

/// Why nothing lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GitTreeError {
    /// A limit was reached.
    #[error("the repository exceeds the limit on {limit} ({max})")]
    TooLarge {
        /// Which one.
        limit: Limit,
        /// Its value, in its unit.
        max: u64,
    },
    /// More directories than members are allowed.
    #[error("the repository has more than {max} directories")]
    TooManyDirectories {
        /// How many are allowed.
        max: u64,
    },
    /// The listing contradicts itself.
    #[error("the repository's tree is malformed")]
    Malformed,
}

impl GitTree {
    /// Reads the listing under the limits of an import.
    pub fn parse(listing: &[u8], limits: &Limits) -> Result<Self, GitTreeError> {
        let mut tree = Self::default();
        let mut files = BTreeMap::new();
        let (mut members, mut directories, mut bytes) = (0_u64, 0_u64, 0_u64);
        for line in listing.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let tab = line.iter().position(|byte| *byte == b'\t').ok_or(GitTreeError::Malformed)?;
            let head = std::str::from_utf8(&line[..tab]).map_err(|_| GitTreeError::Malformed)?;
            let words: Vec<&str> = head.split_ascii_whitespace().collect();
            let [mode, kind, id, size] = words[..] else { return Err(GitTreeError::Malformed) };
            let name = &line[tab + 1..];
            if (kind, mode) == ("tree", "040000") {
                directories += 1;
                if directories > limits.members {
                    return Err(GitTreeError::TooManyDirectories { max: limits.members });
                }
                continue;
            }
            members += 1;
            if members > limits.members {
                return Err(GitTreeError::TooLarge { limit: Limit::Members, max: limits.members });
            }
            let path = match (kind, mode) {
                ("blob", "120000") => Err(GitSkipReason::SymbolicLink),
                ("commit", _) => Err(GitSkipReason::Submodule),
                ("blob", _) => landing(name, limits.depth),
                _ => return Err(GitTreeError::Malformed),
            };
            let path = match path {
                Ok(path) => path,
                Err(reason) => {
                    tree.skip(name, reason);
                    continue;
                }
            };
            let size: u64 = size.parse().map_err(|_| GitTreeError::Malformed)?;
            if size > limits.file_bytes {
                return Err(GitTreeError::TooLarge { limit: Limit::FileBytes, max: limits.file_bytes });
            }
            bytes = bytes.saturating_add(size);
            if bytes > limits.expanded_bytes {
                return Err(GitTreeError::TooLarge { limit: Limit::ExpandedBytes, max: limits.expanded_bytes });
            }
            // Old tools wrote other modes; git itself looks at this bit alone.
            let executable = u32::from_str_radix(mode, 8).map_err(|_| GitTreeError::Malformed)? & 0o100 != 0;
            if !is_object_id(id) {
                return Err(GitTreeError::Malformed);
            }
            let file = GitFile { path: path.clone(), executable, size, id: id.to_owned() };
            if files.insert(path, file).is_some() {
                return Err(GitTreeError::Malformed);
            }
        }
        // No tree that git itself makes has a file in the place of a directory.
        let shadowed = files.keys().any(|path: &BundlePath| {
            let mut ancestor = path.parent();
            while let Some(directory) = ancestor {
                if files.contains_key(directory) {
                    return true;
                }
                ancestor = directory.rsplit_once('/').map(|(parent, _)| parent);
            }
            false
        });
        if shadowed {
            return Err(GitTreeError::Malformed);
        }
        tree.files = files.into_values().collect();
        Ok(tree)
    }

    fn skip(&mut self, name: &[u8], reason: GitSkipReason) {
        let name = crate::archive::shown(&String::from_utf8_lossy(name));
        self.skipped += 1;
        if reason == GitSkipReason::Submodule && self.submodules.len() < SKIPPED_NAMED {
            self.submodules.push(name.clone());
        }
        if self.skipped_members.len() < SKIPPED_NAMED {
            self.skipped_members.push(GitSkipped { name, reason });
        }
    }
}

fn landing(name: &[u8], depth: usize) -> Result<BundlePath, GitSkipReason> {
    let name = std::str::from_utf8(name).map_err(|_| GitSkipReason::NotUtf8)?;
    let path = BundlePath::parse(name).map_err(GitSkipReason::Path)?;
    if path.depth() > depth {
        return Err(GitSkipReason::Path(PathRefusal::TooDeep));
    }
    if path.segments().any(|segment| segment.eq_ignore_ascii_case(".git")) {
        return Err(GitSkipReason::GitDirectory);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(mode: &str, kind: &str, size: &str, name: &str) -> String {
        format!("{mode} {kind} {} {size:>7}\t{name}\0", "a".repeat(40))
    }

    #[test]
    fn files_land_and_everything_else_is_named() {
        let listing = [
            line("100644", "blob", "3", "b/x.txt"),
            line("100755", "blob", "0", "a run.sh"),
            line("040000", "tree", "-", "b"),
            line("120000", "blob", "9", "link"),
            line("160000", "commit", "-", "vendor/lib"),
            line("100644", "blob", "1", "a/.GIT/config"),
            line("100644", "blob", "1", "a\\b"),
            line("100644", "blob", "1", "a\\..\\b"),
        ]
        .concat();
        let tree = GitTree::parse(listing.as_bytes(), &Limits::default()).unwrap();
        let files: Vec<_> = tree.files.iter().map(|file| (file.path.as_str(), file.executable, file.size)).collect();
        assert_eq!(files, [("a run.sh", true, 0), ("a\\b", false, 1), ("b/x.txt", false, 3)]);
        let skipped: Vec<_> =
            tree.skipped_members.iter().map(|member| format!("{}: {}", member.name, member.reason)).collect();
        let expected = [
            "link: it is a symbolic link",
            "vendor/lib: it is a submodule, which is not followed",
            "a/.GIT/config: its name contains `.git`",
            "a\\..\\b: its name leaves the root where a backslash separates segments",
        ];
        assert_eq!((skipped, tree.skipped), (expected.map(str::to_owned).to_vec(), 4));
        assert_eq!(tree.submodules, ["vendor/lib"]);
    }

    #[test]
    fn limits_hold_and_contradictions_are_refused() {
        let limits = Limits { file_bytes: 10, expanded_bytes: 15, members: 2, ..Limits::default() };
        let parse = |lines: &[String]| GitTree::parse(lines.concat().as_bytes(), &limits);
        let too_large = |limit, max| Err(GitTreeError::TooLarge { limit, max });
        assert_eq!(parse(&[line("100644", "blob", "11", "a")]), too_large(Limit::FileBytes, 10));
        let two = [line("100644", "blob", "8", "a"), line("100644", "blob", "8", "b")];
        assert_eq!(parse(&two), too_large(Limit::ExpandedBytes, 15));
        let links = ["a", "b", "c"].map(|name| line("120000", "blob", "1", name));
        assert_eq!(parse(&links), too_large(Limit::Members, 2));
        let nested = ["a", "a/a", "a/a/a"].map(|name| line("040000", "tree", "-", name));
        assert_eq!(parse(&nested), Err(GitTreeError::TooManyDirectories { max: 2 }));
        assert!(parse(&nested[..2]).unwrap().files.is_empty());
        for lines in [
            vec![line("100644", "blob", "1", "a"), line("100644", "blob", "1", "a/b")],
            vec![line("100644", "blob", "1", "a"), line("100644", "blob", "1", "a")],
            vec![line("100644", "tree", "-", "a")],
            vec![line("100644", "blob", "-", "a")],
            vec!["nothing\0".to_owned()],
        ] {
            assert_eq!(parse(&lines), Err(GitTreeError::Malformed), "{lines:?}");
        }
    }
}
