//! The packages in the `node_modules` of a tree, for managers that leave no list of their own: each package's `package.json`.
//!
//! The tree is the work of a stranger's scripts: it is walked by directory descriptors, no link is followed, and everything is
//! bounded. Links are other places of packages that are found where they lie (pnpm keeps all of them beneath
//! `node_modules/.pnpm`), or packages of the source, which nobody installed.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};
use serde::Deserialize;
use stead_domain::build::Package;

/// Directories nested deeper than this are passed over.
const MAX_DEPTH: usize = 64;
/// No more manifests are read; many may be of one package and version.
const MAX_MANIFESTS: usize = 100_000;
/// The longest `package.json` that is read, in bytes.
const MAX_MANIFEST: u64 = 4 << 20;
/// What a manager other than npm leaves when it is done.
const MARKS: [&str; 3] = [".modules.yaml", ".yarn-integrity", ".yarn-state.yml"];

#[derive(Deserialize)]
struct Manifest {
    name: String,
    version: String,
}

/// Lists them, sorted, each version once; nothing when neither pnpm nor Yarn has installed anything.
pub(super) fn read(tree: &Path) -> Vec<Package> {
    let mut reader = Reader { packages: Vec::new() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::openat(CWD, tree, flags, Mode::empty()) else { return Vec::new() };
    let Some(modules) = open(&root, "node_modules") else { return Vec::new() };
    let is_there = |name: &str| {
        let found = rustix::fs::statat(&modules, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    };
    if MARKS.into_iter().any(is_there) {
        reader.source(&root, 0);
    }
    reader.packages.sort_unstable();
    reader.packages.dedup();
    reader.packages.truncate(super::MAX_PACKAGES);
    reader.packages
}

struct Reader {
    packages: Vec<Package>,
}

impl Reader {
    /// A directory of the source: members of a workspace have a `node_modules` of their own.
    fn source(&mut self, directory: &OwnedFd, depth: usize) {
        for name in directories(directory, depth) {
            let Some(inner) = open(directory, &name) else { continue };
            if name == "node_modules" {
                self.modules(&inner, depth + 1);
            } else if !name.starts_with('.') {
                self.source(&inner, depth + 1);
            }
        }
    }

    fn modules(&mut self, directory: &OwnedFd, depth: usize) {
        for name in directories(directory, depth) {
            let Some(inner) = open(directory, &name) else { continue };
            if name == ".pnpm" {
                for package in directories(&inner, depth) {
                    let place = open(&inner, &package).and_then(|package| open(&package, "node_modules"));
                    place.iter().for_each(|modules| self.modules(modules, depth + 2));
                }
            } else if name.starts_with('@') {
                for package in directories(&inner, depth) {
                    open(&inner, &package).iter().for_each(|package| self.package(package, depth + 2));
                }
            } else if !name.starts_with('.') {
                self.package(&inner, depth + 1);
            }
        }
    }

    fn package(&mut self, directory: &OwnedFd, depth: usize) {
        if self.packages.len() < MAX_MANIFESTS {
            let manifest = manifest(directory);
            self.packages.extend(manifest.and_then(|found| super::package("npm", found.name, found.version)));
        }
        if let Some(modules) = open(directory, "node_modules") {
            self.modules(&modules, depth + 1);
        }
    }
}

fn open(directory: &OwnedFd, name: &str) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).ok()
}

/// The names of the directories in a directory; of links to directories nothing is told.
fn directories(directory: &OwnedFd, depth: usize) -> Vec<String> {
    if depth > MAX_DEPTH {
        return Vec::new();
    }
    let Ok(listing) = Dir::read_from(directory) else { return Vec::new() };
    let mut names: Vec<String> = listing
        .flatten()
        .filter(|entry| matches!(entry.file_type(), FileType::Directory | FileType::Unknown))
        .filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned()))
        .filter(|name| name != "." && name != "..")
        .collect();
    names.sort_unstable();
    names
}

fn manifest(directory: &OwnedFd) -> Option<Manifest> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(directory, "package.json", flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_MANIFEST).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_listed_once_per_version_and_links_are_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let put = |place: &str, name: &str, version: &str| {
            std::fs::create_dir_all(root.join(place)).unwrap();
            let text = format!(r#"{{"name":"{name}","version":"{version}"}}"#);
            std::fs::write(root.join(place).join("package.json"), text).unwrap();
        };
        put("node_modules/.pnpm/a@1.0.0/node_modules/a", "a", "1.0.0");
        put("node_modules/.pnpm/a@1.0.0_b@1/node_modules/a", "a", "1.0.0");
        put("node_modules/.pnpm/@s+b@2.0.0/node_modules/@s/b", "@s/b", "2.0.0");
        put("node_modules/c", "c", "1.0.0");
        put("node_modules/c/node_modules/c", "c", "2.0.0");
        put("packages/d/node_modules/e", "e", "1.0.0");
        put("packages/d", "d", "1.0.0");
        put("outside", "outside", "1.0.0");
        std::os::unix::fs::symlink("../outside", root.join("node_modules/outside")).unwrap();
        assert!(read(root).is_empty());
        std::fs::write(root.join("node_modules/.modules.yaml"), "").unwrap();
        let listed: Vec<_> =
            read(root).into_iter().map(|package| format!("{} {}", package.name, package.version)).collect();
        assert_eq!(listed, ["@s/b 2.0.0", "a 1.0.0", "c 1.0.0", "c 2.0.0", "e 1.0.0"]);
    }
}
