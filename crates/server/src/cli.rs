//! The command line: `stead serve` and `stead doctor` on the server's machine, everything else a client over HTTP.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::doctor::DoctorArgs;
use crate::commands::key::KeyCommand;
use crate::commands::project::ProjectCommand;
use crate::commands::run::RunArgs;
use crate::commands::session::SessionCommand;
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

/// How a client command reaches its server, and how it prints.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    /// The server's address
    #[arg(long, global = true, env = "STEAD_URL", default_value = "http://127.0.0.1:7077", value_name = "URL")]
    pub(crate) url: String,
    /// The key to call it with; better given in STEAD_KEY or a file, since arguments are visible to other users
    #[arg(long, global = true, env = "STEAD_KEY", hide_env_values = true, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// A file that holds the key [default: admin.key in the default data directory, if readable]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "key")]
    pub(crate) key_file: Option<PathBuf>,
    /// Print data as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    Serve(ServeArgs),
    /// Say what this machine can enforce, what is missing and how to get it
    Doctor(DoctorArgs),
    /// Make, list and revoke keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Make projects, fill them and build them
    #[command(subcommand)]
    Project(ProjectCommand),
    /// Run a command in a session that reads a project
    Run(RunArgs),
    /// List sessions, look at them, fetch their files and remove them
    #[command(subcommand)]
    Session(SessionCommand),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }
}
