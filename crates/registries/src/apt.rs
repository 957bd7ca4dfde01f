//! System packages: the package lists of this machine, as `apt-cache policy` reads them.
//!
//! The program gets one validated name and a clean environment, no shell is involved, and it is told to keep what it computes
//! to itself: asking changes nothing on the host.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use stead_domain::declared::PackageSpec;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::failure::Failure;
use crate::listing::Found;

/// As much as is read of what it says, in bytes.
const MOST_SAID: u64 = 1 << 20;

/// The machine's apt.
#[derive(Debug, Clone)]
pub(crate) struct Apt {
    program: PathBuf,
    lists: PathBuf,
}

impl Default for Apt {
    fn default() -> Self {
        Self { program: PathBuf::from("/usr/bin/apt-cache"), lists: PathBuf::from("/var/lib/apt/lists") }
    }
}

impl Apt {
    /// Asks about a package; `None` when nothing has this name.
    pub(crate) async fn ask(&self, name: &str) -> Result<Option<AptPackage>, Failure> {
        if !self.program.exists() {
            return Err(Failure::NoApt);
        }
        let lists = self.lists.clone();
        let listed = tokio::task::spawn_blocking(move || has_lists(&lists)).await;
        if !matches!(listed, Ok(true)) {
            return Err(Failure::NoLists);
        }
        let mut process = Command::new(&self.program)
            // Without these, root's question would leave caches behind.
            .args(["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=", "policy", "--", name])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A question that is given up leaves no process.
            .kill_on_drop(true)
            .spawn()
            .map_err(unreadable)?;
        let mut said = Vec::new();
        let output = process.stdout.take().ok_or(Failure::NoApt)?;
        output.take(MOST_SAID + 1).read_to_end(&mut said).await.map_err(unreadable)?;
        if said.len() as u64 > MOST_SAID {
            return Err(Failure::TooLarge);
        }
        let status = process.wait().await.map_err(unreadable)?;
        if !status.success() {
            tracing::warn!(%status, "apt-cache could not read the package lists");
            return Err(Failure::Unreadable);
        }
        Ok(AptPackage::read(&String::from_utf8_lossy(&said)))
    }
}

fn unreadable(error: std::io::Error) -> Failure {
    tracing::warn!(%error, "apt-cache cannot be run");
    Failure::NoApt
}

fn has_lists(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

/// What the lists have of a package.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AptPackage {
    candidate: String,
    /// In apt's order, newest first; without those that are only installed here.
    versions: Vec<Published>,
}

#[derive(Debug, PartialEq, Eq)]
struct Published {
    version: String,
    /// The releases that have it: `bookworm`, `bookworm-security`.
    releases: Vec<String>,
}

impl AptPackage {
    /// Reads the answer of `apt-cache policy`; an empty one is about a name that nothing has.
    pub(crate) fn read(said: &str) -> Option<Self> {
        let mut package = None;
        for line in said.lines() {
            if !line.starts_with(' ') {
                package = Some(Self { candidate: String::new(), versions: Vec::new() });
                continue;
            }
            let Some(package) = package.as_mut() else { continue };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["Candidate:", candidate] => (*candidate).clone_into(&mut package.candidate),
                ["Installed:" | "Version", ..] => {}
                // A source of the version above: its priority, its address, release and component.
                [_, address, place, ..] if address.contains(':') && line.starts_with("        ") => {
                    if let (Some(last), Some((release, _))) = (package.versions.last_mut(), place.rsplit_once('/')) {
                        last.releases.push(release.to_owned());
                    }
                }
                ["***", version, _] | [version, _] if !line.starts_with("        ") => {
                    package.versions.push(Published { version: (*version).to_owned(), releases: Vec::new() });
                }
                _ => {}
            }
        }
        let mut package = package?;
        package.versions.retain(|published| !published.releases.is_empty());
        Some(package)
    }

    /// Whether the name is one that packages only provide, or one that is only installed here.
    pub(crate) fn is_virtual(&self) -> bool {
        self.versions.is_empty()
    }

    pub(crate) fn latest(&self) -> Option<String> {
        let candidate = self.versions.iter().find(|published| published.version == self.candidate);
        candidate.or(self.versions.first()).map(|published| published.version.clone())
    }

    /// The version that a spec would install. The grammar of specs leaves nothing that is no version.
    pub(crate) fn find(&self, spec: &PackageSpec) -> Found {
        let (pinned, fitting) = match spec.constraint().split_at_checked(1) {
            Some(("=", version)) => (true, self.versions.iter().find(|published| published.version == version)),
            Some(("/", release)) => {
                let has = |published: &&Published| published.releases.iter().any(|name| name == release);
                (false, self.versions.iter().find(has))
            }
            _ => return Found { pinned: false, fitting: self.latest() },
        };
        Found { pinned, fitting: fitting.map(|published| published.version.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use stead_domain::declared::PackageManager;

    use super::*;

    const BASH: &str = "bash:\n  Installed: 5.2.15-2+b8\n  Candidate: 5.2.15-2+b13\n  Version table:\n     5.2.15-2+b13 500\n        \
        500 http://deb.test/debian bookworm/main amd64 Packages\n        \
        500 http://deb.test/security bookworm-security/main amd64 Packages\n *** 5.2.15-2+b8 100\n        100 /var/lib/dpkg/status\n     \
        5.1-1 500\n        500 http://deb.test/debian bullseye/updates/main amd64 Packages\n";

    #[test]
    fn only_what_a_list_has_is_published() {
        let package = AptPackage::read(BASH).unwrap();
        assert_eq!(package.latest().as_deref(), Some("5.2.15-2+b13"));
        for (spec, pinned, fitting) in [
            ("bash", false, Some("5.2.15-2+b13")),
            ("bash=5.2.15-2+b13", true, Some("5.2.15-2+b13")),
            ("bash=5.2.15-2+b8", true, None),
            ("bash/bookworm-security", false, Some("5.2.15-2+b13")),
            ("bash/trixie", false, None),
        ] {
            let spec = PackageSpec::parse(PackageManager::Apt, spec).unwrap();
            let found = package.find(&spec);
            assert_eq!((found.pinned, found.fitting.as_deref()), (pinned, fitting), "{spec}");
        }
        assert_eq!(AptPackage::read(""), None);
        let provided = AptPackage::read("awk:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n").unwrap();
        assert!(provided.is_virtual());
    }

    #[tokio::test]
    async fn a_machine_without_lists_says_so() {
        let empty = tempfile::tempdir().unwrap();
        let apt = |program: &str| Apt { program: program.into(), lists: empty.path().to_owned() };
        assert_eq!(apt("/usr/bin/true").ask("bash").await, Err(Failure::NoLists));
        std::fs::write(empty.path().join("deb.test_main_Packages.lz4"), "").unwrap();
        assert_eq!(apt("/usr/bin/true").ask("bash").await, Ok(None));
        assert_eq!(apt("/usr/bin/false").ask("bash").await, Err(Failure::Unreadable));
        assert_eq!(apt("/nonexistent").ask("bash").await, Err(Failure::NoApt));
    }
}
