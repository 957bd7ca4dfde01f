//! `stead session show`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use stead_face_stead::wire::{Exit, OutputLine, Turn};

use super::Context;
use crate::client::{Answer, Failure, SessionItem, Turns, follow_output, segment};
use crate::commands::project::slugs;
use crate::console::{columns, count, cut, instant, printable, size};

/// As much of a task's output as is shown: bytes, and lines of them.
const HEAD_BYTES: usize = 4096;
const HEAD_LINES: usize = 10;
/// How many files of a task are named.
const NAMED: usize = 20;

/// What is shown of one task.
struct Shown {
    input: String,
    turn: Turn,
    /// The beginning of its output; none while it runs.
    head: Option<Vec<u8>>,
}

pub(super) async fn show(context: &Context, session: &str) -> Result<(), Failure> {
    let base = format!("/v1/sessions/{}", segment(session));
    let found = context.client.get::<SessionItem>(&base).await?;
    let turns = context.client.get::<Turns>(&format!("{base}/turns")).await?;
    let mut whole = found.json;
    whole["turns"] = turns.json["turns"].clone();
    let mut shown = Vec::new();
    for (index, item) in turns.value.turns.into_iter().enumerate() {
        let path = format!("/stead/v1/turns/{}", segment(&item.id));
        let Answer { json, value: turn } = context.client.get::<Turn>(&path).await?;
        whole["turns"][index]["stead"] = json;
        let head = match turn.finished_at {
            Some(_) if !context.console.json => Some(head(context, &item.id).await?),
            _ => None,
        };
        shown.push(Shown { input: item.user, turn, head });
    }
    if context.console.json {
        return context.console.show(&whole, String::new);
    }
    let slugs = slugs(context).await;
    context.console.show(&Value::Null, || described(&found.value, &shown, &slugs))
}

/// The beginning of an ended task's output, both streams as they came.
async fn head(context: &Context, turn: &str) -> Result<Vec<u8>, Failure> {
    let mut head = Vec::new();
    let followed = follow_output(&context.client, turn, |line| {
        if let OutputLine::Chunk { data, .. } = line {
            head.extend_from_slice(data);
        }
        // Enough is no failure, but ends the following like one.
        if head.len() < HEAD_BYTES { Ok(()) } else { Err(Failure::silent(0)) }
    })
    .await;
    match followed {
        Err(failure) if !failure.is_silent() => Err(failure),
        _ => Ok(head),
    }
}

fn described(session: &SessionItem, turns: &[Shown], slugs: &BTreeMap<String, String>) -> String {
    let mut text = format!("id       {}\nstatus   {}\n", printable(&session.id), printable(&session.status));
    let named = |id: &str| printable(slugs.get(id).map_or(id, String::as_str));
    if let Some(project) = session.environment.as_deref().filter(|id| !id.is_empty()) {
        let _ = writeln!(text, "project  {}", named(project));
    }
    let _ = writeln!(text, "made     {}", instant(session.created_at));
    for shown in turns {
        let turn = &shown.turn;
        let _ = writeln!(text, "\nturn {}   {}", turn.number, ended(turn));
        let mut line = |label: &str, value: &str| {
            let _ = writeln!(text, "  {label:<9}{}", printable(value));
        };
        line("id", &turn.id);
        line("input", &cut(&shown.input, columns().saturating_sub(11).max(20)));
        if let Some(failure) = &turn.failure {
            line("failure", &failure.message);
        }
        for hit in &turn.limits_hit {
            line("limit", &hit.message);
        }
        if let Some(reads) = &turn.reads {
            line("reads", &format!("{}, version {}", named(&reads.project), reads.version));
        }
        line("started", &instant(turn.started_at.or(Some(turn.created_at))));
        if turn.finished_at.is_some() {
            line("ended", &instant(turn.finished_at));
        }
        for artifact in turn.artifacts.iter().take(NAMED) {
            line("file", &format!("{} ({})", artifact.path, size(artifact.bytes)));
        }
        if let Some(more) = turn.artifacts.len().checked_sub(NAMED).filter(|more| *more > 0) {
            line("", &format!("and {}: `stead session files {}`", count(more as u64, "more file"), session.id));
        }
        for file in turn.excess.iter().take(NAMED) {
            line("not kept", &format!("{}: {}", file.path, file.reason));
        }
        output(&mut text, shown, &session.id);
    }
    text
}

fn output(text: &mut String, shown: &Shown, session: &str) {
    let whole = format!("`stead session output {} --turn {}`", printable(session), shown.turn.number);
    let Some(head) = &shown.head else {
        let _ = writeln!(text, "  output   {whole} follows it");
        return;
    };
    if head.is_empty() {
        text.push_str("  output   none\n");
        return;
    }
    text.push_str("  output\n");
    let all = String::from_utf8_lossy(head);
    let mut lines = all.lines();
    for line in lines.by_ref().take(HEAD_LINES) {
        let _ = writeln!(text, "    {}", printable(&line.replace('\t', "    ")));
    }
    if lines.next().is_some() || head.len() >= HEAD_BYTES {
        let _ = writeln!(text, "    …\n  all of it: {whole}");
    }
}

/// How a task stands, with its exit status.
fn ended(turn: &Turn) -> String {
    let state = match turn.state.as_str() {
        "budget_reached" => "time limit reached",
        "in_progress" => "running",
        state => state,
    };
    match turn.exit {
        Some(Exit::Code(code)) => format!("{state}, exit status {code}"),
        Some(Exit::Signal(signal)) => format!("{state}, ended by signal {signal}"),
        None => state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use stead_face_stead::wire::{Reads, TurnArtifact, TurnFailure};

    use super::*;

    #[test]
    fn a_task_is_shown_with_how_it_ended_and_what_it_said() {
        let session: SessionItem = serde_json::from_value(serde_json::json!({
            "id": "sess_1", "status": "failed", "environment": "henv_1", "created_at": 0
        }))
        .unwrap();
        let turn = Turn {
            id: "turn_1".to_owned(),
            object: "stead.turn".to_owned(),
            response_id: "resp_1".to_owned(),
            session_id: "sess_1".to_owned(),
            container_id: "cntr_1".to_owned(),
            number: 1,
            state: "interrupted".to_owned(),
            exit: None,
            failure: Some(TurnFailure {
                kind: "interrupted".to_owned(),
                limit: None,
                message: "the server stopped".to_owned(),
            }),
            limits_hit: Vec::new(),
            reads: Some(Reads { project: "henv_1".to_owned(), version: 3 }),
            artifacts: vec![TurnArtifact { id: "file_1".to_owned(), path: "a/b".to_owned(), bytes: 5 }],
            excess: Vec::new(),
            output_bytes: 0,
            created_at: 0,
            started_at: Some(1),
            finished_at: Some(2),
        };
        let said = (0..20).map(|line| format!("line\t{line}")).collect::<Vec<_>>().join("\n");
        let shown = Shown { input: "x".repeat(500), turn, head: Some(said.into_bytes()) };
        let text = described(&session, &[shown], &BTreeMap::from([("henv_1".to_owned(), "demo".to_owned())]));
        for part in [
            "project  demo\n",
            "\nturn 1   interrupted\n",
            "xxx…\n",
            "  failure  the server stopped\n",
            "  reads    demo, version 3\n",
            "  ended    1970-01-01 00:00:02Z\n",
            "  file     a/b (5 B)\n",
            "    line    9\n    …\n  all of it: `stead session output sess_1 --turn 1`\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }
}
