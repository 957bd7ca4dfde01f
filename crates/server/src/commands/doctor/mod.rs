//! `stead doctor`: what this machine enforces, what is missing, and the command that would change it.

mod registries;
mod tools;

use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use serde::Serialize;
use stead_sandbox::cgroup::CgroupManager;
use stead_sandbox::features::{self, State};

use crate::client::Failure;
use crate::config::Settings;
use crate::console::{print, printable};
use crate::serve::ConfigurationArgs;

/// Control groups of doctor's own: those of a running server are left alone.
const GROUP: &str = "stead-doctor";

#[derive(Debug, Args)]
#[command(
    after_help = "It judges by the configuration that it finds: give it the --data, --config and STEAD__ variables that the \
server is given."
)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    configuration: ConfigurationArgs,
}

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    Good,
    Partial,
    Missing,
}

/// One thing looked at.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: String,
    pub(crate) standing: Standing,
    /// Whether the server cannot work without it.
    pub(crate) required: bool,
    pub(crate) explanation: String,
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn good(name: &str, explanation: impl Into<String>) -> Self {
        let (standing, required) = (Standing::Good, false);
        Self { name: name.to_owned(), standing, required, explanation: explanation.into(), fix: None }
    }

    pub(crate) fn missing(name: &str, required: bool, explanation: impl Into<String>, fix: Option<String>) -> Self {
        Self { name: name.to_owned(), standing: Standing::Missing, required, explanation: explanation.into(), fix }
    }

    fn is_obstacle(&self) -> bool {
        self.required && self.standing == Standing::Missing
    }
}

#[derive(Debug, Serialize)]
struct Report {
    /// Whether nothing that is required is missing.
    ok: bool,
    findings: Vec<Finding>,
}

/// Looks at everything and prints it; the status is 1 when something required is missing.
pub(crate) fn doctor(arguments: &DoctorArgs, json: bool) -> Result<u8, Failure> {
    let settings = arguments.configuration.settings(Vec::new())?;
    let mut findings = Vec::new();
    let probed_at = data_directory(&settings.data_directory, &mut findings);
    kernel(&probed_at, &mut findings);
    findings.push(runtime(&settings));
    findings.extend(tools::findings(&settings.data_directory));
    findings.extend(registries::findings(&settings)?);
    let report = Report { ok: !findings.iter().any(Finding::is_obstacle), findings };
    if json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|error| Failure::new(format!("failed to print: {error}")))?;
        print(&(text + "\n"))?;
    } else {
        print(&described(&report))?;
    }
    Ok(u8::from(!report.ok))
}

/// Looks at the data directory without making it, and says where its file system can be tried.
fn data_directory(path: &Path, findings: &mut Vec<Finding>) -> std::path::PathBuf {
    let existing = path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("/")).to_owned();
    let name = "data directory";
    let access = rustix::fs::access(&existing, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    findings.push(match access {
        Ok(()) if existing == path => Finding::good(name, format!("{} can be written", path.display())),
        Ok(()) => Finding::good(name, format!("{} will be made", path.display())),
        Err(error) => {
            let fix = Some(format!("chown \"$(id -u)\" {}, or name another with --data", existing.display()));
            Finding::missing(name, true, format!("{} cannot be written: {error}", existing.display()), fix)
        }
    });
    if let Ok(space) = rustix::fs::statvfs(&existing) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let text = format!("{} are free there", crate::console::size(free));
        findings.push(if free >= 2 << 30 {
            Finding::good("disk space", text)
        } else {
            Finding {
                standing: Standing::Partial,
                ..Finding::good("disk space", text + "; builds of large projects need more")
            }
        });
    }
    existing
}

fn kernel(data: &Path, findings: &mut Vec<Finding>) {
    let probed = std::env::current_exe().and_then(|program| {
        let cgroups = CgroupManager::detect(GROUP).map_err(std::io::Error::other)?;
        features::probe(&program, &cgroups, data)
    });
    remove_groups();
    match probed {
        Ok(probed) => findings.extend(probed.all.into_iter().map(|feature| Finding {
            name: feature.name,
            standing: match feature.state {
                State::Enforced => Standing::Good,
                State::Partial => Standing::Partial,
                State::Missing => Standing::Missing,
            },
            required: feature.required,
            explanation: feature.explanation,
            fix: feature.fix,
        })),
        Err(error) => {
            findings.push(Finding::missing(
                "sandbox",
                true,
                format!("what the kernel offers cannot be tried: {error}"),
                None,
            ));
        }
    }
}

/// Removes the empty groups that looking made. Where they cannot be found they stay, and harm nothing.
fn remove_groups() {
    for hierarchy in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir(hierarchy.path().join(GROUP));
    }
}

fn runtime(settings: &Settings) -> Finding {
    let path = settings.runtime_path.display();
    let name = "runtime program";
    match rustix::fs::access(&settings.runtime_path, rustix::fs::Access::EXEC_OK) {
        Ok(()) => Finding::good(name, format!("{path} can be executed")),
        Err(error) => {
            let fix = "build it with `cargo build -p stead-runtime`, and put it beside `stead` or set runtime.path";
            Finding::missing(name, true, format!("{path} cannot be executed: {error}"), Some(fix.to_owned()))
        }
    }
}

fn described(report: &Report) -> String {
    let mut text = String::new();
    let width = report.findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    for finding in &report.findings {
        let standing = match finding.standing {
            Standing::Good => "ok      ",
            Standing::Partial => "partly  ",
            Standing::Missing if finding.required => "MISSING ",
            Standing::Missing => "missing ",
        };
        let _ = writeln!(text, "{standing}{:<width$}  {}", finding.name, printable(&finding.explanation));
        if let Some(fix) = finding.fix.as_ref().filter(|_| finding.standing != Standing::Good) {
            let _ = writeln!(text, "{:<1$}to change it: {fix}", "", width + 10);
        }
    }
    text.push_str(if report.ok {
        "\nStead can run here. What is missing or partly there is not required.\n"
    } else {
        "\nStead cannot run here before what is MISSING is there.\n"
    });
    text
}
