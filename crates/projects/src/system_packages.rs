//! What apt knows of this machine, for the step that installs system packages: where packages come from and whom to trust, the
//! operator's preferences, and what is installed already.
//!
//! The step gets copies, so that nothing of the machine can be touched, and gets them alone: sources may hold passwords, which no
//! session and no script of a project shall see.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::environment::CACHE_MOUNT;

/// apt's configuration, the same path inside and outside: entries name keys by absolute paths in it.
const CONFIGURATION: &str = "/etc/apt";
/// What is installed, the same path inside and outside.
const DATABASE: &str = "/var/lib/dpkg";
/// What of the database says so, and for which architectures.
const DATABASE_FILES: [&str; 2] = ["status", "arch"];
/// Larger files are no configuration.
const MAX_BYTES: u64 = 32 << 20;
/// Directories within each other.
const MAX_DEPTH: usize = 4;

/// What the step's apt does differently from the machine's. It comes after everything else in the main file, which is read last.
/// Proxies come from the step's environment; what runs on the machine after an update does not run here.
fn overrides() -> String {
    format!(
        r#"
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::http::Proxy;
#clear Acquire::https::Proxy;
#clear Acquire::http::Proxy-Auto-Detect;
#clear Acquire::https::Proxy-Auto-Detect;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::DEP-11-icons-small;
#clear Acquire::IndexTargets::deb::DEP-11-icons;
#clear Acquire::IndexTargets::deb::DEP-11-icons-hidpi;
#clear Acquire::IndexTargets::deb::DEP-11-icons-large;
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
Dir::State "{CACHE_MOUNT}/apt/state";
Dir::State::status "{DATABASE}/status";
Dir::Cache "{CACHE_MOUNT}/apt/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Log "/tmp";
"#
    )
}

/// The identity of all that decides which packages a spec means here and which the machine has already.
pub(crate) fn digest() -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    add(overrides().as_bytes());
    let mut files = configuration();
    files.extend(DATABASE_FILES.iter().map(|name| (format!("../{name}").into(), Path::new(DATABASE).join(name))));
    for (name, path) in files {
        add(name.as_os_str().as_encoded_bytes());
        let bytes = std::fs::read(&path).unwrap_or_default();
        // Of what is installed, descriptions and the like say nothing that a choice depends on.
        if name.ends_with("status") { add(installed(&bytes).as_bytes()) } else { add(&bytes) }
    }
    hasher.finalize().to_hex().to_string()
}

/// Which packages are installed in which versions.
fn installed(status: &[u8]) -> String {
    let status = String::from_utf8_lossy(status);
    let fields = ["Package: ", "Status: ", "Architecture: ", "Version: "];
    let lines = status.lines().filter(|line| fields.iter().any(|field| line.starts_with(field)));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The files of apt's configuration with their paths in it, in order.
fn configuration() -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    collect(Path::new(CONFIGURATION), Path::new(""), 0, &mut found);
    found.sort();
    found
}

/// Links are followed to files: a key may lie elsewhere. What cannot be read is as good as absent, as it is to apt.
fn collect(directory: &Path, inside: &Path, depth: usize, found: &mut Vec<(PathBuf, PathBuf)>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, inside) = (entry.path(), inside.join(entry.file_name()));
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() && depth < MAX_DEPTH => collect(&path, &inside, depth + 1, found),
            Ok(metadata) if metadata.is_file() && metadata.len() <= MAX_BYTES => found.push((inside, path)),
            Ok(_) | Err(_) => {}
        }
    }
}

/// Puts the copies into a new directory; answers what is to be mounted read-only, each with its path inside.
pub(crate) fn copy_to(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let (etc, dpkg) = (directory.join("etc"), directory.join("dpkg"));
    for place in [&etc, &dpkg] {
        make_directory(place)?;
    }
    // The step's user has to read what is mounted; other users of the machine do not come this far.
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700))?;
    let mut main = std::fs::read(Path::new(CONFIGURATION).join("apt.conf")).unwrap_or_default();
    main.extend_from_slice(overrides().as_bytes());
    for (inside, path) in configuration() {
        let place = etc.join(&inside);
        if let Some(parent) = place.parent() {
            make_directory(parent)?;
        }
        put(&place, &std::fs::read(path)?)?;
    }
    put(&etc.join("apt.conf"), &main)?;
    for name in DATABASE_FILES {
        match std::fs::read(Path::new(DATABASE).join(name)) {
            Ok(bytes) => put(&dpkg.join(name), &bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(vec![(CONFIGURATION.to_owned(), etc), (DATABASE.to_owned(), dpkg)])
}

/// The step's user is another than the service's.
fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_end_with_what_the_step_does_differently() {
        let scratch = tempfile::tempdir().unwrap();
        let mounts = copy_to(&scratch.path().join("system")).unwrap();
        let inside: Vec<_> = mounts.iter().map(|(inside, _)| inside.as_str()).collect();
        assert_eq!(inside, ["/etc/apt", "/var/lib/dpkg"]);
        let mode = std::fs::metadata(scratch.path().join("system")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let main = std::fs::read_to_string(mounts[0].1.join("apt.conf")).unwrap();
        assert!(main.ends_with(&overrides()));
        for name in ["sources.list", "trusted.gpg"].iter().filter(|name| Path::new(CONFIGURATION).join(name).is_file())
        {
            assert!(mounts[0].1.join(name).is_file(), "{name}");
        }
        assert_eq!(digest(), digest());
    }

    #[test]
    fn what_is_installed_is_told_by_names_and_versions() {
        let status =
            "Package: a\nStatus: install ok installed\nInstalled-Size: 7\nVersion: 1\nDescription: x\n Version: 2\n\n";
        assert_eq!(installed(status.as_bytes()), "Package: a\nStatus: install ok installed\nVersion: 1\n");
    }
}
