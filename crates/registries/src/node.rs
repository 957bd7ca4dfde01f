//! Node packages: a registry's abbreviated document about one package, and ranges as npm reads them.

use std::collections::BTreeMap;

use nodejs_semver::{Range, Version};
use serde::Deserialize;
use serde_json::Value;
use stead_domain::declared::PackageSpec;

use crate::failure::Failure;
use crate::listing::Found;

/// What is asked for: the document that installers read, else the whole one.
pub(crate) const ACCEPT: &str = "application/vnd.npm.install-v1+json, application/json;q=0.5";

/// The published versions of a package, oldest first, and its tags.
#[derive(Debug)]
pub(crate) struct NodePackage {
    versions: Vec<Published>,
    tags: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Published {
    version: Version,
    deprecated: bool,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default, rename = "dist-tags")]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    versions: BTreeMap<String, Manifest>,
}

#[derive(Deserialize)]
struct Manifest {
    /// Why nobody should install it; a flag in documents of some registries.
    #[serde(default)]
    deprecated: Value,
}

/// The path of a package in a registry: the slash of a scoped name belongs to the name.
pub(crate) fn path(name: &str) -> String {
    name.replace('/', "%2F")
}

impl NodePackage {
    /// Reads a document; `None` when it says that everything was taken back.
    pub(crate) fn read(body: &[u8]) -> Result<Option<Self>, Failure> {
        let document: Document = serde_json::from_slice(body).map_err(|_| Failure::Unreadable)?;
        let published = |(text, manifest): (&String, &Manifest)| {
            let deprecated = match &manifest.deprecated {
                Value::String(reason) => !reason.is_empty(),
                Value::Bool(flag) => *flag,
                _ => false,
            };
            Some(Published { version: Version::parse(text).ok()?, deprecated })
        };
        let mut versions: Vec<Published> = document.versions.iter().filter_map(published).collect();
        versions.sort_by(|one, other| one.version.cmp(&other.version));
        Ok((!versions.is_empty()).then_some(Self { versions, tags: document.tags }))
    }

    /// What the tag `latest` names, which is what is installed when nothing is asked for.
    pub(crate) fn latest(&self) -> Option<String> {
        self.tags.get("latest").cloned().or_else(|| self.newest(&Range::any()))
    }

    /// The version that a spec would install; `None` when what it asks for is neither version, range nor tag.
    pub(crate) fn find(&self, spec: &PackageSpec) -> Option<Found> {
        let wanted = spec.version().trim();
        if wanted.is_empty() {
            return Some(Found { pinned: false, fitting: self.latest() });
        }
        if let Ok(version) = Version::parse(wanted.trim_start_matches(['=', 'v'])) {
            let published = self.versions.iter().find(|published| published.version == version);
            return Some(Found { pinned: true, fitting: published.map(|published| published.version.to_string()) });
        }
        match Range::parse(wanted) {
            Ok(range) => Some(Found { pinned: false, fitting: self.newest(&range) }),
            Err(_) if is_tag(wanted) => Some(Found { pinned: false, fitting: self.tags.get(wanted).cloned() }),
            Err(_) => None,
        }
    }

    /// As npm picks: what `latest` names where it fits, else the newest, one that nobody warns of before one that somebody
    /// does.
    fn newest(&self, range: &Range) -> Option<String> {
        let fits = |published: &&Published| published.version.satisfies(range);
        let latest = self.tags.get("latest").and_then(|latest| Version::parse(latest).ok());
        let latest = latest.and_then(|latest| self.versions.iter().find(|published| published.version == latest));
        let best = latest.filter(fits).filter(|published| !published.deprecated).or_else(|| {
            let fitting = || self.versions.iter().rev().filter(fits);
            fitting().find(|published| !published.deprecated).or_else(|| fitting().next())
        });
        best.map(|published| published.version.to_string())
    }
}

/// A range is no tag, and a tag begins with a letter.
fn is_tag(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-'))
}

#[cfg(test)]
mod tests {
    use stead_domain::declared::PackageManager;

    use super::*;

    const DOCUMENT: &str = r#"{"name":"a","modified":"x","dist-tags":{"latest":"1.10.0","beta":"2.0.0-beta.1"},"versions":{
        "0.9.0":{"deprecated":"old"},"1.2.0":{"dist":{}},"1.9.0":{"deprecated":""},"1.10.0":{},"1.11.0":{},
        "2.0.0-beta.1":{},"2.0.0-beta.2":{"deprecated":"oops"},"nonsense":{}}}"#;

    #[test]
    fn specs_find_what_npm_would_install() {
        let package = NodePackage::read(DOCUMENT.as_bytes()).unwrap().unwrap();
        assert_eq!(package.latest().as_deref(), Some("1.10.0"));
        for (spec, pinned, fitting) in [
            ("a", false, Some("1.10.0")),
            ("a@1.2.0", true, Some("1.2.0")),
            ("a@1.2.1", true, None),
            ("a@^1.2", false, Some("1.10.0")),
            ("a@~1.9.0", false, Some("1.9.0")),
            ("a@>1.10.0", false, Some("1.11.0")),
            ("a@<1 || 3.x", false, Some("0.9.0")),
            ("a@1", false, Some("1.10.0")),
            ("a@*", false, Some("1.10.0")),
            ("a@beta", false, Some("2.0.0-beta.1")),
            ("a@next", false, None),
            ("a@>=2.0.0-beta.1", false, Some("2.0.0-beta.1")),
            ("a@3", false, None),
        ] {
            let spec = PackageSpec::parse(PackageManager::Npm, spec).unwrap();
            let found = package.find(&spec).unwrap();
            assert_eq!((found.pinned, found.fitting.as_deref()), (pinned, fitting), "{spec}");
        }
        let wrong = PackageSpec::parse(PackageManager::Npm, "a@1.x.y.z").unwrap();
        assert_eq!(package.find(&wrong), None);
        assert!(NodePackage::read(b"{}").unwrap().is_none());
        assert_eq!(NodePackage::read(b"<html>").unwrap_err(), Failure::Unreadable);
        assert_eq!(path("@scope/name"), "@scope%2Fname");
    }
}
