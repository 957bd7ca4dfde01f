//! The base every sandbox starts from: the host's `/usr` and an `/etc` of our own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Mount;

/// Top-level names that a merged-`/usr` host keeps as links.
const SYSTEM_LINKS: [&str; 6] = ["bin", "sbin", "lib", "lib64", "lib32", "libx32"];

/// Parts of the host's `/etc` that hold no secret and that programs in `/usr` depend on.
const SHARED_CONFIGURATION: [&str; 9] = [
    "alternatives",
    "ca-certificates",
    "fonts",
    "ld.so.cache",
    "libreoffice",
    "magic",
    "mime.types",
    "pki/ca-trust/extracted",
    "ssl/certs",
];

/// What the system base must be told.
#[derive(Debug, Clone)]
pub struct SystemBase<'a> {
    /// Inside uid of the session's user.
    pub run_uid: u32,
    /// Inside gid of the session's user.
    pub run_gid: u32,
    /// Login name of that user.
    pub user_name: &'a str,
    /// Home directory of that user, inside. Not made here.
    pub home: &'a Path,
    /// Host name inside, for `/etc/hosts`.
    pub hostname: &'a str,
    /// Host directories bound read-only at `/opt/stead/<their name>`.
    pub toolchains: &'a [PathBuf],
}

/// Mounts of the system base: `/usr` read-only, `/bin` and its kin as on the host, an `/etc` of our
/// own. Nothing of the host's `/etc` is shown but the few entries programs in `/usr` need (trusted
/// certificates, alternatives, fonts, the loader's cache, the time zone).
///
/// # Errors
/// When the host's `/usr` or one of the toolchains cannot be resolved.
pub fn system_mounts(base: &SystemBase<'_>) -> io::Result<Vec<Mount>> {
    let mut mounts = vec![read_only(&fs::canonicalize("/usr")?, Path::new("/usr"))];
    for name in SYSTEM_LINKS {
        let path = Path::new("/").join(name);
        match fs::read_link(&path) {
            Ok(to) => mounts.push(Mount::Symlink { target: path, to }),
            Err(_) if path.is_dir() => mounts.push(read_only(&path, &path)),
            Err(_) => {}
        }
    }
    mounts.push(Mount::Directory { target: PathBuf::from("/etc"), mode: 0o755 });
    mounts.extend(own_configuration(base));
    for name in SHARED_CONFIGURATION {
        let path = Path::new("/etc").join(name);
        if let Ok(source) = fs::canonicalize(&path) {
            mounts.push(read_only(&source, &path));
        }
    }
    if let Ok(zone) = fs::canonicalize("/etc/localtime") {
        mounts.push(read_only(&zone, Path::new("/etc/localtime")));
    }
    mounts.push(Mount::Directory { target: PathBuf::from("/var/tmp"), mode: 0o755 });
    mounts.push(Mount::Symlink { target: PathBuf::from("/var/run"), to: PathBuf::from("/run") });
    mounts.push(Mount::Directory { target: PathBuf::from("/run"), mode: 0o755 });
    for toolchain in base.toolchains {
        let source = fs::canonicalize(toolchain)?;
        let name = toolchain
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a toolchain directory needs a name"))?;
        mounts.push(read_only(&source, &Path::new("/opt/stead").join(name)));
    }
    Ok(mounts)
}

fn own_configuration(base: &SystemBase<'_>) -> Vec<Mount> {
    let (uid, gid, name, home, host) = (base.run_uid, base.run_gid, base.user_name, base.home.display(), base.hostname);
    let file = |path: &str, contents: String| Mount::File { target: PathBuf::from(path), contents, mode: 0o644 };
    vec![
        file(
            "/etc/passwd",
            format!(
                "root:x:0:0:root:/:/usr/sbin/nologin\n{name}:x:{uid}:{gid}::{home}:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
            ),
        ),
        file("/etc/group", format!("root:x:0:\n{name}:x:{gid}:\nnogroup:x:65534:\n")),
        file("/etc/hosts", format!("127.0.0.1 localhost {host}\n::1 localhost\n")),
        file("/etc/hostname", format!("{host}\n")),
        file(
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n".into(),
        ),
        file("/etc/resolv.conf", String::new()),
        file("/etc/services", "http 80/tcp\nhttps 443/tcp\ndomain 53/tcp\ndomain 53/udp\nssh 22/tcp\n".into()),
        file("/etc/protocols", "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\n".into()),
        file("/etc/shells", "/bin/sh\n/bin/bash\n".into()),
    ]
}

fn read_only(source: &Path, target: &Path) -> Mount {
    Mount::BindReadOnly { source: source.to_path_buf(), target: target.to_path_buf() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_shows_nothing_secret_of_the_host() {
        let base = SystemBase {
            run_uid: 1000,
            run_gid: 1000,
            user_name: "agent",
            home: Path::new("/home/agent"),
            hostname: "box",
            toolchains: &[],
        };
        let mounts = system_mounts(&base).unwrap();
        for mount in &mounts {
            assert!(!mount.is_writable(), "{mount:?}");
            for source in mount.sources() {
                assert_ne!(source, Path::new("/etc"));
                assert!(!source.ends_with("shadow") && !source.starts_with("/root") && !source.starts_with("/run"));
            }
        }
        let passwd = mounts.iter().find(|mount| mount.target() == Path::new("/etc/passwd"));
        assert!(
            matches!(passwd, Some(Mount::File { contents, .. }) if contents.contains("agent:x:1000:1000::/home/agent"))
        );
    }
}
