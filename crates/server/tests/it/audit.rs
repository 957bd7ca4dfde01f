//! Who did what: every route that changes something leaves one entry, in the commit that makes the change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::objects::{eventually, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// A caller whose requests have ids that the test knows, and that remembers which routes it has tried.
struct Walker {
    api: Api,
    key: String,
    tried: BTreeSet<(String, String)>,
    requests: usize,
    wrong: Vec<String>,
}

const ARCHIVE: &[u8] = include_bytes!("../../../../tests/field-cases/C076-xss.tar.gz");
const FORM: &str = "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"u\"\r\n\r\nx\r\n--edge--\r\n";

impl Walker {
    /// Sends a request of a route, whose path has `ids` in the places of its parameters, under an id of its own.
    fn send(&mut self, method: &str, route: &str, ids: &[&str], body: &[u8]) -> (String, Answer) {
        let mut path = String::new();
        let mut ids = ids.iter();
        for segment in route.split('/').skip(1) {
            path.push('/');
            path.push_str(if segment.starts_with('{') { ids.next().unwrap() } else { segment });
        }
        self.requests += 1;
        let request = format!("walk-{}", self.requests);
        self.tried.insert((method.to_owned(), route.to_owned()));
        let kind = match body {
            [b'{', ..] => "application/json",
            [b'-', b'-', ..] => "multipart/form-data; boundary=edge",
            _ => "application/octet-stream",
        };
        let headers = [("X-Request-Id", request.as_str()), ("Content-Type", kind), ("UHP-Version", "2026-09-28")];
        let answer = self.api.send(method, &path, &headers, body);
        (request, answer)
    }

    /// Changes something: there is one entry, which names the key, the route and the target that `target` finds in the answer.
    fn changes(
        &mut self,
        (method, route): (&str, &str),
        ids: &[&str],
        body: &Value,
        target: impl Fn(&Value) -> (&'static str, String),
    ) -> Value {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.changes_with((method, route), ids, &bytes, target)
    }

    fn changes_with(
        &mut self,
        (method, route): (&str, &str),
        ids: &[&str],
        body: &[u8],
        target: impl Fn(&Value) -> (&'static str, String),
    ) -> Value {
        let (request, answer) = self.send(method, route, ids, body);
        assert_eq!(answer.status, 200, "{method} {route}: {}", answer.text());
        assert_eq!(answer.header("x-request-id"), Some(request.as_str()));
        let value = answer.json();
        let (kind, id) = target(&value);
        // Where something that runs is cancelled, its end is committed by whoever runs it.
        let entry = eventually("an entry", || {
            self.entries(&request).into_iter().next().ok_or_else(|| format!("{method} {route} has none"))
        });
        let expected = json!({ "kind": kind, "id": id });
        let entries = self.entries(&request);
        if entries.len() != 1
            || entry["key_id"] != self.key.as_str()
            || entry["action"] != format!("{method} {route}")
            || !entry["targets"].as_array().unwrap().contains(&expected)
        {
            self.wrong.push(format!("{method} {route} shall name {expected}: {entries:?}"));
        }
        value
    }

    /// Is refused, and leaves nothing.
    fn is_refused(&mut self, (method, route): (&str, &str), ids: &[&str], body: &[u8]) {
        let (request, answer) = self.send(method, route, ids, body);
        assert!(answer.status >= 400, "{method} {route}: {}", answer.text());
        assert_eq!(self.entries(&request), Vec::<Value>::new());
    }

    fn entries(&self, request: &str) -> Vec<Value> {
        let listed = self.api.get("/stead/v1/audit?limit=1000").ok();
        let entries = listed["entries"].as_array().unwrap();
        entries.iter().filter(|entry| entry["request_id"] == request).cloned().collect()
    }
}

#[test]
fn every_route_that_changes_something_leaves_one_entry() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let key = text(&api.get("/stead/v1/keys").ok()["keys"][0]["id"]).to_owned();
    let own_workspace = text(&api.get("/stead/v1/workspaces").ok()["workspaces"][0]["id"]).to_owned();
    let mut walk = Walker { api: api.clone(), key, tried: BTreeSet::new(), requests: 0, wrong: Vec::new() };
    let none = Value::Null;
    let of = |kind: &'static str, id: &str| {
        let id = id.to_owned();
        move |_: &Value| (kind, id.clone())
    };
    let named = |kind: &'static str| move |answer: &Value| (kind, text(&answer["id"]).to_owned());

    // A project and its source.
    let project = walk.changes(("POST", "/v1/environments"), &[], &json!({"name": "Walked"}), named("project"));
    let project = text(&project["id"]).to_owned();
    let here = of("project", &project);
    let one = "/v1/environments/{environment_id}";
    walk.changes(("PUT", one), &[&project], &json!({"name": "Walked on"}), &here);
    let file = "/v1/environments/{environment_id}/files/{*path}";
    walk.changes_with(("PUT", file), &[&project, "a.txt"], b"a", &here);
    walk.changes(("PATCH", file), &[&project, "a.txt"], &json!({"executable": true}), &here);
    walk.changes(("DELETE", file), &[&project, "a.txt"], &none, &here);
    let nameless = "/v1/environments/{environment_id}/files/";
    for method in ["PUT", "PATCH", "DELETE"] {
        walk.is_refused((method, nameless), &[&project], b"{\"executable\":true}");
    }
    walk.changes(("POST", "/v1/environments/{environment_id}/directories"), &[&project], &json!({"path": "d"}), &here);
    walk.changes_with(("POST", "/v1/environments/{environment_id}/import"), &[&project], ARCHIVE, &here);

    // Its builds and versions.
    let build = |number: u64| of("build", &format!("{project}/{number}"));
    walk.changes(("POST", "/v1/environments/{environment_id}/build"), &[&project], &none, build(1));
    api.ended_build(&project, 1);
    walk.changes(("POST", "/stead/v1/projects/{project}/build"), &[&project], &none, build(2));
    api.ended_build(&project, 2);
    let activate = "/v1/environments/{environment_id}/versions/{version}/activate";
    walk.changes(("POST", activate), &[&project, "1"], &none, of("version", &format!("{project}/1")));
    walk.changes(("DELETE", "/stead/v1/projects/{project}/versions/{number}"), &[&project, "2"], &none, build(2));
    api.put(&project, "setup.sh", "sleep 300\n");
    let third = api.begin_build(&project);
    eventually("a build at work", || {
        let record = api.get(&format!("/stead/v1/projects/{project}/builds/{third}")).ok();
        if record["stage"].to_string().contains("setup") { Ok(()) } else { Err(record.to_string()) }
    });
    let cancel = "/stead/v1/projects/{project}/builds/{number}/cancel";
    walk.changes(("POST", cancel), &[&project, &third.to_string()], &none, build(third));

    // Harnesses, files, tasks and sessions.
    let shell = json!({"base": "shell", "name": "walked"});
    let harness = walk.changes(("POST", "/v1/harnesses"), &[], &shell, |answer| ("agent", agent(&answer["id"])));
    let harness = text(&harness["id"]).to_owned();
    let of_harness = of("agent", &agent(&json!(harness)));
    walk.changes(("PUT", "/v1/harnesses/{harness_id}"), &[&harness], &json!({"name": "on"}), &of_harness);
    walk.changes_with(("POST", "/v1/files"), &[], FORM.as_bytes(), named("file"));
    let turn = |answer: &Value| ("turn", text(&answer["id"]).replace("resp_", "turn_"));
    let running = json!({"input": "sleep 300", "background": true, "metadata": {"harness_id": harness}});
    let first = walk.changes(("POST", "/v1/responses"), &[], &running, turn);
    let response = text(&first["id"]).to_owned();
    walk.changes(("POST", "/v1/responses/{response_id}/cancel"), &[&response], &none, turn);
    api.ended(&first);
    walk.changes(
        ("DELETE", "/v1/responses/{response_id}"),
        &[&response],
        &none,
        of("turn", &response.replace("resp_", "turn_")),
    );
    let second = api.ask(&running).ok();
    let session = text(&second["metadata"]["session_id"]).to_owned();
    walk.changes(("POST", "/v1/sessions/{session_id}/cancel"), &[&session], &none, of("session", &session));
    api.ended(&second);
    walk.changes(("DELETE", "/v1/sessions/{session_id}"), &[&session], &none, of("session", &session));
    let session = text(&first["metadata"]["session_id"]).to_owned();
    walk.changes(("DELETE", "/v1/traces/{session_id}"), &[&session], &none, of("session", &session));
    walk.changes(("DELETE", "/v1/harnesses/{harness_id}"), &[&harness], &none, &of_harness);
    walk.changes(("DELETE", one), &[&project], &none, &here);

    // The deployment.
    let made = walk.changes(("POST", "/stead/v1/workspaces"), &[], &json!({"name": "Other"}), named("workspace"));
    let other = text(&made["id"]).to_owned();
    let wanted = json!({"name": "k", "workspace": other, "verbs": ["read", "admin"]});
    let made = walk.changes(("POST", "/stead/v1/keys"), &[], &wanted, named("key"));
    let wanted = json!({"name": "spare"});
    let spare = walk.changes(("POST", "/stead/v1/keys"), &[], &wanted, named("key"));
    let spare = text(&spare["id"]).to_owned();
    walk.changes(("DELETE", "/stead/v1/keys/{id}"), &[&spare], &none, of("key", &spare));
    walk.changes(("POST", "/stead/v1/collect"), &[], &none, of("workspace", &own_workspace));

    assert!(walk.wrong.is_empty(), "{}", walk.wrong.join("\n"));
    let routes = stead_face_uhp::table().into_iter().chain(stead_face_stead::table());
    let changing = routes.map(|row| row.route).filter(|route| route.method != "GET");
    let missed: Vec<_> = changing
        .map(|route| (route.method.to_string(), route.path.to_owned()))
        .filter(|route| !walk.tried.contains(route))
        .collect();
    assert!(missed.is_empty(), "routes that nobody walks: {missed:?}");

    who_sees_it(&server, &api, &other, text(&made["secret"]));
}

/// The agent's id as the core spells it.
fn agent(harness: &Value) -> String {
    text(harness).replace("chrn_", "agent_")
}

/// An admin sees its own workspace, an operator all of them or one; pages follow each other; and a repetition adds nothing.
fn who_sees_it(server: &TestServer, operator: &Api, other: &str, admin: &str) {
    let admin = Api::with_key(server, admin);
    let own = admin.get("/stead/v1/audit").ok();
    let entries = own["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "the workspace and its key: {own:#}");
    assert!(entries.iter().all(|entry| entry["workspace_id"] == other), "{own:#}");
    assert_eq!(admin.get("/stead/v1/audit?workspace=default").status, 404);
    let seen = operator.get("/stead/v1/audit?workspace=Other").ok();
    let ids = |list: &Value| -> Vec<String> {
        list["entries"].as_array().unwrap().iter().map(|entry| text(&entry["id"]).to_owned()).collect()
    };
    assert_eq!(ids(&seen), ids(&own));
    // What another workspace's keys are called is its own business.
    assert_eq!((&entries[0]["key_name"], &seen["entries"][0]["key_name"]), (&Value::Null, &json!("first admin key")));
    let reader = server.ran(&["key", "create", "reader", "--verb", "read"]);
    assert_eq!(Api::with_key(server, reader.stdout.trim()).get("/stead/v1/audit").status, 403);
    for wrong in ["limit=0", "limit=1001", "limit=x", "cursor=x", "foo=x", "since=x", "until=now"] {
        assert_eq!(operator.get(&format!("/stead/v1/audit?{wrong}")).status, 400, "{wrong}");
    }

    let all = operator.get("/stead/v1/audit?limit=1000").ok();
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = operator.get(&format!("/stead/v1/audit?limit=7{cursor}")).ok();
        paged.extend(page["entries"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(json!(paged), all["entries"]);
    let newest_first = paged.windows(2).all(|pair| text(&pair[0]["id"]) > text(&pair[1]["id"]));
    assert!(newest_first && paged.len() > 30);

    // An id is found as clients have it, and as the log has it.
    let started =
        all["entries"].as_array().unwrap().iter().find(|entry| entry["action"] == "POST /v1/responses").unwrap();
    let turn = started["targets"].as_array().unwrap().iter().find(|target| target["kind"] == "turn").unwrap();
    let (turn, at) = (text(&turn["id"]), started["created_at"].as_i64().unwrap());
    for id in [turn.to_owned(), turn.replace("turn_", "resp_")] {
        let found = operator.get(&format!("/stead/v1/audit?target={id}&action=POST%20/v1/responses&limit=1")).ok();
        assert_eq!(found["entries"][0]["targets"], started["targets"], "{id}: {found:#}");
    }
    for (query, some) in [
        (format!("request_id={}", text(&started["request_id"])), true),
        (format!("since={at}&until={}", at + 1), true),
        (format!("until={}", at - 86_400), false),
        (format!("since={}", at + 86_400), false),
        ("key=first%20admin%20key".to_owned(), true),
        ("key=nobody".to_owned(), false),
        ("action=/activate".to_owned(), true),
    ] {
        let found = operator.get(&format!("/stead/v1/audit?limit=1000&{query}")).ok();
        assert_eq!(!ids(&found).is_empty(), some, "{query}: {found:#}");
        assert!(ids(&found).len() < ids(&all).len() || query.starts_with("key="), "{query}");
    }
    let shown = server.ran(&["audit", "--action", "/activate", "--by", "first admin key", "--since", "1d"]);
    assert!(shown.stdout.contains("WORKSPACE") && shown.stdout.lines().count() == 2, "{}", shown.stdout);
    assert!(shown.stdout.contains("/1 ") && shown.stdout.contains("first admin key (key_"), "{}", shown.stdout);
    assert_eq!(server.ran(&["audit", "-n", "0"]).status, 2);
    let shown = server.ran(&["audit", "-n", "3"]);
    assert!(shown.stderr.contains("more than these 3"), "{}", shown.stderr);
    assert!(shown.stdout.contains("POST /stead/v1/keys") && shown.stdout.lines().count() == 4, "{}", shown.stdout);
    let shown: Value = serde_json::from_str(&server.ran(&["audit", "-n", "2", "--json"]).stdout).unwrap();
    assert_eq!(shown["entries"], json!(paged[..2]));
}

#[test]
fn old_entries_go_with_a_collection() {
    needs_root!();
    let server = TestServer::start(&[("audit.keep", "1s"), ("collection.every", "1s")]);
    let api = Api::of(&server);
    api.environment("Kept", &[]);
    assert_eq!(api.get("/stead/v1/audit").ok()["entries"].as_array().unwrap().len(), 1);
    eventually("an empty log", || {
        let entries = api.get("/stead/v1/audit").ok()["entries"].take();
        if entries == json!([]) { Ok(()) } else { Err(entries.to_string()) }
    });
}
