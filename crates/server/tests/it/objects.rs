//! What tests do with a server's objects, again and again: projects written and built, tasks run, and what is left looked for.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::server::TestServer;

/// The longest that a test waits for something to come true.
const PATIENCE: Duration = Duration::from_mins(1);

/// Looks again and again until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(last) => assert!(began.elapsed() < PATIENCE, "{what} did not come true: {last}"),
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Text of a field.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// What an agent said.
pub(crate) fn said(response: &Value) -> String {
    let items = response["output"].as_array().unwrap();
    let parts = items.iter().flat_map(|item| item["content"].as_array().unwrap());
    parts.map(|part| text(&part["text"])).collect()
}

impl Api {
    /// An admin of a new workspace of that name.
    pub(crate) fn of_tenant(server: &TestServer, name: &str) -> Self {
        let made = server.ran(&["workspace", "create", name]);
        assert_eq!(made.status, 0, "{}", made.stderr);
        let key = server.ran(&["key", "create", name, "--workspace", name, "--verb", "read,run,write,admin"]);
        assert_eq!(key.status, 0, "{}", key.stderr);
        Self::with_key(server, key.stdout.trim())
    }

    /// Makes a shell harness.
    pub(crate) fn harness(&self) -> String {
        let made = self.post("/v1/harnesses", &json!({"name": "shell", "base": "shell"})).ok();
        text(&made["id"]).to_owned()
    }

    /// Makes an environment and writes its files.
    pub(crate) fn environment(&self, name: &str, files: &[(&str, &str)]) -> String {
        let made = self.post("/v1/environments", &json!({ "name": name })).ok();
        let id = text(&made["id"]).to_owned();
        for (path, content) in files {
            self.put(&id, path, content);
        }
        id
    }

    /// Writes a file of an environment.
    pub(crate) fn put(&self, environment: &str, path: &str, content: &str) {
        let path = format!("/v1/environments/{environment}/files/{path}");
        self.send("PUT", &path, &[], content.as_bytes()).ok();
    }

    /// Starts a build and says its number.
    pub(crate) fn begin_build(&self, environment: &str) -> u64 {
        let begun = self.post(&format!("/v1/environments/{environment}/build"), &json!({})).ok();
        begun["version"].as_u64().unwrap()
    }

    /// The record of a build that has ended.
    pub(crate) fn ended_build(&self, environment: &str, version: u64) -> Value {
        eventually("the end of a build", || {
            let record = self.get(&format!("/v1/environments/{environment}/builds/{version}")).ok();
            if record["status"] == "building" { Err(record.to_string()) } else { Ok(record) }
        })
    }

    /// Builds, which must succeed, and returns the record.
    pub(crate) fn build(&self, environment: &str) -> Value {
        let version = self.begin_build(environment);
        let record = self.ended_build(environment, version);
        assert_eq!(record["status"], "ready", "{record:#}");
        record
    }

    /// Asks for a task.
    pub(crate) fn ask(&self, body: &Value) -> Answer {
        self.post("/v1/responses", body)
    }

    /// Runs a script in a new session to its end.
    pub(crate) fn run(&self, harness: &str, script: &str) -> Value {
        self.ask(&json!({"input": script, "metadata": {"harness_id": harness}})).ok()
    }

    /// Runs a script in the session of an earlier response to its end.
    pub(crate) fn go_on(&self, previous: &Value, script: &str) -> Value {
        self.ask(&json!({"input": script, "previous_response_id": previous["id"]})).ok()
    }

    /// Begins a script in a new session in the background.
    pub(crate) fn begin(&self, harness: &str, script: &str) -> Value {
        self.ask(&json!({"input": script, "background": true, "metadata": {"harness_id": harness}})).ok()
    }

    /// A response that has ended.
    pub(crate) fn ended(&self, response: &Value) -> Value {
        let path = format!("/v1/responses/{}", text(&response["id"]));
        eventually("the end of a task", || {
            let response = self.get(&path).ok();
            if response["status"] == "in_progress" { Err(response.to_string()) } else { Ok(response) }
        })
    }

    /// Deletes every session.
    pub(crate) fn delete_sessions(&self) {
        for session in self.get("/v1/sessions?limit=100").ok()["sessions"].as_array().unwrap() {
            let deleted = self.delete(&format!("/v1/sessions/{}", text(&session["id"])));
            assert!((200..300).contains(&deleted.status), "{}", deleted.text());
        }
    }
}

/// Waits until a running script has left a file in its working directory, found by its unusual name on the host.
pub(crate) fn wait_for_file(server: &TestServer, name: &str) {
    eventually(name, || {
        let environments = std::fs::read_dir(server.data().join("environments")).unwrap().flatten();
        let mut found = environments.map(|entry| entry.path().join("work").join(name));
        found.find(|path| path.exists()).map(|_| ()).ok_or_else(|| "no such file".to_owned())
    });
}

/// Host processes of the server's sandboxes beside the runtimes: commands, their supervisors and what they left.
pub(crate) fn commands(server: &TestServer) -> Vec<String> {
    let is_runtime = |line: &String| line.contains(" stead-runtime ") && line.contains(" --orphan-grace ");
    processes(server).into_iter().filter(|line| !is_runtime(line)).collect()
}

/// The processes of a server's sandboxes, each with its command.
pub(crate) fn processes(server: &TestServer) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let Ok(status) = std::fs::read_to_string(path.join("status")) else { continue };
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        let uid: u32 = uid.split_whitespace().next().and_then(|uid| uid.parse().ok()).unwrap_or(0);
        if server.uids().contains(&uid) && !status.contains("State:\tZ") {
            let command = std::fs::read(path.join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            // Those of a server that is an ordinary user, whose sandboxes have its user.
            let own = command.contains("/stead serve ")
                || ["stead-egress ", "stead-launcher "].iter().any(|own| command.starts_with(own));
            if !own {
                found.push(format!("{} {command}", path.display()));
            }
        }
    }
    found
}

/// The host's number of a sandbox's process, found by a word of its command.
pub(crate) fn process(server: &TestServer, word: &str) -> Option<i32> {
    let line = processes(server).into_iter().find(|line| line.contains(word))?;
    line.split(['/', ' ']).nth(2)?.parse().ok()
}

/// The names in a directory of the server's data.
pub(crate) fn names(server: &TestServer, directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(server.data().join(directory)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// What running builds work in.
pub(crate) fn unfinished_builds(server: &TestServer) -> Vec<String> {
    let within =
        |directory: String| names(server, &directory).into_iter().map(move |name| format!("{directory}/{name}"));
    within("builds".to_owned()).flat_map(within).flat_map(within).collect()
}

/// Everything on the machine that belongs to a server's sandboxes: processes, control groups, user ids, directories, sockets.
pub(crate) fn belongings(server: &TestServer) -> Vec<String> {
    let mut found = processes(server);
    for group in server.groups() {
        let children = std::fs::read_dir(&group).into_iter().flatten().flatten();
        let children = children.map(|child| child.path()).filter(|child| child.is_dir());
        // The proxy is the server's own and stays as long as it.
        let children = children.filter(|child| !child.ends_with("egress"));
        found.extend(children.map(|child| child.display().to_string()));
    }
    found.extend(unfinished_builds(server));
    for directory in ["environments/slots", "environments", "run"] {
        let names = names(server, directory)
            .into_iter()
            .filter(|name| !["slots", "place.json", "control.sock"].contains(&name.as_str()));
        found.extend(names.map(|name| format!("{directory}/{name}")));
    }
    found
}

/// Deletes every session and makes sure that nothing of them is left on the machine.
pub(crate) fn leaves_nothing(server: &TestServer, api: &Api) {
    api.delete_sessions();
    eventually("that nothing is left", || {
        let left = belongings(server);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    });
}
