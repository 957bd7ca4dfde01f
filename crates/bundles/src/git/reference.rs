//! The commit that a caller asks for: a branch, a tag, a commit's id, or nothing.

use std::fmt;

/// The longest name, in bytes.
const REF_MAX_BYTES: usize = 255;

/// What is taken of a repository. `Display` shows what the caller wrote, `HEAD` where that was nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitRef {
    /// The repository's default branch.
    Head,
    /// A commit by its whole id: 40 or 64 hexadecimal digits, lower case.
    Commit(String),
    /// A branch or tag, short or from `refs/` on.
    Name(String),
}

/// Why a name is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefRefusal {
    /// Nothing was given where leaving it out means the default branch.
    #[error("the ref is empty; leave it out to take the default branch")]
    Empty,
    /// It begins with `-`.
    #[error("the ref begins with `-`")]
    Dash,
    /// More than 255 bytes.
    #[error("the ref is longer than {REF_MAX_BYTES} bytes")]
    TooLong,
    /// Git has no such name for a branch or tag.
    #[error("the ref is no name of a branch or tag and no whole commit id")]
    Malformed,
}

impl GitRef {
    /// Reads a ref; absent is the default branch.
    pub fn parse(text: Option<&str>) -> Result<Self, RefRefusal> {
        let Some(text) = text else { return Ok(Self::Head) };
        if text.is_empty() {
            return Err(RefRefusal::Empty);
        }
        if text.starts_with('-') {
            return Err(RefRefusal::Dash);
        }
        if text.len() > REF_MAX_BYTES {
            return Err(RefRefusal::TooLong);
        }
        if text == "HEAD" {
            return Ok(Self::Head);
        }
        if matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self::Commit(text.to_ascii_lowercase()));
        }
        if is_ref_name(text) { Ok(Self::Name(text.to_owned())) } else { Err(RefRefusal::Malformed) }
    }

    /// Whether it could be the beginning of a commit's id, which no host looks up.
    pub fn looks_like_short_id(&self) -> bool {
        match self {
            Self::Name(name) => (7..64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Self::Head | Self::Commit(_) => false,
        }
    }

    /// The full names that it may stand for, in the order in which they are looked for: a branch comes before a tag of the
    /// same name, as `git clone --branch` has it.
    pub fn candidates(&self) -> Vec<String> {
        match self {
            Self::Head => vec!["HEAD".to_owned()],
            Self::Commit(_) => Vec::new(),
            Self::Name(name) => {
                let exact = name.starts_with("refs/").then(|| name.clone());
                let rest = ["refs/heads/", "refs/tags/", "refs/"].map(|prefix| format!("{prefix}{name}"));
                exact.into_iter().chain(rest).collect()
            }
        }
    }
}

impl fmt::Display for GitRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => formatter.write_str("HEAD"),
            Self::Commit(text) | Self::Name(text) => formatter.write_str(text),
        }
    }
}

/// What `git check-ref-format --allow-onelevel` accepts.
fn is_ref_name(name: &str) -> bool {
    let forbidden =
        |character: char| character.is_control() || character.is_whitespace() || "~^:?*[\\".contains(character);
    let is_lock = |segment: &str| segment.rsplit_once('.').is_some_and(|(_, end)| end == "lock");
    let segment = |segment: &str| !segment.is_empty() && !segment.starts_with('.') && !is_lock(segment);
    name != "@"
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && !name.chars().any(forbidden)
        && name.split('/').all(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_commits_and_nothing_else() {
        let name = |text: &str| Ok(GitRef::Name(text.to_owned()));
        let commit = "2F37528e03fce6dab831249e9744c8789fbf3eb9";
        for (text, expected) in [
            ("main", name("main")),
            ("feature/x", name("feature/x")),
            ("refs/tags/v1.0", name("refs/tags/v1.0")),
            ("größe", name("größe")),
            ("2f37528", name("2f37528")),
            ("HEAD", Ok(GitRef::Head)),
            (commit, Ok(GitRef::Commit(commit.to_ascii_lowercase()))),
            ("", Err(RefRefusal::Empty)),
            ("-x", Err(RefRefusal::Dash)),
            ("--upload-pack=touch /tmp/x", Err(RefRefusal::Dash)),
        ] {
            assert_eq!(GitRef::parse(Some(text)), expected, "{text:?}");
        }
        for text in [
            "a..b", "x\ny", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "@", "a@{1}", "/a", "a/", "a//b",
            ".a", "a/.b", "a.", "a.lock", "a.lock/b", "a\u{7f}",
        ] {
            assert_eq!(GitRef::parse(Some(text)), Err(RefRefusal::Malformed), "{text:?}");
        }
        assert_eq!(GitRef::parse(Some(&"x".repeat(256))), Err(RefRefusal::TooLong));
        assert_eq!(GitRef::parse(None), Ok(GitRef::Head));
        for (text, short) in [("8ab164b", true), ("main", false), ("feed", false), (commit, false), ("HEAD", false)] {
            assert_eq!(GitRef::parse(Some(text)).unwrap().looks_like_short_id(), short, "{text}");
        }
    }
}
