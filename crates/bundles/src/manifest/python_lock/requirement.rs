//! One package of a lock as a line of a requirements file.

use std::fmt::Write as _;

use super::error::LockError;
use crate::manifest::requirements::join;
use crate::manifest::requirements_line::is_remote;

/// One package of a lock. Every text in it is checked to be one that cannot break out of its line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedRequirement {
    /// Its name.
    pub name: String,
    /// `==1.0`; empty where the source says which version.
    pub specifier: String,
    /// On which machines it is installed; on all without one.
    pub marker: Option<String>,
    /// What its archives may hash to: `sha256:…`.
    pub hashes: Vec<String>,
    /// Where it comes from.
    pub source: LockedSource,
}

/// Where a locked package comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockedSource {
    /// An index: the one that the server is told to use, or one that the project names.
    Index(Option<String>),
    /// A commit of a repository.
    Git {
        /// Its address without `git+`.
        url: String,
        /// The commit.
        commit: String,
        /// The directory of the package within it.
        subdirectory: Option<String>,
    },
    /// An archive somewhere else.
    Url {
        /// Its address.
        url: String,
        /// The directory of the package within it.
        subdirectory: Option<String>,
    },
    /// An archive of the source, relative to its root.
    Archive(String),
    /// A directory of the source, relative to its root.
    Directory(String),
}

impl LockedRequirement {
    /// The line, for a project whose root lies at `mount`.
    pub fn line(&self, mount: &str) -> String {
        let mut line = self.name.clone();
        let inside = |subdirectory: &Option<String>, url: &str| {
            let first = if url.contains('#') { '&' } else { '#' };
            subdirectory.as_ref().map_or(String::new(), |directory| format!("{first}subdirectory={directory}"))
        };
        // Writing to a string cannot fail.
        let _ = match &self.source {
            LockedSource::Index(_) => write!(line, "{}", self.specifier),
            LockedSource::Git { url, commit, subdirectory } => {
                write!(line, " @ git+{url}@{commit}{}", inside(subdirectory, ""))
            }
            LockedSource::Url { url, subdirectory } => write!(line, " @ {url}{}", inside(subdirectory, url)),
            LockedSource::Archive(path) | LockedSource::Directory(path) => write!(line, " @ {}", file_url(mount, path)),
        };
        if let Some(marker) = &self.marker {
            let _ = write!(line, " ; {marker}");
        }
        for hash in &self.hashes {
            let _ = write!(line, " --hash={hash}");
        }
        line
    }

    /// Whether the line can mean one version alone.
    pub fn is_pinned(&self) -> bool {
        !matches!(self.source, LockedSource::Index(_))
            || (self.specifier.starts_with("==") && !self.specifier.contains('*'))
    }

    /// Refuses what could mean something else than itself in a requirements file.
    pub(super) fn checked(self) -> Result<Self, LockError> {
        let refuse = |what: &str| Err(LockError::package(&self.name, format!("its {what} is not understood")));
        let has_ends = |c: char| c.is_ascii_alphanumeric();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !(self.name.starts_with(has_ends) && self.name.ends_with(has_ends) && self.name.chars().all(is_name)) {
            return refuse("name");
        }
        let is_specifier = |c: char| c.is_ascii_alphanumeric() || "<>=!~.,*+-_ ".contains(c);
        let starts = self.specifier.is_empty() || self.specifier.starts_with(['<', '>', '=', '!', '~']);
        if !starts || !self.specifier.chars().all(is_specifier) || self.specifier.contains(" -") {
            return refuse("version");
        }
        if self
            .marker
            .as_deref()
            .is_some_and(|marker| is_loose(marker) || marker.contains(" -") || marker.contains('#'))
        {
            return refuse("marker");
        }
        let is_hash = |hash: &String| {
            hash.split_once(':').is_some_and(|(kind, digits)| {
                kind.starts_with("sha")
                    && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
                    && !digits.is_empty()
                    && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        };
        if !self.hashes.iter().all(is_hash) {
            return refuse("hash");
        }
        let is_word = |text: &str| !text.is_empty() && !is_loose(text) && !text.contains(char::is_whitespace);
        let fits = match &self.source {
            LockedSource::Index(url) => url.as_deref().is_none_or(|url| is_word(url) && is_remote(url)),
            LockedSource::Git { url, commit, subdirectory } => {
                is_word(url) && is_remote(url) && is_word(commit) && subdirectory.as_deref().is_none_or(is_word)
            }
            LockedSource::Url { url, subdirectory } => {
                is_word(url) && is_remote(url) && subdirectory.as_deref().is_none_or(is_word)
            }
            LockedSource::Archive(_) | LockedSource::Directory(_) => true,
        };
        if fits { Ok(self) } else { refuse("source") }
    }
}

fn is_loose(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// A path of a lock relative to the root.
pub(super) fn local_path(name: &str, directory: &str, path: &str) -> Result<String, LockError> {
    match join(directory, path).filter(|path| !is_loose(path)) {
        Some(path) => Ok(path),
        None => Err(LockError::package(name, format!("its path `{path}` is not within the project"))),
    }
}

fn file_url(mount: &str, path: &str) -> String {
    let mut url = format!("file://{mount}");
    if !path.is_empty() {
        url.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/.-_~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexed(name: &str) -> LockedRequirement {
        LockedRequirement {
            name: name.into(),
            specifier: "==1.0+cpu".into(),
            marker: Some("sys_platform == 'linux'".into()),
            hashes: vec!["sha256:00ff".into()],
            source: LockedSource::Index(None),
        }
    }

    #[test]
    fn lines_are_what_installers_read() {
        let mut one = indexed("a");
        assert_eq!(one.line("/env/p"), "a==1.0+cpu ; sys_platform == 'linux' --hash=sha256:00ff");
        one = LockedRequirement { specifier: String::new(), marker: None, hashes: vec![], ..one };
        for (source, expected) in [
            (LockedSource::Directory("libs/a b".into()), "a @ file:///env/p/libs/a%20b"),
            (LockedSource::Directory(String::new()), "a @ file:///env/p"),
            (
                LockedSource::Git {
                    url: "https://h/r.git".into(),
                    commit: "c0".into(),
                    subdirectory: Some("d".into()),
                },
                "a @ git+https://h/r.git@c0#subdirectory=d",
            ),
            (
                LockedSource::Url { url: "https://h/a.zip#x=1".into(), subdirectory: Some("d".into()) },
                "a @ https://h/a.zip#x=1&subdirectory=d",
            ),
        ] {
            one.source = source;
            assert_eq!(one.clone().checked().unwrap().line("/env/p"), expected);
        }
    }

    #[test]
    fn nothing_breaks_out_of_its_line() {
        let edits: [fn(&mut LockedRequirement); 9] = [
            |one| one.name = "-r".into(),
            |one| one.name = "a\n-r x".into(),
            |one| one.specifier = "==1 --hash=x".into(),
            |one| one.specifier = "1.0".into(),
            |one| one.marker = Some("x\n-e .".into()),
            |one| one.marker = Some("x --config-settings=y".into()),
            |one| one.hashes = vec!["sha256:".into()],
            |one| one.source = LockedSource::Index(Some("file:///x".into())),
            |one| one.source = LockedSource::Url { url: "https://h/ -r".into(), subdirectory: None },
        ];
        for edit in edits {
            let mut one = indexed("a");
            edit(&mut one);
            assert!(one.clone().checked().is_err(), "{one:?}");
        }
        assert!(local_path("a", "libs", "../x").is_ok() && local_path("a", "", "../x").is_err());
    }
}
