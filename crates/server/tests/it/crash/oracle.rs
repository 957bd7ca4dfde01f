//! Compares what a client knows with what the server says and with what lies on its disk.
//!
//! First everything is brought to its end ([`Client::settle`]): requests without an answer are looked up or sent again with their
//! key. Then, when nothing runs any more and the side effects were counted, everything is judged ([`Client::judge`]).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use stead_testkit::ledger::{Counter, End, Tree};

use super::client::Client;
use super::projects::ended;
use crate::objects::text;

/// How long anything may take to come to its end when the server is back.
const PATIENCE: Duration = Duration::from_mins(1);

/// What may have ended something before its end: words in its reason or its message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Excuses {
    pub(super) tasks: &'static [&'static str],
    pub(super) builds: &'static [&'static str],
    /// Whether the disk was full, which tasks meet as well and say in their own words.
    pub(super) full: bool,
}

impl Excuses {
    /// After this, everything runs to its end.
    pub(super) const NONE: Self = Self { tasks: &[], builds: &[], full: false };
    /// A server that was killed has interrupted whatever ran.
    pub(super) const KILLED: Self = Self { tasks: &["interrupted"], builds: &["interrupted"], full: false };
    /// One that was stopped has handed tasks over.
    pub(super) const STOPPED: Self = Self { tasks: &[], builds: &["interrupted"], full: false };
    /// A sandbox that was killed is said to be lost in many words.
    pub(super) const BROKEN: Self = Self { tasks: &[""], builds: &[""], full: false };
    /// A disk that was full has stopped whatever wanted to write.
    pub(super) const FULL: Self = Self { full: true, ..Self::BROKEN };
}

/// What is known from outside of the server.
pub(super) struct View<'a> {
    pub(super) counter: &'a Counter,
    pub(super) data: &'a Path,
    pub(super) excuses: Excuses,
}

/// A turn as the server lists it.
struct Turn {
    name: String,
    response: String,
    end: End,
    files: Vec<Value>,
}

/// The name that a task's script begins with.
pub(super) fn name_in(script: &str) -> &str {
    script.lines().next().and_then(|line| line.strip_prefix("# task ")).unwrap_or_default()
}

/// Files below a directory, by their paths in it.
fn files_below(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(path),
                Ok(kind) if kind.is_file() => {
                    let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                    found.insert(name, std::fs::read(&path).unwrap_or_default());
                }
                _ => {}
            }
        }
    }
    found
}

/// What differs between two trees, in a line.
fn difference(found: &Tree, expected: &Tree) -> String {
    let shown =
        |tree: &Tree| tree.iter().map(|(path, content)| format!("{path}={}", content.len())).collect::<Vec<_>>();
    let differs: Vec<&String> = found
        .iter()
        .filter(|(path, content)| expected.get(*path).is_some_and(|other| other != *content))
        .map(|(path, _)| path)
        .collect();
    format!("found {:?}, expected {:?}, other contents {differs:?}", shown(found), shown(expected))
}

impl Client {
    /// Reads something that must be there; none when it is not.
    fn read(&self, path: &str) -> Option<Value> {
        let began = Instant::now();
        loop {
            let answer = self.asker.api.try_send("GET", path, &[], b"");
            match answer {
                Some(answer) if answer.status == 200 => return Some(answer.json()),
                Some(answer) if answer.status == 404 => return None,
                other => assert!(began.elapsed() < PATIENCE, "GET {path}: {other:?}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The turns of a session, all of them ended; none when the session is not there.
    fn turns(&self, session: &str, faults: &mut Vec<String>) -> Option<Vec<Turn>> {
        let began = Instant::now();
        let listed = loop {
            let listed = self.read(&format!("/v1/sessions/{session}/turns"))?;
            let running = listed["turns"].as_array()?.iter().find(|turn| turn["status"] == "in_progress").cloned();
            match running {
                None => break listed,
                Some(turn) if began.elapsed() > PATIENCE => {
                    faults.push(format!("{} does not come to its end: {turn}", name_in(text(&turn["user"]))));
                    break listed;
                }
                Some(_) => std::thread::sleep(Duration::from_millis(40)),
            }
        };
        let turn = |turn: &Value| Turn {
            name: name_in(text(&turn["user"])).to_owned(),
            response: text(&turn["id"]).to_owned(),
            end: End { status: text(&turn["status"]).to_owned(), text: text(&turn["assistant"]).to_owned() },
            files: turn["files"].as_array().cloned().unwrap_or_default(),
        };
        Some(listed["turns"].as_array()?.iter().map(turn).collect())
    }

    /// Brings sessions and builds to their end.
    pub(super) fn settle(&mut self, projects: &BTreeMap<String, String>) -> Vec<String> {
        let mut faults = Vec::new();
        for project in self.projects.iter_mut().filter(|project| project.id.is_none()) {
            project.id = projects.get(&project.name).cloned();
            project.exists.settle(&project.id.is_some());
        }
        self.projects.retain(|project| project.id.is_some());
        let mut at = 0;
        while at < self.sessions.len() {
            if self.settle_session(at, &mut faults) {
                at += 1;
            }
        }
        for project in &self.projects {
            let path = format!("/v1/environments/{}/versions", project.id.clone().unwrap_or_default());
            let began = Instant::now();
            while let Some(listed) = self.read(&path) {
                let all = listed["versions"].as_array().cloned().unwrap_or_default();
                if !all.iter().any(|version| version["status"] == "building") {
                    break;
                }
                if began.elapsed() > PATIENCE {
                    faults.push(format!("a build of {} does not come to its end: {listed}", project.name));
                    break;
                }
                std::thread::sleep(Duration::from_millis(40));
            }
        }
        faults
    }

    /// Whether the session is still there.
    fn settle_session(&mut self, at: usize, faults: &mut Vec<String>) -> bool {
        // A first task whose answer was lost is asked for again with its key.
        if self.sessions[at].id.is_none() {
            let Some(task) = self.sessions[at].tasks.first().filter(|task| task.key.is_some()).cloned() else {
                self.sessions.remove(at);
                return false;
            };
            match self.again(&task.body, task.key.as_deref()) {
                Ok(Some((response, session))) => {
                    self.sessions[at].tasks[0].response = Some(response);
                    self.sessions[at].id = Some(session);
                }
                Ok(None) => {
                    self.sessions.remove(at);
                    return false;
                }
                Err(fault) => {
                    faults.push(format!("{}: asked again with its key: {fault}", task.name));
                    self.sessions.remove(at);
                    return false;
                }
            }
        }
        let id = self.sessions[at].id.clone().unwrap_or_default();
        let mut found = self.turns(&id, faults);
        if !self.sessions[at].deleted.settle(&found.is_none()) {
            faults.push(format!("session {id} is {}", if found.is_none() { "lost" } else { "back" }));
        }
        let Some(turns) = &found else {
            self.forget(at);
            return false;
        };
        // Only the newest task can be one whose answer is missing.
        let missing = self.sessions[at].tasks.iter().position(|task| turns.iter().all(|turn| turn.name != task.name));
        if let Some(place) = missing {
            let task = self.sessions[at].tasks[place].clone();
            if task.response.is_some() {
                faults.push(format!("{} was acknowledged and is lost", task.name));
            }
            if task.key.is_some() {
                match self.again(&task.body, task.key.as_deref()) {
                    Ok(Some((response, _))) => self.sessions[at].tasks[place].response = Some(response),
                    Ok(None) => drop(self.sessions[at].tasks.remove(place)),
                    Err(fault) => faults.push(format!("{}: asked again with its key: {fault}", task.name)),
                }
                found = self.turns(&id, faults);
            } else {
                self.sessions[at].tasks.remove(place);
            }
        }
        let turns = found.unwrap_or_default();
        for task in &mut self.sessions[at].tasks {
            let own: Vec<&Turn> = turns.iter().filter(|turn| turn.name == task.name).collect();
            if own.len() != 1 {
                faults.push(format!("{} was admitted {} times", task.name, own.len()));
            }
            let Some(turn) = own.first() else { continue };
            let response = task.response.get_or_insert_with(|| turn.response.clone());
            if *response != turn.response {
                faults.push(format!("{} was {response} and is {}", task.name, turn.response));
            }
        }
        let known = |turn: &&Turn| self.sessions[at].tasks.iter().any(|task| task.name == turn.name);
        if let Some(stray) = turns.iter().find(|turn| !known(turn)) {
            faults.push(format!("session {id} has the task {}, which it was not asked for", stray.name));
        }
        true
    }

    /// Sends a task again with its key: the ids of its response and session. None when it is refused as it would have been the first
    /// time: its client has given the version up that its session reads, or deleted the project, and was about to be told.
    fn again(&self, body: &str, key: Option<&str>) -> Result<Option<(String, String)>, String> {
        // What comes of it is read later.
        let mut body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
        body["stream"] = false.into();
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key.unwrap_or_default())];
        let answer = self.asker.api.try_send("POST", "/v1/responses", &headers, body.to_string().as_bytes());
        let answer = answer.ok_or("no answer")?;
        let response = answer.json();
        match answer.status {
            200 => Ok(Some((text(&response["id"]).to_owned(), text(&response["metadata"]["session_id"]).to_owned()))),
            409 if response["error"]["code"] == "environment_not_ready" => Ok(None),
            404 if response["error"]["code"] == "environment_not_found" => Ok(None),
            status => Err(format!("{status} {}", answer.text())),
        }
    }

    /// What is wrong, now that nothing runs any more.
    pub(super) fn judge(&mut self, view: &View<'_>) -> Vec<String> {
        let mut faults = Vec::new();
        for at in 0..self.sessions.len() {
            self.judge_session(at, view, &mut faults);
        }
        let mut at = 0;
        while at < self.projects.len() {
            if self.judge_project(at, view, &mut faults) {
                at += 1;
            }
        }
        for _ in 0..5 {
            let Some(path) = self.random.pick(&self.gone).cloned() else { break };
            let answer = self.asker.api.get(&path);
            if answer.status != 404 {
                faults.push(format!("{path} was deleted and answers {}: {}", answer.status, answer.text()));
            }
        }
        faults
    }

    fn judge_session(&mut self, at: usize, view: &View<'_>, faults: &mut Vec<String>) {
        let id = self.sessions[at].id.clone().unwrap_or_default();
        let turns = self.turns(&id, faults).unwrap_or_default();
        let repeated = self.random.below(self.sessions[at].tasks.len().max(1) as u64);
        for place in 0..self.sessions[at].tasks.len() {
            let task = self.sessions[at].tasks[place].clone();
            let Some(turn) = turns.iter().find(|turn| turn.name == task.name) else { continue };
            if view.excuses.full && turn.end.text.contains("No space left on device") {
                // What it could not write is its own; that it did not run again was looked at.
                let task = &mut self.sessions[at].tasks[place];
                (task.end, task.until, task.leaves) = (Some(turn.end.clone()), None, None);
                task.says.clone_from(&turn.end.text);
                task.hampered = true;
                continue;
            }
            let found = task.faults(&turn.end, view.counter.of(&task.name), !view.excuses.tasks.is_empty());
            faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", task.name)));
            if turn.end.status == "failed" && task.end.is_none() {
                let response = self.read(&format!("/v1/responses/{}", turn.response)).unwrap_or_default();
                let reason = &response["error"]["detail"]["stead_reason"];
                if !view.excuses.tasks.iter().any(|excuse| text(reason).contains(excuse)) {
                    faults.push(format!("{} failed: {}", task.name, response["error"]));
                }
            }
            if let Some((name, content)) = task.leaves.as_ref().filter(|_| turn.end.status == "completed") {
                let file = turn.files.iter().find(|file| file["filename"] == name.as_str());
                let is_new = task.end.is_none() || place as u64 == repeated;
                match file {
                    None => faults.push(format!("{}: {name} is lost", task.name)),
                    Some(file) if is_new => {
                        let url = format!("/{}", text(&file["download_url"]).trim_start_matches('/'));
                        let answer = self.asker.api.get(&url);
                        if answer.status != 200 || answer.body != *content {
                            let length = answer.body.len();
                            faults.push(format!("{}: {name} answers {} with {length} bytes", task.name, answer.status));
                        }
                    }
                    Some(_) => {}
                }
            }
            if task.key.is_some() && place as u64 == repeated {
                match self.again(&task.body, task.key.as_deref()) {
                    Ok(Some((response, _))) if response == turn.response => {}
                    other => {
                        faults.push(format!("{} with its key again gives {other:?} for {}", task.name, turn.response));
                    }
                }
            }
            let task = &mut self.sessions[at].tasks[place];
            task.end = Some(turn.end.clone());
            task.until = None;
        }
    }

    /// Whether the project is still there.
    fn judge_project(&mut self, at: usize, view: &View<'_>, faults: &mut Vec<String>) -> bool {
        let id = self.projects[at].id.clone().unwrap_or_default();
        let name = self.projects[at].name.clone();
        let base = format!("/v1/environments/{id}");
        let shown = self.read(&base);
        if !self.projects[at].exists.settle(&shown.is_some()) {
            faults.push(format!("{name} is {}", if shown.is_none() { "lost" } else { "back" }));
        }
        if shown.is_none() {
            self.projects.remove(at);
            self.gone.push(base);
            return false;
        }
        let listed = self.read(&format!("{base}/files")).unwrap_or_default();
        let mut tree = Tree::new();
        for entry in listed["entries"].as_array().into_iter().flatten().filter(|entry| entry["dir"] == false) {
            let path = text(&entry["path"]);
            let answer = self.asker.api.get(&format!("{base}/files/{path}"));
            if answer.status != 200 {
                faults.push(format!("{name}: {path} answers {}: {}", answer.status, answer.text()));
            }
            tree.insert(path.to_owned(), answer.body);
        }
        let expected = self.projects[at].tree.certain().clone();
        if !self.projects[at].tree.settle(&tree) {
            faults.push(format!("{name}: its files are neither the old nor the new: {}", difference(&tree, &expected)));
        }
        self.judge_builds(at, &id, view, faults);
        true
    }

    fn judge_builds(&mut self, at: usize, id: &str, view: &View<'_>, faults: &mut Vec<String>) {
        let listed = self.read(&format!("/v1/environments/{id}/versions")).unwrap_or_default();
        let project = &mut self.projects[at];
        let name = project.name.clone();
        let versions: BTreeMap<u32, Value> = listed["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|version| (u32::try_from(version["version"].as_u64().unwrap()).unwrap(), version.clone()))
            .collect();
        if let Some(tree) = project.asked_build.take() {
            let number = project.builds.keys().next_back().map_or(1, |newest| newest + 1);
            if versions.contains_key(&number) {
                let build = stead_testkit::ledger::Build::of(tree, None);
                project.builds.insert(number, build);
            }
        }
        for number in versions.keys().filter(|number| !project.builds.contains_key(*number)) {
            faults.push(format!("{name} has a build {number}, which it was not asked for"));
        }
        for (number, build) in &mut project.builds {
            let Some(version) = versions.get(number) else {
                faults.push(format!("{name}: build {number} was acknowledged and is lost"));
                continue;
            };
            let was_given_up = version["status"] == "unknown";
            if !build.given_up.settle(&was_given_up) {
                faults.push(format!("{name}: version {number} is {}", if was_given_up { "given up" } else { "back" }));
            }
            let end = if was_given_up { build.end.clone().or(Some("ready".to_owned())) } else { ended(version) };
            let is_new = build.end.is_none();
            if !is_new && build.end != end {
                faults.push(format!("{name}: build {number} was {:?} and is {end:?}", build.end));
            }
            build.end = end;
            build.until = None;
            let error = text(&version["error"]);
            let excused = view.excuses.builds.iter().any(|excuse| error.contains(excuse));
            let expected = excused || (error.contains("cancelled") && build.cancelled);
            if is_new && build.end.as_deref() == Some("failed") && !expected {
                faults.push(format!("{name}: build {number} failed: {error}"));
            }
            let place = view.data.join("projects");
            let source = std::fs::read_dir(place)
                .into_iter()
                .flatten()
                .flatten()
                .map(|workspace| {
                    workspace.path().join(id.trim_start_matches("henv_")).join("versions").join(number.to_string())
                })
                .find(|path| path.exists());
            match (build.stands(), source) {
                (true, Some(path)) => {
                    let found = files_below(&path.join("source"));
                    if found != build.tree {
                        faults.push(format!("{name}: version {number} differs: {}", difference(&found, &build.tree)));
                    }
                }
                (true, None) => faults.push(format!("{name}: the files of version {number} are lost")),
                // It may go in a moment; the look for what is left over waits for that.
                (_, _) => {}
            }
            if is_new {
                let path = format!("/v1/environments/{id}/builds/{number}");
                let log = self.asker.api.get(&path).ok();
                let script = build.tree.get("setup.sh").map(|script| String::from_utf8_lossy(script).into_owned());
                let mark = script
                    .as_deref()
                    .and_then(|script| script.lines().next()?.strip_prefix("echo "))
                    .unwrap_or("no script");
                let ran = log["log"].as_str().unwrap_or_default().lines().filter(|line| line.trim() == mark).count();
                if ran > 1 {
                    faults.push(format!("{name}: build {number} ran its script {ran} times"));
                }
            }
        }
        let newest =
            project.builds.iter().rev().find(|(_, build)| build.stands()).map(|(number, _)| u64::from(*number));
        let active = listed["active"].as_u64();
        let is_ready =
            |number: u64| project.builds.iter().any(|(known, build)| u64::from(*known) == number && build.stands());
        if (!project.activated && active != newest) || active.is_some_and(|number| !is_ready(number)) {
            faults.push(format!("{name}: version {active:?} is active, and {newest:?} is the newest that is ready"));
        }
    }
}
