//! Whether a `uv.lock` fits the `pyproject.toml` files that it was made from.
//!
//! Compared are names and versions of the main dependencies, in so far as both are plain. What cannot be compared counts as
//! fitting: a build must not fail over a way of writing.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::dependency::{Dependency, clauses, normal_name};
use super::error::LockError;
use crate::manifest::Pyproject;

type Clauses = Option<BTreeSet<String>>;

/// A package of the source, as it was when the lock was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where it lies, relative to the root; empty for the root.
    pub directory: String,
    /// Names with what they were asked to be; the latter is none where it cannot be compared.
    requires: BTreeSet<(String, Clauses)>,
}

impl Member {
    pub(super) fn read(name: &str, directory: &str, package: &Table) -> Self {
        let listed = package.get("metadata").and_then(|metadata| metadata.get("requires-dist"));
        let listed = listed.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table);
        let text = |entry: &Table, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let main = listed.filter(|entry| !text(entry, "marker").contains("extra =="));
        let requires = main.map(|entry| {
            let is_plain = entry.keys().all(|key| matches!(key.as_str(), "name" | "extras" | "marker" | "specifier"));
            let clauses = if is_plain { clauses(&text(entry, "specifier")) } else { None };
            (normal_name(&text(entry, "name")), clauses)
        });
        Self { name: name.to_owned(), directory: directory.to_owned(), requires: requires.collect() }
    }

    /// Compares with the member's manifest as it is now.
    pub fn fits(&self, manifest: &Pyproject) -> Result<(), LockError> {
        let Some(now) = manifest.static_dependencies() else { return Ok(()) };
        let stale = |reason: String| {
            let directory = if self.directory.is_empty() { String::new() } else { format!("{}/", self.directory) };
            Err(LockError::Stale { manifest: format!("{directory}pyproject.toml"), reason, command: "uv lock" })
        };
        let now: Vec<Dependency> = now.iter().filter_map(|text| Dependency::parse(text)).collect();
        let names = |name: &str| self.requires.iter().filter(|(known, _)| known == name).collect::<Vec<_>>();
        for dependency in &now {
            let known = names(&dependency.name);
            if known.is_empty() {
                return stale(format!("it lacks the dependency `{}`", dependency.name));
            }
            let clauses = if dependency.has_address { None } else { clauses(&dependency.specifier) };
            let is_same = |(_, known): &&(String, Clauses)| known.is_none() || clauses.is_none() || *known == clauses;
            if !known.into_iter().any(|known| is_same(&known)) {
                return stale(format!(
                    "it has `{}` with another version than `{}`",
                    dependency.name, dependency.specifier
                ));
            }
        }
        match self.requires.iter().find(|(name, _)| now.iter().all(|dependency| dependency.name != *name)) {
            Some((name, _)) => stale(format!("its dependency `{name}` is no longer there")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::python_lock::UvLock;

    #[test]
    fn a_lock_fits_its_manifest_however_it_is_written() {
        let manifest = include_str!("../../../tests/locks/uv.pyproject.toml");
        let parsed = UvLock::parse(include_bytes!("../../../tests/locks/uv.lock"), &[]).unwrap();
        let root = parsed.members.iter().find(|member| member.directory.is_empty()).unwrap();
        let fits = |text: &str| root.fits(&Pyproject::parse(text.as_bytes()).unwrap());
        assert_eq!(fits(manifest), Ok(()));
        assert_eq!(fits(&manifest.replace("iniconfig>=2.0,<3", "INIconfig <3, >= 2.0")), Ok(()));
        for (from, to, reason) in [
            ("\"own\"", "\"own\", \"new_one\"", "it lacks the dependency `new-one`"),
            ("\"own\", ", "", "its dependency `own` is no longer there"),
            ("iniconfig>=2.0,<3", "iniconfig>=2.1,<3", "another version than `>=2.1,<3`"),
            ("numpy<2 ;", "numpy<1 ;", "another version than `<1`"),
        ] {
            let error = fits(&manifest.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("pyproject.toml") && error.contains("uv lock"), "{error}");
        }
        assert_eq!(fits("[project]\nname = 'ap'\ndynamic = ['dependencies']\n"), Ok(()));
    }
}
