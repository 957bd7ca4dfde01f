//! What was installed, according to the installers themselves.

mod tree;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use serde::Deserialize;
use stead_bundles::manifest::{MANIFEST_MAX_BYTES, PackageLock};
use stead_domain::build::Package;

/// npm writes down what it put on disk.
const HIDDEN_LOCK: &str = "node_modules/.package-lock.json";

#[derive(Deserialize)]
struct Listed {
    name: String,
    version: String,
}

/// Reads the output of a step's [`PackageList::Pip`](crate::plan::PackageList) command; nothing when it is not such an output.
pub fn parse_pip(output: &[u8]) -> Vec<Package> {
    parse("pip", output)
}

/// The same for [`PackageList::NpmAll`](crate::plan::PackageList).
pub fn parse_npm(output: &[u8]) -> Vec<Package> {
    parse("npm", output)
}

fn parse(manager: &str, output: &[u8]) -> Vec<Package> {
    let listed: Vec<Listed> = serde_json::from_slice(output).unwrap_or_default();
    listed.into_iter().map(|item| package(manager, item.name, item.version)).collect()
}

/// Reads the output of a step's [`PackageList::Apt`](crate::plan::PackageList) command: names and versions as packages say them of
/// themselves, a line each.
pub fn parse_apt(output: &[u8]) -> Vec<Package> {
    let output = String::from_utf8_lossy(output);
    let lines = output.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, version)| package("apt", name.to_owned(), version.to_owned())).collect()
}

/// Reads what npm, pnpm or Yarn installed beneath `tree`, the root of a step's kept tree; nothing when none of them installed
/// anything. The tree is the work of a stranger's scripts, so no link in it is followed.
pub fn read_npm(tree: &Path) -> Vec<Package> {
    let Some(bytes) = read_beneath(tree, HIDDEN_LOCK) else { return tree::read(tree) };
    let Ok(lock) = PackageLock::parse(&bytes) else { return Vec::new() };
    let mut packages: Vec<Package> =
        lock.packages.into_iter().map(|locked| package("npm", locked.name, locked.version)).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// The packages of a version from those of its steps, in the order of the steps: a later step that lists a manager's packages
/// has looked at everything that manager has installed so far.
pub fn combine<'a>(steps: impl IntoIterator<Item = &'a [Package]>) -> Vec<Package> {
    let mut combined: Vec<Package> = Vec::new();
    for listed in steps {
        combined.retain(|old| !listed.iter().any(|new| new.manager == old.manager));
        combined.extend_from_slice(listed);
    }
    combined.sort_unstable();
    combined
}

fn package(manager: &str, name: String, version: String) -> Package {
    Package { manager: manager.to_owned(), name, version }
}

fn read_beneath(tree: &Path, path: &str) -> Option<Vec<u8>> {
    let root = rustix::fs::openat(CWD, tree, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MANIFEST_MAX_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_combined() {
        let first = parse_pip(br#"[{"name":"a","version":"1"},{"name":"b","version":"2"}]"#);
        assert!(parse_pip(b"Traceback").is_empty());
        let apt = parse_apt(b"libjq1 1.6-2.1+deb12u1\n\n");
        assert_eq!(apt, [package("apt", "libjq1".into(), "1.6-2.1+deb12u1".into())]);
        let npm = vec![package("npm", "c".into(), "3".into())];
        let after = parse_pip(br#"[{"name":"a","version":"2"}]"#);
        let all = combine([&first[..], &npm, &after, &[]]);
        let shown: Vec<_> = all.iter().map(|p| format!("{} {} {}", p.manager, p.name, p.version)).collect();
        assert_eq!(shown, ["npm c 3", "pip a 2"]);
    }

    #[test]
    fn npm_is_believed_about_its_own_tree_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read_npm(directory.path()).is_empty());
        let lock = r#"{"lockfileVersion":3,"packages":{"node_modules/@s/a":{"version":"1.0.0"},"node_modules/b":{"link":true}}}"#;
        let real = directory.path().join("real");
        std::fs::create_dir(&real).unwrap();
        std::fs::write(real.join(".package-lock.json"), lock).unwrap();
        std::os::unix::fs::symlink("real", directory.path().join("node_modules")).unwrap();
        assert!(read_npm(directory.path()).is_empty());
        std::fs::remove_file(directory.path().join("node_modules")).unwrap();
        std::fs::rename(&real, directory.path().join("node_modules")).unwrap();
        assert_eq!(read_npm(directory.path()), [package("npm", "@s/a".into(), "1.0.0".into())]);
    }
}
