//! pnpm and Yarn: programs for Node that the operator places, in the versions that write the locks of projects.
//!
//! ```text
//! <data>/toolchains/pnpm/node_modules/<any name>/bin/pnpm.cjs
//! <data>/toolchains/yarn/node_modules/yarn/bin/yarn.js               classic
//! <data>/toolchains/yarn-berry/node_modules/<any name>/bin/yarn.js   2 and later; a scope may lie between
//! ```
//!
//! A lock is installed by a version that writes its format: another one would have to rewrite it first, and a lock that may
//! be rewritten pins nothing.

use std::path::{Path, PathBuf};

/// Where a sandbox sees the toolchains.
const INSIDE: &str = "/opt/stead";

/// One version of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTool {
    /// Its script inside a sandbox, for Node to run.
    pub program: String,
    /// Its version: `10.34.9`.
    pub version: String,
}

/// The tools of this machine, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeTools {
    /// pnpm.
    pub pnpm: Vec<NodeTool>,
    /// Yarn 1.
    pub yarn: Vec<NodeTool>,
    /// Yarn 2 and later.
    pub yarn_berry: Vec<NodeTool>,
}

impl NodeTools {
    /// Looks into `toolchains`, the directory that sandboxes see as `/opt/stead`.
    pub fn detect(toolchains: &Path) -> Self {
        let find = |toolchain: &str, script: &str| {
            let mut tools = Vec::new();
            for package in packages(&toolchains.join(toolchain).join("node_modules")) {
                tools.extend(tool(toolchains, &package, script));
            }
            tools.sort_by_key(|tool: &NodeTool| std::cmp::Reverse(tool.numbers()));
            tools
        };
        Self {
            pnpm: find("pnpm", "bin/pnpm.cjs"),
            yarn: find("yarn", "bin/yarn.js"),
            yarn_berry: find("yarn-berry", "bin/yarn.js"),
        }
    }

    /// The pnpm for a lock of this `lockfileVersion`; without a lock, the newest. The failure is what is missing.
    pub fn pnpm_for(&self, format: Option<&str>) -> Result<&NodeTool, &'static str> {
        let Some(format) = format else { return self.pnpm.first().ok_or("pnpm") };
        let (majors, missing) = match format.split('.').next().unwrap_or_default() {
            "5" => (6..=7, "pnpm 7"),
            "6" => (8..=8, "pnpm 8"),
            "9" => (9..=u32::MAX, "pnpm"),
            _ => return Err("a pnpm that knows this `lockfileVersion`"),
        };
        self.pnpm.iter().find(|tool| majors.contains(&tool.numbers().0)).ok_or(missing)
    }

    /// The Yarn, from 2 on, for a lock of this `__metadata.version`; without a lock, the newest.
    pub fn yarn_berry_for(&self, format: Option<u32>) -> Result<&NodeTool, &'static str> {
        let Some(format) = format else { return self.yarn_berry.first().ok_or("Yarn 4") };
        // The formats changed with these versions.
        let (from, until, missing) = match format {
            0..=5 => ((2, 0), (3, 0), "Yarn 2"),
            6 | 7 => ((3, 0), (4, 0), "Yarn 3"),
            8 => ((4, 0), (4, 14), "Yarn 4.13"),
            9 => ((4, 14), (4, 16), "Yarn 4.15"),
            _ => ((4, 16), (u32::MAX, 0), "Yarn 4.16 or later"),
        };
        self.yarn_berry.iter().find(|tool| (from..until).contains(&tool.numbers())).ok_or(missing)
    }
}

impl NodeTool {
    /// Its script on this machine, whose toolchains lie in `toolchains`.
    pub fn on_disk(&self, toolchains: &Path) -> PathBuf {
        let inside = Path::new(&self.program);
        toolchains.join(inside.strip_prefix(INSIDE).unwrap_or(inside))
    }

    /// Major and minor.
    fn numbers(&self) -> (u32, u32) {
        let mut numbers = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

/// The packages in a `node_modules`, scoped ones included.
fn packages(directory: &Path) -> Vec<PathBuf> {
    let list = |directory: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let is_scope = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"));
    let mut found = Vec::new();
    for path in list(directory) {
        if is_scope(&path) { found.extend(list(&path)) } else { found.push(path) }
    }
    found.sort_unstable();
    found
}

/// What a package says of itself, if it has the script; asking the script takes a quarter of a second each.
fn tool(toolchains: &Path, package: &Path, script: &str) -> Option<NodeTool> {
    let program = package.join(script);
    if !program.is_file() {
        return None;
    }
    let parsed: serde_json::Value = serde_json::from_slice(&std::fs::read(package.join("package.json")).ok()?).ok()?;
    let inside = Path::new(INSIDE).join(program.strip_prefix(toolchains).ok()?);
    Some(NodeTool { program: inside.to_str()?.to_owned(), version: parsed["version"].as_str()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lock_gets_a_tool_that_writes_its_format() {
        let directory = tempfile::tempdir().unwrap();
        for (place, script, version) in [
            ("pnpm/node_modules/pnpm", "pnpm.cjs", "10.34.9"),
            ("pnpm/node_modules/pnpm-8", "pnpm.cjs", "8.15.9"),
            ("yarn-berry/node_modules/yarn-3", "yarn.js", "3.8.7"),
            ("yarn-berry/node_modules/yarn-4.13", "yarn.js", "4.13.0"),
            ("yarn-berry/node_modules/@yarnpkg/cli-dist", "yarn.js", "4.18.1"),
            ("yarn-berry/node_modules/other", "other.js", "9.0.0"),
        ] {
            let package = directory.path().join(place);
            std::fs::create_dir_all(package.join("bin")).unwrap();
            std::fs::write(package.join("bin").join(script), "").unwrap();
            std::fs::write(package.join("package.json"), format!(r#"{{"version":"{version}"}}"#)).unwrap();
        }
        let tools = NodeTools::detect(directory.path());
        assert_eq!(tools.pnpm[0].program, "/opt/stead/pnpm/node_modules/pnpm/bin/pnpm.cjs");
        assert!(tools.pnpm[0].on_disk(directory.path()).is_file());
        let pnpm = |format| tools.pnpm_for(format).map(|tool| tool.version.as_str());
        assert_eq!([pnpm(None), pnpm(Some("9.0")), pnpm(Some("6.0"))], [Ok("10.34.9"), Ok("10.34.9"), Ok("8.15.9")]);
        assert_eq!(pnpm(Some("5.4")), Err("pnpm 7"));
        let yarn = |format| tools.yarn_berry_for(format).map(|tool| tool.version.as_str());
        assert_eq!(
            [yarn(None), yarn(Some(10)), yarn(Some(8)), yarn(Some(6))].map(Result::unwrap),
            ["4.18.1", "4.18.1", "4.13.0", "3.8.7"]
        );
        assert_eq!((yarn(Some(9)), tools.yarn.len()), (Err("Yarn 4.15"), 0));
        assert_eq!(NodeTools::detect(Path::new("/nonexistent")), NodeTools::default());
    }
}
