//! `stead session`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};

use super::Context;
use super::save::{Wanted, save};
use crate::client::{Anything, Failure, Files, SessionItem, Sessions, Turns, segment};
use crate::console::{instant, note, printable, size, table};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first
    List {
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Show a session and its tasks
    Show {
        /// The session's id
        session: String,
    },
    /// List the files that a session's tasks left
    Files {
        /// The session's id
        session: String,
        /// Fetch them beneath this directory
        #[arg(long, value_name = "DIRECTORY")]
        save: Option<PathBuf>,
    },
    /// Cancel what runs in a session and remove it with its files
    Rm {
        /// The session's id
        session: String,
    },
}

pub(crate) async fn session(context: &Context, command: SessionCommand) -> Result<(), Failure> {
    match command {
        SessionCommand::List { limit } => list(context, limit).await,
        SessionCommand::Show { session } => show(context, &session).await,
        SessionCommand::Files { session, save } => files(context, &session, save).await,
        SessionCommand::Rm { session } => {
            let answer = context.client.delete::<Anything>(&format!("/v1/sessions/{}", segment(&session))).await?;
            if !context.console.json {
                note(&format!("removed {}", printable(&session)));
                return Ok(());
            }
            context.console.show(&answer.json, String::new)
        }
    }
}

async fn list(context: &Context, limit: usize) -> Result<(), Failure> {
    let (mut shown, mut raw): (Vec<SessionItem>, Vec<Value>) = (Vec::new(), Vec::new());
    let mut cursor = String::new();
    while shown.len() < limit {
        let page = (limit - shown.len()).min(100);
        let mut path = format!("/v1/sessions?limit={page}");
        if !cursor.is_empty() {
            let _ = write!(path, "&cursor={}", segment(&cursor));
        }
        let mut answer = context.client.get::<Sessions>(&path).await?;
        if let Value::Array(items) = answer.json["sessions"].take() {
            raw.extend(items);
        }
        shown.extend(answer.value.sessions);
        match answer.value.next_cursor {
            Some(next) => cursor = next,
            None => break,
        }
    }
    context.console.show(&json!({ "sessions": raw }), || {
        let row = |session: &SessionItem| {
            let project = session.environment.clone().filter(|id| !id.is_empty()).unwrap_or_else(|| "-".to_owned());
            vec![
                session.id.clone(),
                session.status.clone(),
                instant(session.updated_at),
                project,
                session.title.clone(),
            ]
        };
        table(&["ID", "STATUS", "UPDATED", "PROJECT", "TITLE"], &shown.iter().map(row).collect::<Vec<_>>())
    })
}

async fn show(context: &Context, session: &str) -> Result<(), Failure> {
    let base = format!("/v1/sessions/{}", segment(session));
    let found = context.client.get::<SessionItem>(&base).await?;
    let turns = context.client.get::<Turns>(&format!("{base}/turns")).await?;
    let mut whole = found.json;
    whole["turns"] = turns.json["turns"].clone();
    context.console.show(&whole, || {
        let session = &found.value;
        let mut text = format!("id       {}\nstatus   {}\n", printable(&session.id), printable(&session.status));
        if let Some(project) = session.environment.as_deref().filter(|id| !id.is_empty()) {
            let _ = writeln!(text, "project  {}", printable(project));
        }
        let _ = writeln!(text, "made     {}\n", instant(session.created_at));
        let row = |turn: &crate::client::TurnItem| {
            let first = turn.user.lines().next().unwrap_or_default().chars().take(60).collect();
            vec![turn.id.clone(), turn.status.clone(), first]
        };
        text + &table(&["TASK", "STATUS", "INPUT"], &turns.value.turns.iter().map(row).collect::<Vec<_>>())
    })
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
