//! `uv.lock`: every package of every machine, as a graph.

use toml::{Table, Value};

use super::PythonLock;
use super::dependency::normal_name;
use super::error::LockError;
use super::reach::Graph;
use super::requirement::{LockedRequirement, LockedSource, local_path};
use super::uv_fit::Member;
use crate::manifest::text::decode;

/// A parsed `uv.lock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UvLock {
    /// What it comes to.
    pub lock: PythonLock,
    /// The packages of the source, the project among them, with the dependencies that they had when the lock was made.
    pub members: Vec<Member>,
}

impl UvLock {
    /// Parses the file's bytes. `named_indexes` are those that the project itself names: packages of them are taken from
    /// there, all others from the index that the server is told to use.
    ///
    /// What is installed is what the package at the root needs; where there is none, what every member of the workspace needs.
    pub fn parse(bytes: &[u8], named_indexes: &[String]) -> Result<Self, LockError> {
        let text = decode(bytes).map_err(LockError::Text)?;
        let table: Table =
            text.parse().map_err(|error: toml::de::Error| LockError::Syntax(error.message().to_owned()))?;
        match table.get("version").and_then(Value::as_integer) {
            Some(1) => {}
            other => return Err(LockError::Unsupported(format!("version {}", other.unwrap_or(0)))),
        }
        let packages = tables(table.get("package")).map(Package::read).collect::<Result<Vec<_>, _>>()?;
        let (graph, roots) = graph_of(&packages)?;
        let needed = graph.needed(&roots)?;
        let mut lock = PythonLock {
            requires_python: table.get("requires-python").and_then(Value::as_str).map(str::to_owned),
            ..PythonLock::default()
        };
        let mut members = Vec::new();
        for (package, needed) in packages.iter().zip(&needed) {
            let local = package.local_directory()?;
            if let Some(directory) = &local {
                members.push(Member::read(package.name, directory, package.table));
            }
            if !needed.is_somewhere() {
                continue;
            }
            match local {
                Some(_) if package.source.contains_key("virtual") => {}
                Some(directory) if directory.is_empty() => lock.installs_root = true,
                _ => lock.packages.push(package.requirement(needed.marker(), named_indexes)?),
            }
        }
        Ok(Self { lock: lock.sorted(), members })
    }
}

/// One entry.
struct Package<'a> {
    name: &'a str,
    version: Option<&'a str>,
    source: &'a Table,
    table: &'a Table,
}

impl<'a> Package<'a> {
    fn read(table: &'a Table) -> Result<Self, LockError> {
        let name = table.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| LockError::Unsupported("a package without a name".to_owned()))?;
        let source = table.get("source").and_then(Value::as_table);
        let source = source.ok_or_else(|| LockError::package(name, "it has no source"))?;
        Ok(Self { name, version: table.get("version").and_then(Value::as_str), source, table })
    }

    fn source(&self, key: &str) -> Option<&'a str> {
        self.source.get(key).and_then(Value::as_str)
    }

    /// Where it lies in the source, if it does.
    fn local_directory(&self) -> Result<Option<String>, LockError> {
        let path = ["editable", "virtual", "directory"].into_iter().find_map(|key| self.source(key));
        path.map(|path| local_path(self.name, "", path)).transpose()
    }

    fn requirement(&self, marker: Option<String>, named: &[String]) -> Result<LockedRequirement, LockError> {
        let archives = tables(self.table.get("wheels")).chain(self.table.get("sdist").and_then(Value::as_table));
        let mut hashes: Vec<String> =
            archives.filter_map(|archive| archive.get("hash")?.as_str()).map(str::to_owned).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut specifier = String::new();
        let source = if let Some(registry) = self.source("registry") {
            let version = self.version.ok_or_else(|| LockError::package(self.name, "it has no version"))?;
            specifier = format!("=={version}");
            if !registry.contains("://") || registry.starts_with("file:") {
                return Err(LockError::package(self.name, "an index that is a directory is not supported"));
            }
            let same = |url: &&String| url.trim_end_matches('/') == registry.trim_end_matches('/');
            LockedSource::Index(named.iter().find(same).cloned())
        } else if let Some(url) = self.source("git") {
            git(self.name, url)?
        } else if let Some(url) = self.source("url") {
            LockedSource::Url { url: url.to_owned(), subdirectory: self.source("subdirectory").map(str::to_owned) }
        } else if let Some(path) = self.source("path") {
            LockedSource::Archive(local_path(self.name, "", path)?)
        } else if let Some(directory) = self.local_directory()? {
            hashes.clear();
            LockedSource::Directory(directory)
        } else {
            return Err(LockError::package(self.name, "its source is not understood"));
        };
        LockedRequirement { name: self.name.to_owned(), specifier, marker, hashes, source }.checked()
    }
}

/// `https://host/repo?rev=main&subdirectory=d#<commit>`.
fn git(name: &str, url: &str) -> Result<LockedSource, LockError> {
    let (address, commit) = url.rsplit_once('#').ok_or_else(|| LockError::package(name, "it names no commit"))?;
    let (address, query) = address.split_once('?').unwrap_or((address, ""));
    let subdirectory = query.split('&').find_map(|part| part.strip_prefix("subdirectory="));
    let subdirectory = subdirectory.map(|path| path.replace("%2F", "/"));
    Ok(LockedSource::Git { url: address.to_owned(), commit: commit.to_owned(), subdirectory })
}

fn tables(value: Option<&Value>) -> impl Iterator<Item = &Table> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn graph_of(packages: &[Package<'_>]) -> Result<(Graph, Vec<usize>), LockError> {
    let mut graph = Graph::default();
    let mut by_name = std::collections::BTreeMap::<&str, Vec<usize>>::new();
    for package in packages {
        by_name.entry(package.name).or_default().push(graph.node());
    }
    // An extra of a package is a node of its own, which needs what the extra adds.
    let mut extras = std::collections::BTreeMap::new();
    for (index, package) in packages.iter().enumerate() {
        for extra in package.table.get("optional-dependencies").and_then(Value::as_table).into_iter().flatten() {
            extras.insert((index, normal_name(extra.0)), graph.node());
        }
    }
    let connect = |graph: &mut Graph, from: usize, dependencies: Option<&Value>| -> Result<(), LockError> {
        for dependency in tables(dependencies) {
            let name = dependency.get("name").and_then(Value::as_str).unwrap_or_default();
            let is_meant = |index: &&usize| {
                let package = &packages[**index];
                dependency.get("version").is_none_or(|version| version.as_str() == package.version)
                    && dependency.get("source").is_none_or(|source| source.as_table() == Some(package.source))
            };
            let mut meant = by_name.get(name).into_iter().flatten().filter(is_meant);
            let (Some(&to), None) = (meant.next(), meant.next()) else {
                return Err(LockError::package(name, "another package needs it, but the lock does not say which one"));
            };
            let marker = dependency.get("marker").and_then(Value::as_str).map(str::to_owned);
            graph.edge(from, to, marker.clone());
            let wanted = dependency.get("extra").and_then(Value::as_array).into_iter().flatten();
            for extra in wanted.filter_map(Value::as_str) {
                if let Some(&extra) = extras.get(&(to, normal_name(extra))) {
                    graph.edge(from, extra, marker.clone());
                }
            }
        }
        Ok(())
    };
    for (index, package) in packages.iter().enumerate() {
        connect(&mut graph, index, package.table.get("dependencies"))?;
        for (extra, dependencies) in
            package.table.get("optional-dependencies").and_then(Value::as_table).into_iter().flatten()
        {
            connect(&mut graph, extras[&(index, normal_name(extra))], Some(dependencies))?;
        }
    }
    let mut members = Vec::new();
    for (index, package) in packages.iter().enumerate() {
        match package.local_directory()? {
            Some(directory) if directory.is_empty() => return Ok((graph, vec![index])),
            Some(_) => members.push(index),
            None => {}
        }
    }
    Ok((graph, members))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &[u8] = include_bytes!("../../../tests/locks/uv.lock");
    const WORKSPACE: &[u8] = include_bytes!("../../../tests/locks/uv-workspace.lock");

    fn lines(lock: &PythonLock) -> Vec<String> {
        lock.packages.iter().map(|one| one.line("/m").split(" --hash").next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn a_lock_comes_to_what_the_root_needs() {
        let parsed = UvLock::parse(LOCK, &[]).unwrap().lock;
        assert_eq!(
            lines(&parsed),
            [
                "click==8.1.8 ; python_full_version < '3.10' and sys_platform == 'win32'",
                "click==8.5.1 ; python_full_version >= '3.10' and sys_platform == 'win32'",
                "colorama==0.4.6 ; python_full_version < '3.10' and sys_platform == 'win32'",
                "coverage==7.10.7 ; python_full_version < '3.10'",
                "coverage==7.16.2 ; python_full_version == '3.10.*'",
                "coverage==7.17.5 ; python_full_version >= '3.11'",
                "iniconfig==2.1.0 ; python_full_version < '3.10'",
                "iniconfig==2.3.1 ; python_full_version >= '3.10'",
                "numpy==1.26.4 ; python_full_version < '3.10'",
                "numpy==2.2.6 ; python_full_version == '3.10.*'",
                "numpy==2.4.6 ; python_full_version == '3.11.*'",
                "numpy==2.5.5 ; python_full_version >= '3.12'",
                "own @ file:///m/libs/own",
                "packaging==26.3 ; python_full_version < '3.10'",
                "packaging==26.4 ; python_full_version >= '3.10'",
                "tomli==2.5.0 ; (python_full_version < '3.10') or (python_full_version == '3.10.*')",
            ]
        );
        assert!(parsed.installs_root && parsed.requires_python.as_deref() == Some(">=3.9"));
        assert!(parsed.packages.iter().all(LockedRequirement::is_pinned));
        let hashed = parsed.packages.iter().filter(|one| matches!(one.source, LockedSource::Index(None)));
        assert!(hashed.clone().count() > 8 && hashed.clone().all(|one| one.hashes.len() > 1));
    }

    #[test]
    fn a_workspace_without_a_root_comes_to_all_its_members() {
        let parsed = UvLock::parse(WORKSPACE, &[]).unwrap();
        let lines = lines(&parsed.lock);
        assert_eq!(lines.iter().filter(|line| line.contains(" @ ")).collect::<Vec<_>>(), ["a @ file:///m/packages/a"]);
        assert!(lines.iter().any(|line| line == "six==1.17.0") && !parsed.lock.installs_root);
    }

    #[test]
    fn sources_become_what_they_name() {
        let lock = |package: &str| {
            let text = format!(
                "version = 1\n[[package]]\nname = 'r'\nsource = {{ virtual = '.' }}\ndependencies = [{{ name = 'a' }}]\n\
                 [[package]]\nname = 'a'\nversion = '1'\n{package}"
            );
            UvLock::parse(text.as_bytes(), &["https://own.example/simple/".to_owned()])
                .map(|parsed| lines(&parsed.lock))
        };
        for (package, line) in [
            (
                "source = { git = 'https://h/r?rev=x&subdirectory=d%2Fe#c0ffee' }",
                "a @ git+https://h/r@c0ffee#subdirectory=d/e",
            ),
            ("source = { url = 'https://h/a.zip' }", "a @ https://h/a.zip"),
            ("source = { path = 'vendor/a.whl' }", "a @ file:///m/vendor/a.whl"),
            ("source = { directory = 'libs/a' }", "a @ file:///m/libs/a"),
            ("source = { registry = 'https://any.example/simple' }", "a==1"),
        ] {
            assert_eq!(lock(package).unwrap(), [line]);
        }
        for package in [
            "source = { path = '../a.whl' }",
            "source = { registry = 'vendor' }",
            "source = { moon = 'x' }",
            "",
            "source = { git = 'https://h/r' }",
        ] {
            assert!(lock(package).unwrap_err().to_string().contains("`a`"), "{package}");
        }
        let own = "version = 1\n[[package]]\nname = 'r'\nsource = { editable = '.' }\ndependencies = [{ name = 'a' }]\n\
            [[package]]\nname = 'a'\nversion = '1'\nsource = { registry = 'https://own.example/simple' }";
        let parsed = UvLock::parse(own.as_bytes(), &["https://own.example/simple/".to_owned()]).unwrap().lock;
        assert_eq!(parsed.packages[0].source, LockedSource::Index(Some("https://own.example/simple/".into())));
        assert!(UvLock::parse(b"version = 2", &[]).unwrap_err().to_string().contains("version 2"));
    }
}
