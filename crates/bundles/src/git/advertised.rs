//! What `git ls-remote` lists, and which of it a caller means.

use std::collections::BTreeMap;

use super::reference::GitRef;

/// What stands for the default branch.
const HEAD: &str = "HEAD";

/// The refs of a repository with the ids they stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Advertised {
    refs: BTreeMap<String, String>,
    /// The branch that `HEAD` stands for, where the host says it.
    default_branch: Option<String>,
}

/// The listing cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the list of the repository's refs is malformed")]
pub struct AdvertisedError;

impl Advertised {
    /// Reads the listing: lines of an id, a tab and a name, and before them `ref: `, a branch, a tab and `HEAD` as
    /// `--symref` adds it. Peeled tags are left out.
    pub fn parse(listing: &[u8]) -> Result<Self, AdvertisedError> {
        let listing = std::str::from_utf8(listing).map_err(|_| AdvertisedError)?;
        let mut refs = BTreeMap::new();
        let mut default_branch = None;
        for line in listing.lines() {
            let (id, name) = line.split_once('\t').ok_or(AdvertisedError)?;
            if let Some(target) = id.strip_prefix("ref: ") {
                if name == HEAD && target.starts_with("refs/heads/") {
                    default_branch = Some(target.to_owned());
                }
                continue;
            }
            if !is_object_id(id) {
                return Err(AdvertisedError);
            }
            if !name.ends_with("^{}") {
                refs.insert(name.to_owned(), id.to_owned());
            }
        }
        Ok(Self { refs, default_branch })
    }

    /// Whether nothing was listed.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }

    /// The full name and the id of what the caller means; the name of the default branch is `HEAD` where the host keeps it
    /// to itself.
    pub fn choose(&self, wanted: &GitRef) -> Option<(String, String)> {
        let (name, id) =
            wanted.candidates().into_iter().find_map(|name| self.refs.get(&name).map(|id| (name, id.clone())))?;
        let branch = self.default_branch.clone().filter(|_| name == HEAD);
        Some((branch.unwrap_or(name), id))
    }
}

/// Whether a text is an object's id in one of git's two formats.
pub(super) fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_comes_before_a_tag() {
        let (one, two, three) = ("1".repeat(40), "2".repeat(40), "3".repeat(40));
        let listing = format!(
            "{one}\tHEAD\n{one}\trefs/heads/same\n{two}\trefs/tags/same\n{three}\trefs/tags/same^{{}}\n{three}\trefs/pull/1/head\n"
        );
        let refs = Advertised::parse(listing.as_bytes()).unwrap();
        let chosen = |text: Option<&str>| refs.choose(&GitRef::parse(text).unwrap()).map(|(name, _)| name);
        assert_eq!(chosen(Some("same")).as_deref(), Some("refs/heads/same"));
        assert_eq!(chosen(Some("refs/tags/same")).as_deref(), Some("refs/tags/same"));
        assert_eq!(chosen(Some("tags/same")).as_deref(), Some("refs/tags/same"));
        assert_eq!(chosen(Some("pull/1/head")).as_deref(), Some("refs/pull/1/head"));
        assert_eq!(chosen(None).as_deref(), Some("HEAD"));
        assert_eq!(chosen(Some("nope")), None);
        let told = Advertised::parse(format!("ref: refs/heads/same\tHEAD\n{listing}").as_bytes()).unwrap();
        assert_eq!(told.choose(&GitRef::Head), Some(("refs/heads/same".to_owned(), one.clone())));
        for wrong in ["x", "12\tHEAD\n", "zz\n"] {
            assert_eq!(Advertised::parse(wrong.as_bytes()), Err(AdvertisedError), "{wrong:?}");
        }
    }
}
