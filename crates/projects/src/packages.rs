//! What was installed, according to the installers themselves.

mod tree;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::OFlags;
use serde::Deserialize;
use stead_bundles::manifest::{MANIFEST_MAX_BYTES, PackageLock};
use stead_domain::build::Package;

use crate::beneath::open_beneath;

/// The longest name in bytes: npm's own bound, beyond that of the other managers.
const MAX_NAME: usize = 214;
/// The longest version in bytes.
const MAX_VERSION: usize = 128;
/// The most packages that are listed of a version, and of a step.
const MAX_PACKAGES: usize = 20_000;
/// The most bytes that names and versions of a version's packages have together: whoever lists projects gets all of them.
const MAX_TEXT: usize = 1 << 20;

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
    listed.into_iter().filter_map(|item| package(manager, item.name, item.version)).take(MAX_PACKAGES).collect()
}

/// Reads the output of a step's [`PackageList::Apt`](crate::plan::PackageList) command: names and versions as packages say them of
/// themselves, a line each.
pub fn parse_apt(output: &[u8]) -> Vec<Package> {
    let output = String::from_utf8_lossy(output);
    let lines = output.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(name, version)| package("apt", name.to_owned(), version.to_owned())).take(MAX_PACKAGES).collect()
}

/// Reads what npm, pnpm or Yarn installed beneath `tree`, the root of a step's kept tree; nothing when none of them installed
/// anything. The tree is the work of a stranger's scripts, so no link in it is followed.
pub fn read_npm(tree: &Path) -> Vec<Package> {
    let Some(bytes) = read_beneath(tree, HIDDEN_LOCK) else { return tree::read(tree) };
    let Ok(lock) = PackageLock::parse(&bytes) else { return Vec::new() };
    let mut packages: Vec<Package> =
        lock.packages.into_iter().filter_map(|locked| package("npm", locked.name, locked.version)).collect();
    packages.sort_unstable();
    packages.dedup();
    packages.truncate(MAX_PACKAGES);
    packages
}

/// The packages of a version from those of its steps, in the order of the steps: a later step that lists a manager's packages
/// has looked at everything that manager has installed so far. What is too much to be told is left out, the last in the order of
/// managers and names first.
pub fn combine<'a>(steps: impl IntoIterator<Item = &'a [Package]>) -> Vec<Package> {
    let mut combined: Vec<Package> = Vec::new();
    for listed in steps {
        combined.retain(|old| !listed.iter().any(|new| new.manager == old.manager));
        combined.extend_from_slice(listed);
    }
    combined.sort_unstable();
    let mut text = 0;
    let fits = combined.iter().take(MAX_PACKAGES).take_while(|package| {
        text += package.name.len() + package.version.len();
        text <= MAX_TEXT
    });
    combined.truncate(fits.count());
    combined
}

/// A package as an installer, or a stranger's file, says. What no registry would take is none.
fn package(manager: &str, name: String, version: String) -> Option<Package> {
    let is_sound =
        |text: &str, longest: usize| (1..=longest).contains(&text.len()) && !text.chars().any(char::is_control);
    (is_sound(&name, MAX_NAME) && is_sound(&version, MAX_VERSION)).then(|| Package {
        manager: manager.to_owned(),
        name,
        version,
    })
}

fn read_beneath(tree: &Path, path: &str) -> Option<Vec<u8>> {
    let file = File::from(open_beneath(tree, path, OFlags::RDONLY | OFlags::NONBLOCK).ok()??);
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
        assert_eq!(apt, [package("apt", "libjq1".into(), "1.6-2.1+deb12u1".into()).unwrap()]);
        let npm = vec![package("npm", "c".into(), "3".into()).unwrap()];
        let after = parse_pip(br#"[{"name":"a","version":"2"}]"#);
        let all = combine([&first[..], &npm, &after, &[]]);
        let shown: Vec<_> = all.iter().map(|p| format!("{} {} {}", p.manager, p.name, p.version)).collect();
        assert_eq!(shown, ["npm c 3", "pip a 2"]);
    }

    /// Metadata is whatever a package's author, or a script of the project, wrote.
    #[test]
    fn what_is_said_of_packages_is_bounded() {
        let listed = |items: &[(&str, &str)]| {
            let items: Vec<_> =
                items.iter().map(|(name, version)| serde_json::json!({"name": name, "version": version})).collect();
            parse_pip(&serde_json::to_vec(&items).unwrap()).into_iter().map(|package| package.name).collect::<Vec<_>>()
        };
        let (long, name, version) = ("9".repeat(15 << 20), "n".repeat(MAX_NAME), "9".repeat(MAX_VERSION));
        let (name_beyond, version_beyond) = (format!("{name}n"), format!("{version}9"));
        let sound = [("a", "1"), (name.as_str(), version.as_str())];
        let unsound = [
            ("huge", long.as_str()),
            (name_beyond.as_str(), "1"),
            ("b", version_beyond.as_str()),
            ("c\u{1b}[2J", "1"),
            ("d", "1\n"),
            ("", "1"),
            ("e", ""),
        ];
        assert_eq!(listed(&[&unsound[..], &sound[..]].concat()), ["a", &name]);
        assert!(parse_apt(format!("a {long}\na\u{7} 1\n").as_bytes()).is_empty());
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("node_modules")).unwrap();
        let lock = serde_json::json!({"lockfileVersion": 3, "packages": {
            "node_modules/a": {"version": version_beyond}, "node_modules/b": {"version": "1"}}});
        std::fs::write(directory.path().join(HIDDEN_LOCK), lock.to_string()).unwrap();
        assert_eq!(read_npm(directory.path()).iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["b"]);

        let many = |count: usize, padding: usize| {
            let line = |number| format!("p{number:0padding$} 1\n");
            parse_apt((0..count).map(line).collect::<String>().as_bytes())
        };
        assert_eq!(many(MAX_PACKAGES + 5, 1).len(), MAX_PACKAGES);
        let (one, other) = (many(MAX_PACKAGES, 5), parse_npm(br#"[{"name":"z","version":"1"}]"#));
        assert_eq!(combine([&one[..], &other]).len(), MAX_PACKAGES);
        let text: usize = combine([&many(MAX_PACKAGES, 200)[..]])
            .iter()
            .map(|package| package.name.len() + package.version.len())
            .sum();
        assert!((MAX_TEXT - MAX_NAME..=MAX_TEXT).contains(&text), "{text}");
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
        assert_eq!(read_npm(directory.path()), [package("npm", "@s/a".into(), "1.0.0".into()).unwrap()]);
    }
}
