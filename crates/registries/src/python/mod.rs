//! Python packages: an index of the simple repository API, as pages of JSON (PEP 691) or HTML (PEP 503).
//!
//! What is published is what files say, as it is for pip: a version that no file has cannot be installed.

mod filename;
mod html;
mod json;

use std::collections::BTreeMap;
use std::str::FromStr;

use pep440_rs::{Operator, Version, VersionSpecifiers};
use stead_domain::declared::PackageSpec;

use crate::failure::Failure;
use crate::fetch::Fetched;
use crate::listing::Found;

/// What is asked for, in order of preference.
pub(crate) const ACCEPT: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// One file of an index's page.
#[derive(Debug, PartialEq, Eq)]
struct File {
    name: String,
    /// Taken back by its author: installed only where it is pinned.
    yanked: bool,
}

/// The published versions of a package, each with whether every file of it was taken back.
#[derive(Debug)]
pub(crate) struct PythonPackage(BTreeMap<Version, bool>);

/// The one spelling that an index knows a package by (PEP 503).
pub(crate) fn normalized(name: &str) -> String {
    let mut normalized = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '-' | '_' | '.' if normalized.ends_with('-') => {}
            '-' | '_' | '.' => normalized.push('-'),
            other => normalized.push(other.to_ascii_lowercase()),
        }
    }
    normalized
}

impl PythonPackage {
    /// Reads an index's page about the package of that normalized name.
    pub(crate) fn read(name: &str, fetched: &Fetched) -> Result<Self, Failure> {
        let files = match fetched.media_type.as_str() {
            "text/html" | "application/vnd.pypi.simple.v1+html" => {
                html::files(&String::from_utf8_lossy(&fetched.body)).collect()
            }
            _ => json::files(&fetched.body)?,
        };
        Ok(Self::of(name, files))
    }

    fn of(name: &str, files: Vec<File>) -> Self {
        let mut versions = BTreeMap::new();
        for file in files {
            // Versions from before PEP 440 are none to any installer of today.
            let version = filename::version(name, &file.name).and_then(|text| Version::from_str(&text).ok());
            if let Some(version) = version {
                *versions.entry(version).or_insert(true) &= file.yanked;
            }
        }
        Self(versions)
    }

    /// The newest version that was not taken back; one before a release only where there is no release.
    pub(crate) fn latest(&self) -> Option<String> {
        self.newest(|_| true, false).map(ToString::to_string)
    }

    /// The version that a spec would install; `None` when what it asks for is no version.
    pub(crate) fn find(&self, spec: &PackageSpec) -> Option<Found> {
        let specifiers = VersionSpecifiers::from_str(spec.constraint()).ok()?;
        let pinned = match &specifiers[..] {
            [only] => matches!(only.operator(), Operator::Equal | Operator::ExactEqual),
            _ => false,
        };
        let fits = |version: &Version| specifiers.contains(version);
        let fitting = if pinned {
            // A pin is served even when it was taken back, the plain version before its local variants.
            self.0.keys().find(|version| fits(version))
        } else {
            self.newest(fits, specifiers.iter().any(|specifier| specifier.version().any_prerelease()))
        };
        Some(Found { pinned, fitting: fitting.map(ToString::to_string) })
    }

    fn newest(&self, fits: impl Fn(&Version) -> bool, prereleases: bool) -> Option<&Version> {
        let mut all =
            self.0.iter().rev().filter(|(version, yanked)| !**yanked && fits(version)).map(|(version, _)| version);
        let newest = all.next()?;
        if prereleases || !newest.any_prerelease() {
            return Some(newest);
        }
        Some(all.find(|version| !version.any_prerelease()).unwrap_or(newest))
    }
}

#[cfg(test)]
mod tests {
    use stead_domain::declared::PackageManager;

    use super::*;

    fn package(files: &[(&str, bool)]) -> PythonPackage {
        let file = |&(name, yanked): &(&str, bool)| File { name: name.to_owned(), yanked };
        PythonPackage::of("foo-bar", files.iter().map(file).collect())
    }

    #[test]
    fn specs_find_what_pip_would_install() {
        let package = package(&[
            ("foo_bar-1.0-py3-none-any.whl", false),
            ("foo-bar-1.10.tar.gz", false),
            ("foo-bar-1.9.zip", false),
            ("foo_bar-2.0-py3-none-any.whl", true),
            ("foo_bar-2.1rc1-py3-none-any.whl", false),
            ("foo_bar-1.10.post1-1-py3-none-any.whl", true),
            ("foo-bar-1.10.post1.tar.gz", false),
            ("foo-bar-nonsense.tar.gz", false),
        ]);
        assert_eq!(package.latest().as_deref(), Some("1.10.post1"));
        for (spec, pinned, fitting) in [
            ("Foo.Bar", false, Some("1.10.post1")),
            ("foo-bar==1.0.0", true, Some("1.0")),
            ("foo-bar==1.8", true, None),
            ("foo-bar===1.9", true, Some("1.9")),
            ("foo-bar==2.0", true, Some("2.0")),
            ("foo-bar==1.*", false, Some("1.10.post1")),
            ("foo-bar[x]>=1,<1.10", false, Some("1.9")),
            ("foo-bar~=1.0", false, Some("1.10.post1")),
            ("foo-bar!=1.10.post1", false, Some("1.10")),
            ("foo-bar>=2", false, Some("2.1rc1")),
            ("foo-bar>=1.0rc1", false, Some("2.1rc1")),
            ("foo-bar>3", false, None),
        ] {
            let spec = PackageSpec::parse(PackageManager::Pip, spec).unwrap();
            let found = package.find(&spec).unwrap();
            assert_eq!((found.pinned, found.fitting.as_deref()), (pinned, fitting), "{spec}");
        }
        let wrong = PackageSpec::parse(PackageManager::Pip, "foo-bar~=1.0.*").unwrap();
        assert!(package.find(&wrong).is_none());
    }

    #[test]
    fn without_a_release_the_newest_before_it_is_the_latest() {
        assert_eq!(
            package(&[("foo_bar-1.0a1.tar.gz", false), ("foo_bar-1.0b2.tar.gz", false)]).latest().unwrap(),
            "1.0b2"
        );
        assert_eq!(package(&[("foo_bar-1.0.tar.gz", true)]).latest(), None);
        assert_eq!(normalized("Foo_.-Bar"), "foo-bar");
    }
}
