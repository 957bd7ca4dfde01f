//! Native packages: which of a package's variants this machine needs, and whether a lock has it.
//!
//! Packages with native parts list one optional dependency per platform. npm writes a lock that names the variants of the
//! machine it ran on alone when `node_modules` was there already, and elsewhere installs such a lock without a word.

/// The machine that packages are installed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform<'a> {
    /// As Rust names it: `x86_64`, `aarch64`.
    pub architecture: &'a str,
    /// Whether its C library is glibc; otherwise it is musl.
    pub glibc: bool,
}

impl Platform<'_> {
    /// Whether a package's name is that of a variant for this platform: `@rollup/rollup-linux-x64-gnu`, `@esbuild/linux-x64`,
    /// `turbo-linux-64`.
    pub fn is_named_by(self, name: &str) -> bool {
        let parts: Vec<&str> = name.split(['-', '/', '.', '_']).collect();
        let has = |wanted: &[&str]| parts.iter().any(|part| wanted.contains(part));
        let architecture: &[&str] = match self.architecture {
            // `x86_64` comes apart at its underscore.
            "x86_64" => &["x64", "64", "amd64"],
            "aarch64" => &["arm64", "aarch64"],
            _ => return false,
        };
        let other_library = if self.glibc { &["musl", "musleabihf"] } else { &["gnu", "glibc"] };
        has(&["linux"])
            && has(architecture)
            && !has(other_library)
            && !has(&["android", "arm", "riscv64", "loong64", "ppc64"])
    }
}

/// The system that a variant's name says it is for.
pub(super) fn named_system(name: &str) -> Option<&str> {
    const SYSTEMS: [&str; 14] = [
        "android",
        "darwin",
        "freebsd",
        "linux",
        "linuxmusl",
        "macos",
        "netbsd",
        "openbsd",
        "openharmony",
        "osx",
        "sunos",
        "win",
        "win32",
        "windows",
    ];
    name.split(['-', '/', '.', '_']).find(|part| SYSTEMS.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_told_by_their_names() {
        let here = Platform { architecture: "x86_64", glibc: true };
        for name in [
            "@rollup/rollup-linux-x64-gnu",
            "@esbuild/linux-x64",
            "turbo-linux-64",
            "@swc/core-linux-x64-gnu",
            "@img/sharp-libvips-linux-x64",
            "lightningcss-linux-x64-gnu",
        ] {
            assert!(here.is_named_by(name), "{name}");
        }
        for name in [
            "@rollup/rollup-linux-x64-musl",
            "@rollup/rollup-darwin-x64",
            "@esbuild/linux-arm64",
            "esbuild-linux-mips64le",
            "@img/sharp-linuxmusl-x64",
            "fsevents",
            "linux-ca",
        ] {
            assert!(!here.is_named_by(name), "{name}");
        }
        let there = Platform { architecture: "aarch64", glibc: false };
        assert!(there.is_named_by("@rollup/rollup-linux-arm64-musl") && !there.is_named_by("@esbuild/linux-x64"));
    }
}
