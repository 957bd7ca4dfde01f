//! Relative paths of files in a bundle: checked once, trusted afterwards.
//!
//! Bytes are kept as they were sent: nothing is normalised to another Unicode form, because two names that look alike
//! are two files on Linux. Only `.` segments and one trailing slash, which carry no meaning, are removed.

use std::{borrow::Borrow, fmt};

/// The longest path, in bytes, that every store keeps and that fits a system call on Linux beneath any directory.
pub const PATH_MAX_BYTES: usize = 2600;
/// The longest single name, in bytes, that a Linux file system stores.
pub const SEGMENT_MAX_BYTES: usize = 255;

/// A relative path of one or more ordinary segments, separated by `/`.
///
/// It has no empty, `.` or `..` segment, no control character, no drive, and no backslash that could be read as any of
/// them, so joining it to a directory never leaves that directory (UHP Environments §3).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundlePath(Box<str>);

/// Why a name cannot be the path of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// Nothing is left once `.` segments are removed.
    #[error("names the root itself")]
    Root,
    /// The name starts with `/`.
    #[error("is absolute")]
    Absolute,
    /// A segment is `..`.
    #[error("contains `..`")]
    Parent,
    /// The name starts with a Windows drive letter.
    #[error("starts with a drive letter")]
    Drive,
    /// Two separators with nothing between them.
    #[error("contains an empty segment")]
    EmptySegment,
    /// A backslash that leads elsewhere where it is read as a separator.
    #[error("leaves the root where a backslash separates segments")]
    Backslash,
    /// A control character, the zero byte included.
    #[error("contains a control character")]
    Control,
    /// A segment is longer than [`SEGMENT_MAX_BYTES`].
    #[error("has a segment longer than 255 bytes")]
    SegmentTooLong,
    /// The whole is longer than [`PATH_MAX_BYTES`].
    #[error("is longer than 2600 bytes")]
    TooLong,
    /// More segments than the caller's limit.
    #[error("is nested too deeply")]
    TooDeep,
}

impl BundlePath {
    /// Checks `name`. A trailing slash is accepted; whether it meant a directory is the caller's knowledge.
    pub fn parse(name: &str) -> Result<Self, PathRefusal> {
        if name.len() > PATH_MAX_BYTES {
            return Err(PathRefusal::TooLong);
        }
        if name.starts_with('/') {
            return Err(PathRefusal::Absolute);
        }
        if name.chars().any(char::is_control) {
            return Err(PathRefusal::Control);
        }
        let trimmed = name.strip_suffix('/').unwrap_or(name);
        let mut kept = String::with_capacity(trimmed.len());
        for segment in trimmed.split('/') {
            match segment {
                "." => continue,
                ".." => return Err(PathRefusal::Parent),
                "" if trimmed.is_empty() => return Err(PathRefusal::Root),
                "" => return Err(PathRefusal::EmptySegment),
                _ if segment.len() > SEGMENT_MAX_BYTES => return Err(PathRefusal::SegmentTooLong),
                _ => {}
            }
            if !kept.is_empty() {
                kept.push('/');
            }
            kept.push_str(segment);
        }
        if kept.is_empty() {
            return Err(PathRefusal::Root);
        }
        // It is a character like any other where reading it as a separator would lead nowhere else. What writes it as a
        // separator (a zip) is for whoever reads that format.
        let leads_out = |part: &str| matches!(part, "" | "." | "..") || part.ends_with(':');
        if kept.contains('\\') && kept.split(['/', '\\']).any(leads_out) {
            return Err(PathRefusal::Backslash);
        }
        let is_drive = |text: &str| matches!(text.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic());
        if kept.split_once('/').is_some_and(|(first, _)| is_drive(first)) {
            return Err(PathRefusal::Drive);
        }
        Ok(Self(kept.into_boxed_str()))
    }

    /// The path's text, without a leading or trailing slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The segments from the root down; never empty.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// How many segments there are; 1 for a file at the root.
    pub fn depth(&self) -> usize {
        self.segments().count()
    }

    /// The last segment.
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// The first segment.
    pub fn root(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(root, _)| root)
    }

    /// The directory that holds it, or `None` at the root.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// The path without its first segment, or `None` when it has only one.
    pub fn without_root(&self) -> Option<Self> {
        self.0.split_once('/').map(|(_, rest)| Self(rest.into()))
    }
}

impl Borrow<str> for BundlePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BundlePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for BundlePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_kept_or_refused_with_their_reason() {
        let table: &[(&str, Result<&str, PathRefusal>)] = &[
            ("a.txt", Ok("a.txt")),
            ("./a/./b/", Ok("a/b")),
            ("größe/ü ?#%+.txt", Ok("größe/ü ?#%+.txt")),
            ("...", Ok("...")),
            ("a..b", Ok("a..b")),
            ("", Err(PathRefusal::Root)),
            (".", Err(PathRefusal::Root)),
            ("./", Err(PathRefusal::Root)),
            ("/", Err(PathRefusal::Absolute)),
            ("/etc/passwd", Err(PathRefusal::Absolute)),
            ("..", Err(PathRefusal::Parent)),
            ("a/../b", Err(PathRefusal::Parent)),
            ("a//b", Err(PathRefusal::EmptySegment)),
            ("..\\x", Err(PathRefusal::Backslash)),
            ("C:/x", Err(PathRefusal::Drive)),
            ("c:notes.txt", Ok("c:notes.txt")),
            ("w\\x.txt", Ok("w\\x.txt")),
            ("./w\\x.txt/", Ok("w\\x.txt")),
            ("./C:/x", Err(PathRefusal::Drive)),
            ("C:\\x", Err(PathRefusal::Backslash)),
            ("\\\\host\\x", Err(PathRefusal::Backslash)),
            ("a\0b", Err(PathRefusal::Control)),
            ("a\r\n", Err(PathRefusal::Control)),
        ];
        for (name, expected) in table {
            let outcome = BundlePath::parse(name);
            assert_eq!(outcome.as_ref().map(BundlePath::as_str), expected.as_ref().map(|path| *path), "{name:?}");
        }
        assert!(BundlePath::parse(&"x".repeat(255)).is_ok());
        assert_eq!(BundlePath::parse(&"x".repeat(256)), Err(PathRefusal::SegmentTooLong));
        assert_eq!(BundlePath::parse(&"x/".repeat(2049)), Err(PathRefusal::TooLong));
    }

    proptest! {
        #[test]
        fn an_accepted_path_stays_beneath_its_root(name in "[./\\\\a-cC:\u{0}-\u{20}é]{0,24}") {
            if let Ok(path) = BundlePath::parse(&name) {
                prop_assert!(path.segments().all(|segment| !matches!(segment, "" | "." | "..")));
                prop_assert_eq!(BundlePath::parse(path.as_str()), Ok(path.clone()));
                prop_assert_eq!(path.depth(), path.segments().count());
            }
        }
    }
}
