//! `yarn.lock`, of classic Yarn and of its successors: which of the two it is, and which files of the source it makes Yarn read.
//!
//! Whether a lock fits its manifests is Yarn's judgement and not repeated here.

use std::collections::BTreeSet;

use serde_json::Value;

use super::package_json::{is_archive, string};
use super::pnpm_lock::beneath;
use super::text::decode;
use super::yaml::{self, YamlError};

/// A parsed `yarn.lock`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct YarnLock {
    /// `__metadata.version`, which classic locks lack.
    pub format: Option<u32>,
    /// The directories of the workspace's packages, the root being `.`. Classic locks don't name them.
    pub members: Vec<String>,
    /// Package archives in the source, relative to the root.
    pub local_archives: Vec<String>,
    /// What a classic lock answers: `ms@^2.0.0`.
    pub patterns: BTreeSet<String>,
    /// How many of its packages no hash verifies.
    pub unhashed: usize,
    /// Whether it copies a directory of the source, runs code of it, or reads what cannot be named beforehand.
    pub needs_whole_source: bool,
}

impl YarnLock {
    /// Parses the file's bytes. An empty file is an empty lock of either kind.
    pub fn parse(bytes: &[u8]) -> Result<Self, YamlError> {
        let text = decode(bytes).map_err(YamlError::Text)?;
        if text.lines().any(|line| line.trim_end() == "__metadata:") {
            Self::berry(bytes)
        } else {
            Ok(Self::classic(text))
        }
    }

    fn berry(bytes: &[u8]) -> Result<Self, YamlError> {
        let root = yaml::mapping(bytes)?;
        let format = root.get("__metadata").and_then(|metadata| metadata["version"].as_str()).unwrap_or_default();
        let mut lock = Self { format: Some(format.parse().unwrap_or(0)), ..Self::default() };
        for (key, entry) in &root {
            let Value::Object(entry) = entry else { continue };
            let Some(resolution) = string(entry, "resolution").filter(|_| key != "__metadata") else { continue };
            // A scope begins with the same sign.
            let Some((_, reference)) = resolution.get(1..).and_then(|rest| rest.split_once('@')) else { continue };
            lock.add_reference(reference);
            let soft = string(entry, "linkType").as_deref() == Some("soft");
            // A commit is a hash of its own.
            if !soft && !entry.contains_key("checksum") && !reference.contains("commit=") {
                lock.unhashed += 1;
            }
        }
        Ok(lock)
    }

    /// What follows the name in a resolution: `npm:1.0.0`, `workspace:packages/a`, `patch:…#~/.yarn/patches/…`.
    fn add_reference(&mut self, reference: &str) {
        let (protocol, rest) = reference.split_once(':').unwrap_or(("", reference));
        match protocol {
            "workspace" => self.members.push(rest.to_owned()),
            "file" => self.add_file(rest.split("::").next().unwrap_or(rest)),
            "patch" => {
                let patches = rest.split_once('#').map_or("", |(_, patches)| patches);
                let known = |patch: &str| {
                    let patch = patch.trim_start_matches("optional!");
                    patch.starts_with("builtin<") || patch.starts_with("~/.yarn/") || patch.starts_with("./.yarn/")
                };
                let patches = patches.split("::").next().unwrap_or(patches);
                self.needs_whole_source |= !patches.split('&').all(known);
            }
            "exec" => self.needs_whole_source = true,
            _ => {}
        }
    }

    fn add_file(&mut self, path: &str) {
        let path = path.split('#').next().unwrap_or(path);
        match beneath(path).filter(|path| is_archive(path)) {
            Some(path) => self.local_archives.push(path),
            None => self.needs_whole_source = true,
        }
    }

    /// Entries begin at a line's start, and what belongs to them is indented.
    fn classic(text: &str) -> Self {
        let mut lock = Self::default();
        let mut hashed = true;
        for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if !line.starts_with(' ') {
                lock.unhashed += usize::from(!hashed);
                hashed = false;
                for pattern in line.trim_end_matches(':').split(", ") {
                    let pattern = pattern.trim_matches('"');
                    lock.patterns.insert(pattern.to_owned());
                    let range = pattern.get(1..).and_then(|rest| rest.split_once('@')).map_or("", |(_, range)| range);
                    match range.strip_prefix("file:") {
                        Some(path) => lock.add_file(path),
                        None if ["./", "../", "/", "~/"].iter().any(|place| range.starts_with(place)) => {
                            lock.add_file(range);
                        }
                        // A link is a place, not content.
                        None => hashed |= range.starts_with("link:"),
                    }
                }
            } else if line.starts_with("  integrity ") || (line.starts_with("  resolved ") && line.contains('#')) {
                // The address of an archive ends with its SHA-1, that of a repository with its commit.
                hashed = true;
            }
        }
        lock.unhashed += usize::from(!hashed);
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_locks_name_archives_and_copied_directories() {
        let text = "# yarn lockfile v1\n\n\n\"@s/a@^1.0.0\", \"@s/a@~1.0.0\":\n  version \"1.0.0\"\n  integrity sha512-x\n\n\
            b@1:\n  version \"1.0.0\"\n\n\"c@file:./vendor/c.tgz\":\n  version \"1.0.0\"\n  resolved \"file:./vendor/c.tgz#abc\"\n\n\
            \"d@link:./d\":\n  version \"0.0.0\"\n  uid \"\"\n";
        let lock = YarnLock::parse(text.as_bytes()).unwrap();
        assert_eq!((lock.format, lock.unhashed, lock.needs_whole_source), (None, 1, false));
        assert_eq!(lock.local_archives, ["vendor/c.tgz"]);
        assert!(lock.patterns.contains("@s/a@~1.0.0") && lock.patterns.len() == 5, "{:?}", lock.patterns);
        for text in ["\"e@file:e\":\n  version \"1\"\n", "\"e@./e\":\n  version \"1\"\n", "\"e@file:../e.tgz\":\n"] {
            assert!(YarnLock::parse(text.as_bytes()).unwrap().needs_whole_source, "{text}");
        }
        assert_eq!(YarnLock::parse(b"").unwrap(), YarnLock::default());
    }

    #[test]
    fn later_locks_name_members_and_what_they_patch_or_run() {
        let lock = |resolution: &str| {
            let text = format!(
                "__metadata:\n  version: 8\n  cacheKey: 10c0\n\n\"x@1\":\n  version: 1\n  resolution: \"{resolution}\"\n  linkType: hard\n"
            );
            YarnLock::parse(text.as_bytes()).unwrap()
        };
        let plain = lock("@s/x@npm:1.0.0");
        assert_eq!((plain.format, plain.unhashed, plain.needs_whole_source), (Some(8), 1, false));
        assert_eq!(lock("a@workspace:packages/a").members, ["packages/a"]);
        assert_eq!(lock("x@file:vendor/x.tgz#./vendor/x.tgz::hash=1&locator=r").local_archives, ["vendor/x.tgz"]);
        for known in
            ["builtin<compat/x>", "~/.yarn/patches/x.patch::version=1", "optional!builtin<compat/x>", "./.yarn/x"]
        {
            assert!(!lock(&format!("x@patch:x@npm%3A1#{known}")).needs_whole_source, "{known}");
        }
        for reading in ["x@patch:x@npm%3A1#~/patches/x.patch", "x@exec:./make.js", "x@file:./x::locator=r"] {
            assert!(lock(reading).needs_whole_source, "{reading}");
        }
    }
}
