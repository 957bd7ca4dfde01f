//! `stead project`.

mod build;
mod declare;
mod file;
mod files;
mod git;
mod objects;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::Context;
use crate::client::{Environment, Failure};
use crate::console::printable;
use declare::Declare;

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// Make a project
    Create {
        /// Its name; its mount path /env/SLUG is derived from it once and for all
        name: String,
        /// What it is
        #[arg(long, default_value = "")]
        description: String,
        /// How to run it; agents are told word for word
        #[arg(long, default_value = "")]
        entry: String,
        #[command(flatten)]
        declare: Declare,
    },
    /// Change what a project is called, says and declares; the next build takes the packages
    Set {
        /// The project's id, slug or name
        project: String,
        /// Its new name; its slug and mount stay
        #[arg(long)]
        name: Option<String>,
        /// What it is
        #[arg(long)]
        description: Option<String>,
        /// How to run it
        #[arg(long)]
        entry: Option<String>,
        #[command(flatten)]
        declare: Declare,
    },
    /// List projects, or the files of one
    #[command(visible_alias = "ls")]
    List {
        /// The project whose files to list, by its id, slug or name
        project: Option<String>,
    },
    /// Show a project
    Show {
        /// The project's id, slug or name
        project: String,
    },
    /// List the files of a project's source; builds leave environments (.venv, node_modules) and caches out of it
    Files {
        /// The project's id, slug or name
        project: String,
        /// Only what lies beneath this directory
        #[arg(long, value_name = "DIRECTORY")]
        under: Option<String>,
    },
    /// Put a whole archive, directory or git repository into a project
    #[command(
        group(ArgGroup::new("source").required(true).args(["path", "git"])),
        override_usage = "stead project import [OPTIONS] <PROJECT> <PATH|--git <URL>>"
    )]
    Import {
        /// The project's id, slug or name
        project: String,
        /// A zip or tar, or a directory (sent without .git, node_modules and .venv)
        path: Option<PathBuf>,
        /// Remove what is there first
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        repository: git::Repository,
    },
    /// Put one file or directory into a project
    Put {
        /// The project's id, slug or name
        project: String,
        /// The file or directory here
        local: PathBuf,
        /// Its path in the project, or with a `/` at its end the directory it goes into [default: its name]
        remote: Option<String>,
        #[command(flatten)]
        condition: Condition,
    },
    /// Fetch one file of a project
    Get {
        /// The project's id, slug or name
        project: String,
        /// The file's path in the project
        remote: String,
        /// Where to put it [default: standard output]
        local: Option<PathBuf>,
    },
    /// Make a file of a project executable, or no longer so
    Chmod {
        /// The project's id, slug or name
        project: String,
        /// What it becomes
        #[arg(value_enum, allow_hyphen_values = true)]
        mode: Mode,
        /// The file's path in the project
        path: String,
    },
    /// Remove a file or directory from a project
    Rm {
        /// The project's id, slug or name
        project: String,
        /// The path in the project
        path: String,
        /// Only if the file still has this tag
        #[arg(long, value_name = "TAG")]
        if_match: Option<String>,
    },
    /// Build the next version and follow its log; Ctrl-C ends the following alone
    Build {
        /// The project's id, slug or name
        project: String,
        /// Reuse nothing of earlier builds
        #[arg(long)]
        fresh: bool,
        /// Return as soon as the build is admitted
        #[arg(long)]
        no_wait: bool,
    },
    /// Print a build's log, following it while it grows
    Log {
        /// The project's id, slug or name
        project: String,
        /// The build [default: the latest]
        version: Option<u32>,
    },
    /// End a running build, which then counts as failed
    Cancel {
        /// The project's id, slug or name
        project: String,
        /// The build [default: the latest]
        version: Option<u32>,
    },
    /// List a project's builds
    Versions {
        /// The project's id, slug or name
        project: String,
    },
    /// Make a finished build the version that new sessions read
    Activate {
        /// The project's id, slug or name
        project: String,
        /// The build
        version: u32,
    },
    /// Give up the files of a finished version that is not active; its record stays
    RemoveVersion {
        /// The project's id, slug or name
        project: String,
        /// The version
        version: u32,
    },
    /// Delete a project with every version
    Delete {
        /// The project's id, slug or name
        project: String,
    },
}

/// What has to be at the path of a file that is put.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Condition {
    /// Only if the file there still has this tag, as `--json get` and `--json put` print it
    #[arg(long, value_name = "TAG")]
    if_match: Option<String>,
    /// Only if nothing is there
    #[arg(long)]
    new: bool,
}

/// The one thing about a file's mode that a project keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Executable
    #[value(name = "+x")]
    Executable,
    /// Not executable
    #[value(name = "-x")]
    Plain,
}

pub(crate) async fn project(context: &Context, command: ProjectCommand) -> Result<(), Failure> {
    match command {
        ProjectCommand::Create { name, description, entry, declare } => {
            objects::create(context, &name, &description, &entry, &declare).await
        }
        ProjectCommand::Set { project, name, description, entry, declare } => {
            objects::set(context, &project, [("name", name), ("description", description), ("entry", entry)], &declare)
                .await
        }
        ProjectCommand::List { project: None } => objects::list(context).await,
        ProjectCommand::List { project: Some(project) } => files::list(context, &project, None).await,
        ProjectCommand::Show { project } => objects::show(context, &project).await,
        ProjectCommand::Files { project, under } => files::list(context, &project, under.as_deref()).await,
        ProjectCommand::Import { project, path: Some(path), replace, repository } if !repository.is_given() => {
            files::import(context, &project, &path, replace).await
        }
        ProjectCommand::Import { project, replace, repository, .. } => {
            git::import(context, &project, &repository, replace).await
        }
        ProjectCommand::Put { project, local, remote, condition } => {
            files::put(context, &project, &local, remote.as_deref(), &condition).await
        }
        ProjectCommand::Get { project, remote, local } => file::get(context, &project, &remote, local.as_deref()).await,
        ProjectCommand::Chmod { project, mode, path } => file::chmod(context, &project, mode, &path).await,
        ProjectCommand::Rm { project, path, if_match } => {
            file::remove(context, &project, &path, if_match.as_deref()).await
        }
        ProjectCommand::Build { project, fresh, no_wait } => build::build(context, &project, fresh, no_wait).await,
        ProjectCommand::Log { project, version } => build::log(context, &project, version).await,
        ProjectCommand::Cancel { project, version } => build::cancel(context, &project, version).await,
        ProjectCommand::Versions { project } => objects::versions(context, &project).await,
        ProjectCommand::Activate { project, version } => objects::activate(context, &project, version).await,
        ProjectCommand::RemoveVersion { project, version } => build::remove(context, &project, version).await,
        ProjectCommand::Delete { project } => objects::delete(context, &project).await,
    }
}

/// How projects are shown where their ids are known: slugs by id. Without them ids are shown, so that a failure is none.
pub(crate) async fn slugs(context: &Context) -> BTreeMap<String, String> {
    let list = objects::all(context).await.map(|list| list.value.environments).unwrap_or_default();
    list.into_iter().map(|project| (project.id, project.slug)).collect()
}

/// The project of that id, slug or name, in this order. Two projects may share a name; then it names neither.
pub(crate) async fn find(context: &Context, wanted: &str) -> Result<Environment, Failure> {
    let list = objects::all(context).await?.value.environments;
    let exact =
        list.iter().find(|project| project.id == wanted).or_else(|| list.iter().find(|project| project.slug == wanted));
    if let Some(project) = exact {
        return Ok(project.clone());
    }
    let named: Vec<&Environment> = list.iter().filter(|project| project.name == wanted).collect();
    match named.as_slice() {
        [project] => Ok((*project).clone()),
        [] => Err(Failure::new(format!("there is no project `{}`", printable(wanted)))
            .coded("project_not_found")
            .hint("`stead project list` shows what there is, `stead project create NAME` makes one")),
        several => {
            let slugs: Vec<&str> = several.iter().map(|project| project.slug.as_str()).collect();
            Err(Failure::new(format!("{} projects have the name `{}`", several.len(), printable(wanted)))
                .hint(format!("name it by its slug: {}", slugs.join(", "))))
        }
    }
}
