//! What a caller requires of the thing that it is about to read or change (RFC 9110 §13.1.1, §13.1.2, §13.1.4).
//!
//! A file's tag is the address of its bytes: it says which bytes they are, and nothing of the name or the executable bit.

use crate::digest::BlobId;
use crate::error::{Code, Error, Result};
use crate::source::{EntryKind, SourceEntry};
use crate::time::Timestamp;

/// The tags of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// Whatever there is.
    Any,
    /// Exactly these bytes. A tag that none of our files can have is left out, so the list may be empty.
    These(Vec<BlobId>),
}

impl Tags {
    /// Whether they name these bytes.
    pub fn name_bytes(&self, bytes: BlobId) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => tags.contains(&bytes),
        }
    }

    /// Whether they name what is there; a directory has no tag, and nothing names what is not there.
    fn name_entry(&self, there: Option<&SourceEntry>) -> bool {
        match there.map(|entry| &entry.kind) {
            None => false,
            Some(EntryKind::Directory) => *self == Self::Any,
            Some(EntryKind::File { blob, .. }) => self.name_bytes(*blob),
        }
    }
}

/// What must hold. The default requires nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Precondition {
    /// What is there has one of these tags.
    pub matching: Option<Tags>,
    /// What is there has none of these tags.
    pub differing: Option<Tags>,
    /// What is there was written in this second or before. Tags that have to match outrank it.
    pub unmodified_since: Option<Timestamp>,
}

impl Precondition {
    /// Whether anything is required.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses with [`Code::PreconditionFailed`] when what stands at a path is not what the caller requires.
    pub fn check(&self, there: Option<&SourceEntry>) -> Result<()> {
        let refused = |why: &str| Err(Error::new(Code::PreconditionFailed, why));
        let stands = match (&self.matching, self.unmodified_since) {
            (Some(tags), _) => tags.name_entry(there),
            (None, Some(since)) => there.is_some_and(|entry| entry.modified_at.as_seconds() <= since.as_seconds()),
            (None, None) => true,
        };
        if !stands {
            return refused(match there {
                None => "there is no such file, and the request requires one",
                Some(_) => "the file is not the one that the request requires: it was written since",
            });
        }
        if self.differing.as_ref().is_some_and(|tags| tags.name_entry(there)) {
            return refused("there is such a file already, which the request forbids");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::SourcePath;

    fn blob(byte: u8) -> BlobId {
        BlobId::from_bytes([byte; 32])
    }

    #[test]
    fn conditions_compare_with_what_stands_there() {
        let entry =
            |kind| SourceEntry { path: SourcePath::parse("a").unwrap(), kind, modified_at: Timestamp::default() };
        let file = entry(EntryKind::File { executable: false, size: 1, blob: blob(1) });
        let directory = entry(EntryKind::Directory);
        let these = |bytes: &[u8]| Tags::These(bytes.iter().map(|byte| blob(*byte)).collect());
        // Tags; whether a missing entry, the file and the directory are named by them.
        for (tags, named) in [
            (Tags::Any, [false, true, true]),
            (these(&[1]), [false, true, false]),
            (these(&[2, 1]), [false, true, false]),
            (these(&[2]), [false, false, false]),
            (these(&[]), [false, false, false]),
        ] {
            for (there, named) in [None, Some(&file), Some(&directory)].into_iter().zip(named) {
                let matching = Precondition { matching: Some(tags.clone()), ..Precondition::default() };
                let differing = Precondition { differing: Some(tags.clone()), ..Precondition::default() };
                assert_eq!(matching.check(there).is_ok(), named, "{tags:?} {there:?}");
                assert_eq!(differing.check(there).is_ok(), !named, "{tags:?} {there:?}");
            }
        }
        assert!(Precondition::default().is_none() && Precondition::default().check(None).is_ok());
        let refused = Precondition { matching: Some(Tags::Any), ..Precondition::default() }.check(None).unwrap_err();
        assert_eq!(refused.code, Code::PreconditionFailed);
        // The entries are of the first second, in its middle; dates have whole seconds.
        let written = SourceEntry { modified_at: Timestamp::from_micros(1_500_000), ..file };
        for (since, matching, holds) in [
            (0, None, false),
            (1, None, true),
            (2, None, true),
            (0, Some(Tags::Any), true),
            (2, Some(these(&[])), false),
        ] {
            let unmodified_since = Some(Timestamp::from_micros(since * 1_000_000));
            let required = Precondition { matching, differing: None, unmodified_since };
            assert_eq!(required.check(Some(&written)).is_ok(), holds, "{required:?}");
            assert!(required.check(None).is_err());
        }
    }
}
