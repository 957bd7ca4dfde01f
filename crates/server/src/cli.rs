//! The command line: `stead serve` and `stead doctor` on the server's machine, everything else a client over HTTP.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::commands::audit::AuditArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::key::KeyCommand;
use crate::commands::package::PackageCommand;
use crate::commands::project::ProjectCommand;
use crate::commands::run::RunArgs;
use crate::commands::session::SessionCommand;
use crate::commands::workspace::WorkspaceCommand;
use crate::config::parse_duration;
use crate::serve::ServeArgs;

/// A place for AI agents to work: projects built once, sessions that start in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "stead", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The heading of what every command takes, apart from a command's own options.
const EVERYWHERE: &str = "Options of every command";

/// How a client command reaches its server, and how it prints.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    /// The server's address
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "STEAD_URL", default_value = "http://127.0.0.1:7077", value_name = "URL")]
    pub(crate) url: String,
    /// The key to call it with; better given in STEAD_KEY or a file, since arguments are visible to other users
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "STEAD_KEY", hide_env_values = true, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// A file that holds the key, before --key and STEAD_KEY [default: admin.key in the default data directory, if readable]
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// For how long to ask again when the server goes away meanwhile
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "STEAD_PATIENCE", default_value = "1m", value_name = "DURATION", value_parser = parse_seconds)]
    pub(crate) patience: Duration,
    /// Print data as JSON, and errors as JSON on standard error
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
}

/// A duration as everywhere in Stead, or a bare number of seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => parse_duration(text),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    Serve(ServeArgs),
    /// Print every option of `stead serve` with its default and meaning, as a configuration file
    Config,
    /// Say what this machine can enforce, what is missing and how to get it
    Doctor(DoctorArgs),
    /// Make, list and revoke keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Make and list workspaces, the tenants of a server
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Make projects, fill them and build them
    #[command(subcommand)]
    Project(ProjectCommand),
    /// Ask registries about packages
    #[command(subcommand)]
    Package(PackageCommand),
    /// Say what projects can be built with on the server
    Runtimes,
    /// Run a command in a session that reads a project
    Run(RunArgs),
    /// Say how much the workspace keeps, beside its quotas
    Usage,
    /// Remove what nothing names any more, now
    Collect,
    /// Say who did what; the key needs the verb admin, or operator for all workspaces
    Audit(AuditArgs),
    /// List sessions, look at them, fetch their output and files, and remove them
    #[command(subcommand)]
    Session(SessionCommand),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bare_number_is_seconds() {
        assert_eq!(parse_seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_seconds("2m"), Ok(Duration::from_mins(2)));
        assert!(parse_seconds("2x").is_err() && parse_seconds("").is_err() && parse_seconds("-1").is_err());
    }
}
