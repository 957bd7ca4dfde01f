//! What a client does with tasks and sessions.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::ledger::{Cancel, End, Known, Session, Task};

use super::client::Client;
use super::requests::Sent;
use crate::objects::text;

/// Tasks that a session sees before it is deleted.
const TASKS: usize = 12;

/// The end in an answer, unless it goes on.
pub(super) fn end_of(response: &Value) -> Option<End> {
    let status = response["status"].as_str()?;
    if status == "in_progress" {
        return None;
    }
    let parts = response["output"].as_array()?.iter().flat_map(|item| item["content"].as_array().into_iter().flatten());
    let text = parts.filter_map(|part| part["text"].as_str()).collect();
    Some(End { status: status.to_owned(), text })
}

impl Client {
    /// A task of a kind in a new session or an old one.
    pub(super) fn task(&mut self, kind: &str) -> bool {
        let at = match self.a_session() {
            Some(at) => at,
            None if self.is_full() => return self.delete_session(),
            None => {
                self.sessions.push(Session { id: None, deleted: Known::certainly(false), tasks: Vec::new() });
                self.sessions.len() - 1
            }
        };
        let name = self.name("t");
        let pause = match kind {
            "background" => 200 + self.random.below(1800),
            _ => self.random.below(400),
        };
        let mut script = format!("# task {name}\necho {name} >> /workspace/marks\necho begun {name}\n");
        let mut says = format!("begun {name}\n");
        if self.random.chance(25) {
            // Output in pieces, some of it more than a pipe holds.
            let lines = 1 + self.random.below(3000);
            let _ = writeln!(script, "for i in $(seq 1 {lines}); do echo line $i of {name}; done");
            (1..=lines).for_each(|line| {
                let _ = writeln!(says, "line {line} of {name}");
            });
        }
        let _ = writeln!(script, "sleep {}.{:03}", pause / 1000, pause % 1000);
        let leaves = self.random.chance(50).then(|| {
            let content =
                format!("{:x}\n", self.random.next()).repeat(1 + usize::try_from(self.random.below(50)).unwrap_or(0));
            let _ = writeln!(script, "cat > out-{name}.txt <<'END'\n{content}END");
            (format!("out-{name}.txt"), content.into_bytes())
        });
        let _ = writeln!(script, "echo done {name}");
        let _ = writeln!(says, "done {name}");
        let mut body = json!({
            "input": script, "stream": kind == "streaming", "background": kind == "background",
            "metadata": {"harness_id": self.harness},
        });
        let previous = self.sessions[at].tasks.iter().rev().find_map(|task| task.response.clone());
        if let Some(previous) = previous {
            body["previous_response_id"] = previous.into();
        }
        // Some read a project; where that is gone or new, the environment is stopped and started with other mounts.
        let changes = self.random.chance(20);
        let built = self.projects.iter().find(|project| project.has_version());
        let reads = built.and_then(|project| project.id.clone()).filter(|_| (at % 2 == 0) != changes);
        body["metadata"]["environment"] = reads.unwrap_or_default().into();
        let key = self.random.chance(60).then(|| format!("key-{name}"));
        self.sessions[at].tasks.push(Task {
            name,
            body: body.to_string(),
            key,
            says,
            leaves,
            response: None,
            delivered: String::new(),
            cancel: Cancel::No,
            end: None,
            until: None,
            hampered: false,
        });
        self.ask_for_newest(at, kind, pause)
    }

    fn ask_for_newest(&mut self, at: usize, kind: &str, pause: u64) -> bool {
        let Some(task) = self.sessions[at].tasks.last() else { return true };
        let (body, key) = (task.body.clone(), task.key.clone());
        let mut headers = vec![("Content-Type", "application/json")];
        if let Some(key) = &key {
            headers.push(("Idempotency-Key", key));
        }
        let (mut response, mut delivered) = (None, String::new());
        let sent = match kind {
            "streaming" => self.asker.stream(&headers, &body, |event| match event["type"].as_str() {
                Some("response.created") => response = Some(event["response"].clone()),
                Some("response.output_text.delta") => delivered.push_str(text(&event["delta"])),
                _ => {}
            }),
            _ => self.asker.send("POST", "/v1/responses", &headers, body.as_bytes()),
        };
        if let Sent::Done(answer) = &sent {
            response = Some(answer.clone());
        }
        let session = &mut self.sessions[at];
        if let Some(response) = &response {
            session.id = Some(text(&response["metadata"]["session_id"]).to_owned());
            if let Some(task) = session.tasks.last_mut() {
                task.response = Some(text(&response["id"]).to_owned());
                task.delivered = delivered;
                task.end = end_of(response);
                if task.end.is_none() {
                    let until = Instant::now() + Duration::from_millis(pause);
                    task.until = Some(until);
                    if kind == "background" {
                        self.asker.in_flight.runs_until(until);
                    }
                }
            }
        }
        match sent {
            Sent::Done(_) => true,
            Sent::Refused => {
                session.tasks.pop();
                if session.tasks.is_empty() && session.id.is_none() {
                    self.sessions.remove(at);
                }
                true
            }
            Sent::Lost => false,
        }
    }

    /// Cancels a task that runs, if there is one.
    pub(super) fn cancel(&mut self) -> bool {
        let all = self.sessions.iter_mut().flat_map(|session| session.tasks.iter_mut());
        let mut running = all.filter(|task| task.end.is_none() && task.response.is_some());
        let Some(task) = running.find(|task| task.until.is_some_and(|until| until > Instant::now())) else {
            return self.task("background");
        };
        task.cancel = Cancel::Asked;
        let path = format!("/v1/responses/{}/cancel", task.response.clone().unwrap_or_default());
        !matches!(self.asker.send("POST", &path, &[], b""), Sent::Lost)
    }

    /// Reads a task that ran, as its owner would.
    pub(super) fn look(&mut self) -> bool {
        let all = self.sessions.iter_mut().flat_map(|session| session.tasks.iter_mut());
        let running = all.filter(|task| task.end.is_none()).find(|task| task.response.is_some());
        let Some(task) = running else { return true };
        let path = format!("/v1/responses/{}", task.response.clone().unwrap_or_default());
        match self.asker.send("GET", &path, &[], b"") {
            Sent::Done(response) => {
                task.end = end_of(&response);
                true
            }
            Sent::Refused => true,
            Sent::Lost => false,
        }
    }

    /// Deletes a session, whatever runs in it.
    pub(super) fn delete_session(&mut self) -> bool {
        let known: Vec<usize> = (0..self.sessions.len()).filter(|at| self.sessions[*at].is_usable()).collect();
        let old = known.iter().copied().find(|at| self.sessions[*at].tasks.len() >= TASKS);
        let Some(at) = old.or_else(|| self.random.pick(&known).copied()) else { return true };
        let session = &mut self.sessions[at];
        let path = format!("/v1/sessions/{}", session.id.clone().unwrap_or_default());
        session.deleted.ask(true);
        match self.asker.send("DELETE", &path, &[], b"") {
            Sent::Done(_) => {
                self.forget(at);
                true
            }
            Sent::Refused => {
                self.sessions[at].deleted.refuse();
                true
            }
            Sent::Lost => false,
        }
    }

    /// A session is known to be deleted.
    pub(super) fn forget(&mut self, at: usize) {
        let session = self.sessions.remove(at);
        if let Some(id) = session.id {
            self.gone.push(format!("/v1/sessions/{id}"));
        }
        let responses = session.tasks.into_iter().filter_map(|task| task.response);
        self.gone.extend(responses.take(2).map(|id| format!("/v1/responses/{id}")));
    }
}
