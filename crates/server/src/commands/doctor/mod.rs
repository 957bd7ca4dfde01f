//! `stead doctor`: what this machine enforces, what is missing, and the command that would change it.
//!
//! It looks, and tries one real sandbox ([`trial`]); it changes nothing and needs no server. What it says holds for the user and
//! the control group that it runs as, so it is run as the server is.

mod disk;
mod finding;
mod host;
mod kernel;
mod leftovers;
mod network;
mod registries;
mod report;
mod tools;
pub(crate) mod trial;
mod user_ids;

use clap::Args;

use crate::client::Failure;
use crate::console::print;
use crate::serve::{ConfigurationArgs, open_files};
use finding::{Finding, Standing};
use report::{Report, Section};

#[derive(Debug, Args)]
#[command(
    after_help = "It judges by the configuration that it finds: give it the --data, --config and STEAD__ variables that the \
server is given, and run it as the user that the server runs as."
)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    configuration: ConfigurationArgs,
    /// List what belongs to the data directory on this machine instead: processes, mounts, control groups, slots of user ids, run
    /// and environment directories, each with whose it is
    #[arg(long)]
    leftovers: bool,
}

/// Looks at everything and prints it; the status is 1 when something required is missing.
pub(crate) fn doctor(arguments: &DoctorArgs, json: bool) -> Result<u8, Failure> {
    let settings = arguments.configuration.settings(Vec::new())?;
    if arguments.leftovers {
        return leftovers::show(&settings, json).map(|()| 0);
    }
    let is_root = rustix::process::geteuid().is_root();
    let mut report = Report::new(is_root);
    let (probed_at, disk) = disk::findings(&settings.data_directory);
    let probed = kernel::probe(&probed_at);
    report.add(Section::Isolation, probed.isolation);
    report.add(Section::Isolation, user_ids::findings(is_root, settings.native.uid_base, settings.native.slots));
    report.add(Section::Isolation, probed.trial);
    report.add(Section::Isolation, host::isolation(is_root));
    report.add(Section::Limits, probed.limits);
    report.add(Section::Limits, host::swap());
    report.add(Section::Limits, [host::open_files(open_files(&settings), is_root)]);
    report.add(Section::Network, network::findings(&settings, is_root));
    report.add(Section::Network, registries::findings(&settings)?);
    report.add(Section::Disk, disk);
    report.add(Section::Disk, probed.disk);
    report.add(Section::Tools, [tools::runtime(&settings)]);
    report.add(Section::Tools, tools::findings(&settings.data_directory));
    report.attempts = probed.attempts;
    if json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|error| Failure::new(format!("failed to print: {error}")))?;
        print(&(text + "\n"))?;
    } else {
        print(&report.described())?;
    }
    Ok(u8::from(!report.is_ok()))
}
