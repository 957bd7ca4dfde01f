//! Python interpreters: the host's own, and those that the operator placed among the toolchains.
//!
//! ```text
//! <data>/toolchains/python3.13/bin/python3.13      seen in sandboxes as /opt/stead/python3.13/bin/python3.13
//! ```
//!
//! An interpreter is moved by that, so it has to be one that finds its library from where it lies, as CPython does.

use std::path::{Path, PathBuf};

use super::{PYTHON, ask};

/// A Python interpreter with what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// Its path inside a sandbox.
    pub program: String,
    /// Its version: `3.11.2`.
    pub version: String,
    /// The pip that `python3 -m venv` puts into a new environment; absent when it cannot make one with pip.
    pub pip: Option<String>,
}

impl Python {
    /// Major and minor, as owners declare it: `3.11`.
    pub fn minor(&self) -> String {
        super::leading(&self.version, 2)
    }

    /// The version as numbers, for comparison.
    fn numbers(&self) -> Vec<u64> {
        self.version.split('.').map_while(|part| part.parse().ok()).collect()
    }
}

/// Where an interpreter may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonCandidate {
    /// On the host, such as `<data>/toolchains/python3.13/bin/python3.13`.
    pub host: PathBuf,
    /// In a sandbox, such as `/opt/stead/python3.13/bin/python3.13`.
    pub inside: String,
}

impl PythonCandidate {
    /// The interpreters beneath a directory of toolchains, by the names they have there. Nothing is run.
    pub fn beneath(toolchains: &Path) -> Vec<Self> {
        let names = |directory: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            names.sort_unstable();
            names
        };
        let mut found = Vec::new();
        for toolchain in names(toolchains).into_iter().filter(|name| name.starts_with("python")) {
            let place = toolchains.join(&toolchain);
            // Only what is a directory itself is mounted in sandboxes.
            if !place.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
                continue;
            }
            let programs = place.join("bin");
            for name in names(&programs).into_iter().filter(|name| minor_of(name).is_some()) {
                let inside = format!("/opt/stead/{toolchain}/bin/{name}");
                found.push(Self { host: programs.join(name), inside });
            }
        }
        found
    }

    /// Asks the interpreter, which answers only for the minor in its name.
    fn ask(&self) -> Option<Python> {
        let python = ask_python(self.host.as_os_str(), &self.inside)?;
        let named = minor_of(self.host.file_name()?.to_str()?)?;
        (python.pip.is_some() && python.minor() == named).then_some(python)
    }
}

/// The minor in a program's name: `3.13` of `python3.13`.
fn minor_of(program: &str) -> Option<&str> {
    let minor = program.strip_prefix("python")?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    minor.split_once('.').is_some_and(|(major, minor)| digits(major) && digits(minor)).then_some(minor)
}

/// Version and pip, asked side by side.
fn ask_python(host: &std::ffi::OsStr, inside: &str) -> Option<Python> {
    std::thread::scope(|scope| {
        let pip = scope.spawn(|| ask(host, &["-I", "-c", "import ensurepip, venv; print(ensurepip.version())"]));
        let version = ask(host, &["-I", "-c", "import platform; print(platform.python_version())"]);
        // A thread that panicked says as much as an interpreter that is missing.
        Some(Python { program: inside.to_owned(), version: version?, pip: pip.join().ok().flatten() })
    })
}

/// Every usable interpreter, the default first: the host's own, else the newest.
pub(super) fn detect(candidates: &[PythonCandidate]) -> Vec<Python> {
    std::thread::scope(|scope| {
        let host = scope.spawn(|| ask_python(PYTHON.as_ref(), PYTHON));
        let placed: Vec<_> = candidates.iter().map(|candidate| scope.spawn(|| candidate.ask())).collect();
        let mut placed: Vec<Python> = placed.into_iter().filter_map(|python| python.join().ok().flatten()).collect();
        placed.sort_by_key(|python| std::cmp::Reverse(python.numbers()));
        // A host's interpreter that cannot make environments is the default only where there is no other.
        let (first, last) = match host.join().ok().flatten() {
            Some(host) if host.pip.is_some() => (Some(host), None),
            other => (None, other),
        };
        first.into_iter().chain(placed).chain(last).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that answers as an interpreter would.
    fn place(toolchains: &Path, path: &str, version: &str, ensurepip: bool) {
        let program = toolchains.join(path);
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        let pip = if ensurepip { "echo 24.0" } else { "exit 1" };
        let text = format!("#!/bin/sh\ncase $3 in *ensurepip*) {pip};; *) echo {version};; esac\n");
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn interpreters_are_found_by_name_and_believed_about_themselves_alone() {
        let toolchains = tempfile::tempdir().unwrap();
        let root = toolchains.path();
        place(root, "python3.9/bin/python3.9", "3.9.2", true);
        place(root, "python-new/bin/python3.13", "3.13.1", true);
        place(root, "python-new/bin/python3", "3.13.1", true);
        place(root, "python3.10/bin/python3.10", "3.10.4", false);
        place(root, "python3.8/bin/python3.8", "3.7.0", true);
        place(root, "uv/bin/python3.12", "3.12.0", true);
        std::os::unix::fs::symlink("python3.9", root.join("python-link")).unwrap();
        let candidates = PythonCandidate::beneath(root);
        let inside: Vec<_> = candidates.iter().map(|candidate| candidate.inside.as_str()).collect();
        let expected = ["python-new/bin/python3.13", "python3.10/bin/python3.10", "python3.8/bin/python3.8"];
        assert_eq!(inside[..3], expected.map(|path| format!("/opt/stead/{path}")));
        assert_eq!(inside.len(), 4);
        let found: Vec<_> = detect(&candidates)
            .into_iter()
            .filter(|python| python.program != PYTHON)
            .map(|python| format!("{} {}", python.program, python.version))
            .collect();
        assert_eq!(found, ["/opt/stead/python-new/bin/python3.13 3.13.1", "/opt/stead/python3.9/bin/python3.9 3.9.2"]);
        assert!(PythonCandidate::beneath(&root.join("none")).is_empty());
    }
}
