//! `stead package` and `stead runtimes`: what a project may declare.

use clap::Subcommand;

use super::Context;
use crate::client::{Failure, PackageCheck, Runtimes, segment};
use crate::console::{printable, table};

#[derive(Debug, Subcommand)]
pub(crate) enum PackageCommand {
    /// Ask the registry about a package, before any build
    Check {
        /// Who would install it: pip, npm or apt
        #[arg(value_parser = ["pip", "npm", "apt"])]
        manager: String,
        /// The package as the manager takes it: `numpy==2.3.1`, `sharp@^0.33`, `ffmpeg`
        spec: String,
    },
}

pub(crate) async fn package(context: &Context, command: PackageCommand) -> Result<(), Failure> {
    let PackageCommand::Check { manager, spec } = command;
    let path = format!("/v1/environments/packages/check?manager={}&spec={}", segment(&manager), segment(&spec));
    let answer = context.client.get::<PackageCheck>(&path).await?;
    let found = &answer.value;
    let good = found.exists == Some(true) && found.error.is_empty();
    if good || context.console.json {
        context.console.show(&answer.json, || described(found))?;
    }
    if good { Ok(()) } else { Err(Failure::new(refusal(found))) }
}

fn described(found: &PackageCheck) -> String {
    let installed = if found.stead_fitting.is_empty() { &found.version } else { &found.stead_fitting };
    table(&["PACKAGE", "INSTALLS", "LATEST"], &[vec![found.name.clone(), installed.clone(), found.latest.clone()]])
}

/// Why the package would not be installed.
fn refusal(found: &PackageCheck) -> String {
    let (manager, name) = (&found.manager, printable(&found.name));
    let why = printable(&found.error);
    match (found.exists, found.latest.as_str()) {
        (None, _) => format!("{manager} packages cannot be checked: {why}"),
        (Some(false), _) if why.is_empty() => format!("{manager} has no package `{name}`"),
        (Some(false), _) | (Some(true), "") => format!("`{name}`: {why}"),
        (Some(true), latest) => format!("`{name}`: {why}; the latest is {}", printable(latest)),
    }
}

/// `stead runtimes`.
pub(crate) async fn runtimes(context: &Context) -> Result<(), Failure> {
    let answer = context.client.get::<Runtimes>("/v1/environments/runtimes").await?;
    let found = &answer.value;
    context.console.show(&answer.json, || {
        let list = |versions: &[String]| if versions.is_empty() { "-".to_owned() } else { versions.join(", ") };
        let system = format!("{} {}", found.os.name, found.os.version).trim().to_owned();
        let apt = if found.apt { "yes" } else { "no" }.to_owned();
        table(&["PYTHON", "NODE", "SYSTEM", "APT"], &[vec![list(&found.python), list(&found.node), system, apt]])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_be_installed_is_said_with_its_reason() {
        let found = |exists: Option<bool>, latest: &str, error: &str| PackageCheck {
            manager: "pip".to_owned(),
            name: "a".to_owned(),
            exists,
            latest: latest.to_owned(),
            version: String::new(),
            error: error.to_owned(),
            stead_fitting: String::new(),
        };
        assert_eq!(refusal(&found(None, "", "why")), "pip packages cannot be checked: why");
        assert_eq!(refusal(&found(Some(false), "", "")), "pip has no package `a`");
        assert_eq!(
            refusal(&found(Some(true), "2", "no published version fits `==3`")),
            "`a`: no published version fits `==3`; the latest is 2"
        );
        let mut good = found(Some(true), "2", "");
        good.stead_fitting = "1".to_owned();
        assert_eq!(described(&good), "PACKAGE  INSTALLS  LATEST\na        1         2\n");
    }
}
