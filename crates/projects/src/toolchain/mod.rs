//! The host's tools that builds and sessions use, and the base that follows from them.
//!
//! On the native provider a session's `/usr` is the host's, so the tools are the ones under `/usr/bin`, never what some
//! `PATH` names: a version manager's shim in a home directory does not exist in a sandbox.

mod node_tools;
mod python;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stead_domain::build::Base;

pub use node_tools::{NodeTool, NodeTools};
pub use python::{Python, PythonCandidate};

/// The host's own interpreter, the same path inside and outside.
pub const PYTHON: &str = "/usr/bin/python3";
/// Node.
pub const NODE: &str = "/usr/bin/node";
/// npm's own program, a script for Node.
pub const NPM: &str = "/usr/bin/npm";
/// What runs `setup.sh`.
pub const BASH: &str = "/usr/bin/bash";
/// What resolves and fetches system packages.
pub const APT: &str = "/usr/bin/apt-get";
/// What unpacks them.
const DPKG_DEB: &str = "/usr/bin/dpkg-deb";
/// What ends a program together with whoever started it.
const SETPRIV: &str = "/usr/bin/setpriv";

/// Node with npm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its version without the `v`: `20.20.2`.
    pub version: String,
    /// npm's version; absent when npm is.
    pub npm: Option<String>,
}

/// uv, which installs what pip would, faster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uv {
    /// Its path inside a sandbox.
    pub program: String,
    /// Its version.
    pub version: String,
}

/// The tools of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// `glibc 2.36`; empty when unknown.
    pub libc: String,
    /// The Python interpreters, the default first.
    pub pythons: Vec<Python>,
    /// The host's Node.
    pub node: Option<Node>,
    /// uv, when the operator placed one.
    pub uv: Option<Uv>,
    /// The version of apt that resolves system packages; absent on a host that has none.
    pub apt: Option<String>,
    /// pnpm and Yarn, when the operator placed them; see [`Toolchain::with_node_tools`].
    pub node_tools: NodeTools,
}

/// Where a uv may be: its path on the host, and inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UvCandidate {
    /// On the host, such as `<data>/toolchains/uv/bin/uv`.
    pub host: PathBuf,
    /// In a sandbox, such as `/opt/stead/uv/bin/uv`.
    pub inside: String,
}

impl Toolchain {
    /// Looks at the host, once at start: runs `--version` of each tool. A tool that is missing or does not answer is absent.
    pub fn detect(uv: &[UvCandidate], pythons: &[PythonCandidate]) -> Self {
        // Side by side: each tool takes a moment to say anything, and a server that starts has nothing else to wait for.
        std::thread::scope(|scope| {
            let pythons = scope.spawn(|| python::detect(pythons));
            let node = scope.spawn(|| ask(NODE, &["--version"]));
            let uv = scope.spawn(|| {
                uv.iter().find_map(|candidate| {
                    let said = ask(candidate.host.as_os_str(), &["--version"])?;
                    let version = said.split_whitespace().nth(1).unwrap_or(&said).to_owned();
                    Some(Uv { program: candidate.inside.clone(), version })
                })
            });
            let apt = scope.spawn(apt_version);
            let npm = npm_version();
            let libc = libc_version();
            // A thread that panicked says as much as a tool that is missing.
            let node = node.join().ok().flatten();
            let node = node.map(|version| Node { version: version.trim_start_matches('v').to_owned(), npm });
            Self {
                architecture: std::env::consts::ARCH.to_owned(),
                libc,
                pythons: pythons.join().unwrap_or_default(),
                node,
                uv: uv.join().ok().flatten(),
                apt: apt.join().ok().flatten(),
                node_tools: NodeTools::default(),
            }
        })
    }

    /// The same with what lies in `toolchains`, the directory that sandboxes see as `/opt/stead`.
    #[must_use]
    pub fn with_node_tools(mut self, toolchains: &Path) -> Self {
        self.node_tools = NodeTools::detect(toolchains);
        self
    }

    /// The interpreter of a declared minor, where this server has it; the default for none.
    pub fn python(&self, minor: &str) -> Option<&Python> {
        if minor.is_empty() {
            return self.pythons.first();
        }
        self.pythons.iter().find(|python| python.pip.is_some() && python.minor() == minor)
    }

    /// The minors that can be declared, the default first.
    pub fn python_minors(&self) -> Vec<String> {
        let mut minors: Vec<String> = Vec::new();
        for python in self.pythons.iter().filter(|python| python.pip.is_some()) {
            if !minors.contains(&python.minor()) {
                minors.push(python.minor());
            }
        }
        minors
    }

    /// The base that versions built here with the default interpreter record.
    pub fn base(&self) -> Base {
        self.base_of(self.pythons.first())
    }

    /// The base of a version for which this minor was declared: with that interpreter, else with the default.
    pub fn base_for(&self, minor: &str) -> Base {
        self.base_of(self.python(minor).or(self.pythons.first()))
    }

    /// Every base that a version readable here may have.
    pub fn bases(&self) -> Vec<Base> {
        let mut bases = vec![self.base()];
        for python in &self.pythons {
            let base = self.base_of(Some(python));
            if !bases.contains(&base) {
                bases.push(base);
            }
        }
        bases
    }

    fn base_of(&self, python: Option<&Python>) -> Base {
        let mut parts = vec![format!("{} {}", self.architecture, self.libc).trim().to_owned()];
        if let Some(python) = python {
            parts.push(format!("python {}", python.minor()));
        }
        if let Some(node) = &self.node {
            parts.push(format!("node {}", leading(&node.version, 1)));
        }
        let description = parts.join(", ");
        let id = blake3::hash(description.as_bytes()).to_hex()[..16].to_owned();
        Base { id, description }
    }

    /// Whether bash is there, without which nothing can be built.
    pub fn has_bash() -> bool {
        Path::new(BASH).exists()
    }
}

/// The first `count` components of a dotted version.
fn leading(version: &str, count: usize) -> String {
    version.split('.').take(count).collect::<Vec<_>>().join(".")
}

/// A command that is killed when the thread that starts it ends, and so when the process does, whatever ends it: nobody is left to
/// hear the answer.
pub fn question(program: impl AsRef<OsStr>) -> Command {
    if !Path::new(SETPRIV).exists() {
        return Command::new(program);
    }
    let mut command = Command::new(SETPRIV);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn ask(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    // A clean environment, so that nothing of the server's own reaches a tool or changes its answer.
    let output = question(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C.UTF-8")
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !said.is_empty()).then_some(said)
}

/// What npm says of itself in the package that it is; asking it takes a third of a second.
fn npm_version() -> Option<String> {
    let package = Path::new(NPM).canonicalize().ok()?.parent()?.parent()?.join("package.json");
    let parsed: Option<serde_json::Value> =
        std::fs::read(package).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match parsed.as_ref().filter(|package| package["name"] == "npm").and_then(|package| package["version"].as_str()) {
        Some(version) => Some(version.to_owned()),
        None => ask(NODE, &[NPM, "--version"]),
    }
}

/// apt is of use together with what unpacks its packages.
fn apt_version() -> Option<String> {
    if !Path::new(APT).exists() || !Path::new(DPKG_DEB).exists() {
        return None;
    }
    ask(APT, &["--version"])?.split_whitespace().nth(1).map(str::to_owned)
}

fn libc_version() -> String {
    ask("/usr/bin/getconf", &["GNU_LIBC_VERSION"]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_ends_with_whoever_asked() {
        if !Path::new(SETPRIV).exists() {
            assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "this test needs {SETPRIV}");
            eprintln!("skipped: this test needs {SETPRIV}");
            return;
        }
        let asks = || {
            let asked = question("/bin/sleep").arg("30").spawn().unwrap();
            let name = format!("/proc/{}/comm", asked.id());
            let began = std::time::Instant::now();
            // Once it is the program that was asked, it is bound to this thread.
            while std::fs::read_to_string(&name).unwrap() != "sleep\n" {
                assert!(began.elapsed() < std::time::Duration::from_secs(20), "the program is not started");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            asked
        };
        let mut asked = std::thread::spawn(asks).join().unwrap();
        assert!(!asked.wait().unwrap().success());
    }

    fn python(program: &str, version: &str) -> Python {
        Python { program: program.into(), version: version.into(), pip: Some("23.0.1".into()) }
    }

    fn sample() -> Toolchain {
        Toolchain {
            architecture: "x86_64".into(),
            libc: "glibc 2.36".into(),
            pythons: vec![python(PYTHON, "3.11.2")],
            node: Some(Node { version: "20.20.2".into(), npm: Some("10.8.2".into()) }),
            uv: None,
            apt: None,
            node_tools: NodeTools::default(),
        }
    }

    #[test]
    fn the_base_changes_with_what_binaries_depend_on_alone() {
        let base = sample().base();
        assert_eq!(base.description, "x86_64 glibc 2.36, python 3.11, node 20");
        let mut patch = sample();
        patch.pythons = vec![python("/other", "3.11.9")];
        patch.node = Some(Node { version: "20.1.0".into(), npm: None });
        patch.apt = Some("2.6.1".into());
        assert_eq!(patch.base(), base);
        let changes: [fn(&mut Toolchain); 4] = [
            |tools| tools.architecture = "aarch64".into(),
            |tools| tools.libc = "glibc 2.39".into(),
            |tools| tools.pythons = vec![python(PYTHON, "3.12.0")],
            |tools| tools.node = None,
        ];
        for change in changes {
            let mut other = sample();
            change(&mut other);
            assert_ne!(other.base().id, base.id, "{other:?}");
        }
    }

    #[test]
    fn a_base_names_the_interpreter_that_was_declared_where_it_is_here() {
        let mut tools = sample();
        tools.pythons.push(python("/opt/stead/python3.9/bin/python3.9", "3.9.2"));
        tools.pythons.push(python("/opt/stead/python3.11/bin/python3.11", "3.11.9"));
        tools.pythons.push(Python { pip: None, ..python("/nopip", "3.8.1") });
        assert_eq!(tools.python_minors(), ["3.11", "3.9"]);
        assert_eq!(tools.base_for("3.9").description, "x86_64 glibc 2.36, python 3.9, node 20");
        assert_eq!((tools.base_for("3.8"), tools.base_for("")), (tools.base(), tools.base()));
        assert_eq!(tools.python("3.11").map(|python| python.program.as_str()), Some(PYTHON));
        assert!(tools.python("3.8").is_none());
        let bases = tools.bases();
        assert!(bases.contains(&sample().base()) && bases.contains(&tools.base_for("3.9")), "{bases:?}");
        let mut none = sample();
        none.pythons.clear();
        assert_eq!(none.bases(), [none.base()]);
        assert!(none.python("").is_none());
    }
}
