//! What builds need from beyond this repository: the installers, and the way to the registries of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::TestServer;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program that `./test` names in the environment, or that it left where it puts such programs.
fn tool(variable: &str, place: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.or_else(|| Some(repository().join("target/tools").join(place))).filter(|path| path.exists())
}

/// The interpreter that has the clients of the protocol.
pub(crate) fn python() -> Option<PathBuf> {
    tool("STEAD_TEST_PYTHON", "python/bin/python")
}

/// The hosts of this machine's registries that an operator has to name.
fn registry_hosts() -> String {
    if let Ok(hosts) = std::env::var("STEAD_TEST_REGISTRY_HOSTS") {
        return hosts;
    }
    let script = ". scripts/prepare.sh; registry_hosts";
    let found = Command::new("sh").args(["-c", script]).current_dir(repository()).output();
    found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default()
}

/// A server whose builds reach the registries, with uv, pnpm and Yarn when they are there.
pub(crate) fn networked(settings: &[(&str, &str)]) -> TestServer {
    let hosts = registry_hosts().split_whitespace().collect::<Vec<_>>().join(",");
    let settings: Vec<(&str, &str)> =
        settings.iter().copied().chain([("builds.registry_hosts", hosts.as_str())]).collect();
    TestServer::start_prepared(&settings, |data| {
        if let Some(uv) = tool("STEAD_TEST_UV", "toolchains/uv/bin/uv") {
            let place = data.join("toolchains/uv/bin");
            std::fs::create_dir_all(&place).unwrap();
            std::fs::copy(uv, place.join("uv")).unwrap();
        }
        for name in ["pnpm", "yarn", "yarn-berry"] {
            if let Some(tools) = tool("STEAD_TEST_NODE_TOOLS", "toolchains").map(|tools| tools.join(name)) {
                let place = data.join("toolchains");
                std::fs::create_dir_all(&place).unwrap();
                // Thousands of files: links to them will do.
                let copied = Command::new("cp").args(["-a", "--link"]).arg(&tools).arg(&place).status().unwrap();
                let copied = copied.success() || {
                    Command::new("cp").arg("-a").arg(&tools).arg(&place).status().unwrap().success()
                };
                assert!(copied, "{} cannot be copied", tools.display());
            }
        }
    })
}

/// Says why a test does nothing; with `STEAD_NO_SKIP=1` it fails instead.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "{reason}");
    eprintln!("skipped: {reason}");
}
