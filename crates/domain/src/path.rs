//! Paths within a project's source.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Code, Error, Result};

/// A path relative to a project's root: `/`-separated, no empty, `.` or `..` segment, no NUL or control character, no
/// backslash that could be read as an escape, at most [`MAX`](Self::MAX) bytes in [`MAX_DEPTH`](Self::MAX_DEPTH) segments of at most 255. What it names
/// lies beneath the root by construction (UHP Environments §3: "confined to the environment's root at every endpoint").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SourcePath(String);

impl SourcePath {
    /// The longest path, in bytes: what PostgreSQL's index takes beside the project's id, whatever the text, and what Linux
    /// takes in one call beneath any directory where it has to.
    pub const MAX: usize = 2600;
    /// The most segments. Every directory is an entry of its own, so depth costs as files do.
    pub const MAX_DEPTH: usize = 128;
    /// The longest segment, in bytes.
    pub const MAX_SEGMENT: usize = 255;

    /// Checks a path that a client named. One trailing slash is allowed and dropped, since it names a directory.
    pub fn parse(text: &str) -> Result<Self> {
        let refused = |why: &str| Error::new(Code::ProjectInvalid, why).at("path");
        let text = text.strip_suffix('/').unwrap_or(text);
        if text.len() > Self::MAX {
            return Err(refused(&format!("the path is longer than {} bytes", Self::MAX)));
        }
        let path = Self::recorded(text)?;
        if path.0.split('/').nth(Self::MAX_DEPTH).is_some() {
            return Err(refused(&format!("the path is nested more than {} levels deep", Self::MAX_DEPTH)));
        }
        Ok(path)
    }

    /// Checks a path that was accepted before: its form, not its length and depth, for which there may have been other limits.
    pub fn recorded(text: &str) -> Result<Self> {
        let refused = |why: &str| Error::new(Code::ProjectInvalid, why).at("path");
        if text.is_empty() {
            return Err(refused("the path is empty"));
        }
        if text.starts_with('/') {
            return Err(refused("the path is absolute; paths are relative to the project's root"));
        }
        // A backslash is a legal character of a name, unless reading it as a separator would lead somewhere else.
        if text.contains('\\')
            && text.split(['/', '\\']).any(|part| matches!(part, "" | "." | "..") || part.ends_with(':'))
        {
            return Err(refused("the path leaves the project's root where `\\` separates segments"));
        }
        if let Some(control) = text.chars().find(|character| character.is_control()) {
            return Err(refused(&format!("the path contains the control character U+{:04X}", u32::from(control))));
        }
        for segment in text.split('/') {
            match segment {
                "" => return Err(refused("the path has an empty segment")),
                "." | ".." => return Err(refused("the path leaves the project's root")),
                _ if segment.len() > Self::MAX_SEGMENT => {
                    return Err(refused("a segment of the path is longer than 255 bytes"));
                }
                _ => {}
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory that holds it; none at the root.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// The directories above, nearest last: `a/b/c` gives `a`, `a/b`.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.match_indices('/').map(|(at, _)| Self(self.0[..at].to_owned()))
    }

    /// Whether `self` lies beneath `directory`.
    pub fn is_beneath(&self, directory: &Self) -> bool {
        self.0.len() > directory.0.len()
            && self.0.starts_with(&directory.0)
            && self.0.as_bytes()[directory.0.len()] == b'/'
    }
}

/// Paths order, and compare, as their texts do.
impl Borrow<str> for SourcePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SourcePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::recorded(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_paths_stand_and_escapes_are_refused() {
        for good in ["a", "a/b.txt", "back\\slash.txt", "a b/#?%.txt", "dir/", "ünï/日本", "...", "a/..b"] {
            assert!(SourcePath::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/",
            "/a",
            "a//b",
            "..",
            "a/../b",
            "./a",
            "a/.",
            "..\\b",
            "a\\..\\b",
            "\\a",
            "C:\\a",
            "a\0b",
            "a\nb",
            "a//",
            &"x".repeat(256),
        ] {
            assert_eq!(SourcePath::parse(bad).unwrap_err().code, Code::ProjectInvalid, "{bad}");
        }
    }

    #[test]
    fn length_and_depth_are_bounded_for_new_paths_alone() {
        let deep = |levels: usize| vec!["d"; levels].join("/");
        let long = |bytes: usize| format!("{}{}", format!("{}/", "x".repeat(199)).repeat(12), "y".repeat(bytes - 2400));
        assert!(SourcePath::parse(&deep(SourcePath::MAX_DEPTH)).is_ok());
        let error = SourcePath::parse(&deep(SourcePath::MAX_DEPTH + 1)).unwrap_err();
        assert_eq!((error.code, error.message.contains("128 levels")), (Code::ProjectInvalid, true));
        assert!(SourcePath::recorded(&deep(SourcePath::MAX_DEPTH + 1)).is_ok());
        assert!(SourcePath::parse(&long(SourcePath::MAX)).is_ok());
        assert!(SourcePath::parse(&long(SourcePath::MAX + 1)).unwrap_err().message.contains("2600 bytes"));
    }

    #[test]
    fn ancestors_and_beneath() {
        let path = SourcePath::parse("a/b/c").unwrap();
        assert_eq!(path.ancestors().map(|p| p.0).collect::<Vec<_>>(), ["a", "a/b"]);
        assert!(path.is_beneath(&SourcePath::parse("a").unwrap()));
        assert!(!SourcePath::parse("ab/c").unwrap().is_beneath(&SourcePath::parse("a").unwrap()));
    }

    proptest! {
        #[test]
        fn whatever_parses_stays_beneath(text in "[./a\\\\\u{0}-\u{20}é]{0,40}") {
            if let Ok(path) = SourcePath::parse(&text) {
                prop_assert!(std::path::Path::new(path.as_str()).components()
                    .all(|c| matches!(c, std::path::Component::Normal(_))));
            }
        }
    }
}
