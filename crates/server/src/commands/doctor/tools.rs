//! The tools that builds and sessions use.

use std::path::Path;

use stead_projects::Toolchain;
use stead_projects::toolchain::{BASH, NODE, NPM, PYTHON};

use super::{Finding, Standing};
use crate::config::Settings;
use crate::serve::{check_runtime, python_candidates, uv_candidates};

/// What becomes process 1 of each environment.
pub(super) fn runtime(settings: &Settings) -> Finding {
    let path = settings.runtime_path.display();
    let name = "runtime program";
    let usable = rustix::fs::access(&settings.runtime_path, rustix::fs::Access::EXEC_OK)
        .map_err(|error| anyhow::anyhow!("it cannot be executed: {error}"))
        .and_then(|()| check_runtime(settings));
    match usable {
        Ok(()) => Finding::good(name, format!("{path} is one that can be executed")),
        Err(error) => {
            let fix = "build it with `cargo build -p stead-runtime`, and put it beside `stead` or set runtime.path";
            Finding::missing(name, true, format!("{path} cannot be used: {error:#}"), Some(fix.to_owned()))
        }
    }
}

pub(super) fn findings(data: &Path) -> Vec<Finding> {
    let tools =
        Toolchain::detect(&uv_candidates(data), &python_candidates(data)).with_node_tools(&data.join("toolchains"));
    let mut findings = Vec::new();
    findings.push(if Toolchain::has_bash() {
        Finding::good("bash", BASH)
    } else {
        Finding::missing(
            "bash",
            true,
            format!("{BASH} is not there: nothing can be built or run"),
            Some(install("bash")),
        )
    });
    findings.push(match tools.pythons.first() {
        Some(python) if python.pip.is_some() => {
            let versions: Vec<&str> = tools.pythons.iter().map(|python| python.version.as_str()).collect();
            Finding::good("python", format!("{}, {}", python.program, versions.join("; ")))
        }
        Some(python) => Finding {
            standing: Standing::Partial,
            fix: Some(install("python3-venv")),
            ..Finding::good("python", format!("{PYTHON}, {}, which cannot make environments with pip", python.version))
        },
        None => {
            let text = format!("{PYTHON} is not there: projects with Python packages cannot be built");
            Finding::missing("python", false, text, Some(install("python3 python3-venv")))
        }
    });
    findings.push(match &tools.node {
        Some(node) if node.npm.is_some() => Finding::good("node", format!("{NODE}, {}", node.version)),
        Some(node) => Finding {
            standing: Standing::Partial,
            fix: Some(install("npm")),
            ..Finding::good("node", format!("{NODE}, {}, without {NPM}", node.version))
        },
        None => {
            let text = format!("{NODE} is not there: projects with Node packages cannot be built");
            Finding::missing("node", false, text, Some(install("nodejs npm")))
        }
    });
    findings.push(match &tools.uv {
        Some(uv) => Finding::good("uv", format!("{} installs Python packages", uv.version)),
        None => {
            let place = data.join("toolchains/uv/bin/uv");
            let text = "Python packages are installed with pip, which takes longer";
            let fix = format!("put the uv program at {}", place.display());
            Finding { standing: Standing::Partial, fix: Some(fix), ..Finding::good("uv", text) }
        }
    });
    findings.push(node_tools(&tools, data));
    findings.push(git());
    findings
}

/// What imports from git run: programs of this machine, which sandboxes see where they lie.
fn git() -> Finding {
    let is_there =
        |name: &str| ["/usr/local/bin", "/usr/bin"].iter().any(|directory| Path::new(directory).join(name).is_file());
    if !is_there("git") {
        let text = "git is not there: nothing can be imported from git";
        return Finding::missing("git", false, text, Some(install("git")));
    }
    if !is_there("ssh") {
        let text = "git imports over http and https; ssh is not there";
        return Finding {
            standing: Standing::Partial,
            fix: Some(install("openssh-client")),
            ..Finding::good("git", text)
        };
    }
    Finding::good("git", "git imports over http, https and ssh")
}

fn node_tools(tools: &Toolchain, data: &Path) -> Finding {
    let found: Vec<String> =
        [("pnpm", &tools.node_tools.pnpm), ("Yarn", &tools.node_tools.yarn), ("Yarn", &tools.node_tools.yarn_berry)]
            .into_iter()
            .flat_map(|(name, versions)| versions.iter().map(move |tool| format!("{name} {}", tool.version)))
            .collect();
    if found.is_empty() {
        let text = "projects with a lock of pnpm or Yarn cannot be built";
        let fix = format!("docs/manifests.md says what to put into {}", data.join("toolchains").display());
        return Finding { standing: Standing::Partial, fix: Some(fix), ..Finding::good("node locks", text) };
    }
    Finding::good("node locks", found.join(", "))
}

fn install(packages: &str) -> String {
    format!("apt-get install {packages}")
}
