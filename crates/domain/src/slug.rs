//! Mount segments of projects.

use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::error::{Code, Error, Result};

/// The path segment a project is mounted at: `/env/<slug>`. Derived from the name at creation, unique per workspace, and
/// never changed by a rename. At most 64 characters of `[a-z0-9._-]`, starting alphanumeric, without `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slug(String);

fn refused(why: &str) -> Error {
    Error::new(Code::ProjectInvalid, why).at("name")
}

impl Slug {
    /// The longest segment, in bytes.
    pub const MAX: usize = 64;

    /// Refuses what is no project's name: it starts with a letter or a digit of any script. A rename requires no more, since
    /// no segment is derived from it.
    pub fn check_name(name: &str) -> Result<()> {
        let name = name.trim();
        if name.is_empty() {
            return Err(refused("a project needs a name"));
        }
        if !name.starts_with(char::is_alphanumeric) {
            return Err(refused("a project's name starts with a letter or a digit"));
        }
        Ok(())
    }

    /// Derives the segment from a project's name (UHP Environments §2). A name must start with a letter or a digit;
    /// Latin letters stand without their marks; every run of other characters outside the alphabet becomes one `-`.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::check_name(name)?;
        let name = name.trim();
        let mut slug = String::new();
        for character in
            name.chars().flat_map(char::to_lowercase).nfkd().filter(|character| !is_combining_mark(*character))
        {
            if let Some(plain) = plain_letters(character) {
                slug.push_str(plain);
                continue;
            }
            match character {
                'a'..='z' | '0'..='9' | '_' => slug.push(character),
                '.' if !slug.is_empty() && !slug.ends_with(['.', '-']) => slug.push('.'),
                _ if slug.is_empty() || slug.ends_with(['-', '.']) => {}
                _ => slug.push('-'),
            }
        }
        slug.truncate(Self::MAX);
        let slug = slug.trim_matches(['-', '.', '_']).to_owned();
        if slug.is_empty() {
            return Err(refused("the name has no letter or digit that can stand in a path"));
        }
        Ok(Self(slug))
    }

    /// Reads a stored segment.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// The segment.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where sessions see the project.
    pub fn mount(&self) -> String {
        format!("/env/{}", self.0)
    }
}

/// The Latin letters that are no plain letter with a mark, as people write them without.
fn plain_letters(character: char) -> Option<&'static str> {
    Some(match character {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'đ' | 'ð' => "d",
        'ł' => "l",
        'þ' => "th",
        'ħ' => "h",
        'ı' => "i",
        'ŋ' => "n",
        'ŧ' => "t",
        _ => return None,
    })
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_become_segments() {
        for (name, slug) in [
            ("Content Studio", "content-studio"),
            ("content studio", "content-studio"),
            ("  a  ", "a"),
            ("v1.2..3", "v1.2.3"),
            ("Émile's app", "emile-s-app"),
            ("ünï", "uni"),
            ("u\u{308}ni\u{308}", "uni"),
            ("Straße Łódź Ærø Ğİı", "strasse-lodz-aero-gii"),
            ("é", "e"),
            ("日本 x", "x"),
            ("under_score", "under_score"),
            ("x/../../etc", "x-etc"),
        ] {
            assert_eq!(Slug::from_name(name).unwrap().as_str(), slug, "{name}");
        }
        for (name, renamed) in [
            ("", false),
            ("   ", false),
            ("-a", false),
            ("../x", false),
            ("日本", true),
            ("Привет", true),
            ("\u{0}", false),
        ] {
            assert_eq!(Slug::from_name(name).unwrap_err().code, Code::ProjectInvalid, "{name}");
            assert_eq!(Slug::check_name(name).is_ok(), renamed, "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_segment_is_a_safe_one(name in ".{0,200}") {
            if let Ok(slug) = Slug::from_name(&name) {
                let text = slug.as_str();
                prop_assert!(!text.is_empty() && text.len() <= Slug::MAX);
                prop_assert!(text.starts_with(|c: char| c.is_ascii_alphanumeric()));
                prop_assert!(!text.contains(".."));
                prop_assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)));
            }
        }
    }
}
