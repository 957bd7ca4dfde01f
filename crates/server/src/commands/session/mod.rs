//! `stead session`.

mod list;
mod show;

use std::path::PathBuf;

use clap::Subcommand;

use super::Context;
use super::run::pass_on;
use super::save::{Wanted, save};
use crate::client::{Anything, Failure, Files, Turns, follow_output, segment};
use crate::console::{instant, note, printable, size, table};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first
    #[command(visible_alias = "ls")]
    List {
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Every session
        #[arg(long, conflicts_with = "limit")]
        all: bool,
    },
    /// Show a session, its tasks and the beginnings of their output
    Show {
        /// The session's id
        session: String,
    },
    /// Print the raw output of a task, following it while it runs
    Output {
        /// The session's id
        session: String,
        /// The task, as `stead session show` counts them [default: the latest]
        #[arg(long, value_name = "N")]
        turn: Option<usize>,
    },
    /// List the files that a session's tasks left
    Files {
        /// The session's id
        session: String,
        /// Fetch them beneath this directory
        #[arg(long, value_name = "DIRECTORY")]
        save: Option<PathBuf>,
    },
    /// Cancel what runs in sessions and remove them with their output and files
    Rm {
        /// The sessions' ids
        #[arg(required = true, value_name = "SESSION")]
        sessions: Vec<String>,
    },
}

pub(crate) async fn session(context: &Context, command: SessionCommand) -> Result<(), Failure> {
    match command {
        SessionCommand::List { limit, all } => list::list(context, if all { usize::MAX } else { limit }).await,
        SessionCommand::Show { session } => show::show(context, &session).await,
        SessionCommand::Output { session, turn } => output(context, &session, turn).await,
        SessionCommand::Files { session, save } => files(context, &session, save).await,
        SessionCommand::Rm { sessions } => remove(context, &sessions).await,
    }
}

/// Removes every session that can be removed, and fails when one cannot.
async fn remove(context: &Context, sessions: &[String]) -> Result<(), Failure> {
    let mut failed = None;
    for session in sessions {
        let shown = printable(session);
        match context.client.delete::<Anything>(&format!("/v1/sessions/{}", segment(session))).await {
            Ok(answer) if context.console.json => context.console.show(&answer.json, String::new)?,
            Ok(_) => note(&format!("removed {shown}")),
            Err(failure) => {
                let message = format!("{shown}: {}", failure.message());
                if let Some(earlier) = failed.replace(failure.said(message)) {
                    note(&earlier.to_string());
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn output(context: &Context, session: &str, number: Option<usize>) -> Result<(), Failure> {
    let path = format!("/v1/sessions/{}/turns", segment(session));
    let turns = context.client.get::<Turns>(&path).await?.value.turns;
    let number = number.unwrap_or(turns.len());
    let Some(turn) = number.checked_sub(1).and_then(|index| turns.get(index)) else {
        return Err(Failure::new(format!("the session has no task {number}; it has {}", turns.len())));
    };
    follow_output(&context.client, &turn.id, |line| pass_on(line, context.console.json)).await.map(drop)
}

async fn files(context: &Context, session: &str, directory: Option<PathBuf>) -> Result<(), Failure> {
    let list = context.client.get::<Files>(&format!("/v1/sessions/{}/files", segment(session))).await?;
    let files = &list.value.files;
    if let Some(directory) = directory {
        // The newest file of a name comes last, so it is what remains.
        let wanted: Vec<Wanted<'_>> = files
            .iter()
            .map(|file| Wanted { container: &file.container_id, id: &file.id, path: &file.filename })
            .collect();
        save(context, &directory, &wanted).await?;
        return if context.console.json { context.console.show(&list.json, String::new) } else { Ok(()) };
    }
    context.console.show(&list.json, || {
        let rows: Vec<_> = files
            .iter()
            .map(|file| vec![size(file.bytes), instant(file.created_at), file.filename.clone(), file.id.clone()])
            .collect();
        table(&["SIZE", "COLLECTED", "PATH", "ID"], &rows)
    })
}
