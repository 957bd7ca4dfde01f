//! The tools that builds and sessions use.

use std::path::Path;

use stead_projects::Toolchain;
use stead_projects::toolchain::{BASH, NODE, NPM, PYTHON};

use super::{Finding, Standing};
use crate::serve::uv_candidates;

pub(super) fn findings(data: &Path) -> Vec<Finding> {
    let tools = Toolchain::detect(&uv_candidates(data)).with_node_tools(&data.join("toolchains"));
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
    findings.push(match &tools.python {
        Some(python) if python.pip.is_some() => Finding::good("python", format!("{PYTHON}, {}", python.version)),
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
    findings
}

fn install(packages: &str) -> String {
    format!("apt-get install {packages}")
}
