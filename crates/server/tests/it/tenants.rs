//! Two tenants of one server: what is the other's is not there. On every route and in every field a foreign id, a made-up one and
//! what is no id at all are one answer, whoever asks, operators of the deployment included.

use serde_json::{Value, json};

use crate::api::{Answer, Api, Framing};
use crate::objects::text;
use crate::program::needs_root;
use crate::server::TestServer;

/// A well-formed identity that nothing has.
const NOBODY: &str = "018f3c2a7b4c7d3e9f6a5b4c3d2e1f00";

/// Every route with an id in its path or query, each with a body that it would take; `[workspace]` ones are for operators.
const ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "/v1/environments/{environment}", ""),
    ("PUT", "/v1/environments/{environment}", r#"{"name":"taken over"}"#),
    ("DELETE", "/v1/environments/{environment}", ""),
    ("GET", "/v1/environments/{environment}/harnesses", ""),
    ("GET", "/v1/environments/{environment}/files", ""),
    ("GET", "/v1/environments/{environment}/files?under=d", ""),
    ("GET", "/v1/environments/{environment}/files/", ""),
    ("GET", "/v1/environments/{environment}/files/a.txt", ""),
    ("HEAD", "/v1/environments/{environment}/files/a.txt", ""),
    ("PUT", "/v1/environments/{environment}/files/a.txt", "taken over"),
    ("PATCH", "/v1/environments/{environment}/files/a.txt", r#"{"executable":true}"#),
    ("DELETE", "/v1/environments/{environment}/files/a.txt", ""),
    ("POST", "/v1/environments/{environment}/directories", r#"{"path":"d"}"#),
    ("POST", "/v1/environments/{environment}/import?replace=1", "no archive"),
    ("POST", "/v1/environments/{environment}/import", r#"{"git":{"url":"https://host.example/a.git"}}"#),
    ("POST", "/v1/environments/{environment}/build", ""),
    ("POST", "/v1/environments/{environment}/build?fresh=1", ""),
    ("GET", "/v1/environments/{environment}/builds/1", ""),
    ("GET", "/v1/environments/{environment}/versions", ""),
    ("POST", "/v1/environments/{environment}/versions/1/activate", ""),
    ("GET", "/v1/harnesses/{harness}", ""),
    ("PUT", "/v1/harnesses/{harness}", r#"{"name":"taken over"}"#),
    ("DELETE", "/v1/harnesses/{harness}", ""),
    ("GET", "/v1/harnesses/{harness}/models", ""),
    ("GET", "/v1/sessions?harness={harness}", ""),
    ("GET", "/v1/sessions/{session}", ""),
    ("DELETE", "/v1/sessions/{session}", ""),
    ("DELETE", "/v1/traces/{session}", ""),
    ("GET", "/v1/sessions/{session}/turns", ""),
    ("POST", "/v1/sessions/{session}/cancel", ""),
    ("GET", "/v1/sessions/{session}/files", ""),
    ("GET", "/v1/sessions/{session}/files/archive", ""),
    ("GET", "/v1/responses/{response}", ""),
    ("GET", "/v1/responses/{running}", ""),
    ("GET", "/v1/responses/{running}?stream=true", ""),
    ("GET", "/v1/responses/{response}/input_items", ""),
    ("POST", "/v1/responses/{running}/cancel", ""),
    ("DELETE", "/v1/responses/{response}", ""),
    ("GET", "/v1/containers/{container}/files/{artifact}/content", ""),
    ("HEAD", "/v1/containers/{container}/files/{artifact}/content", ""),
    ("GET", "/v1/containers/{container}/files/{artifact}/pdf", ""),
    ("GET", "/v1/containers/{own container}/files/{artifact}/content", ""),
    ("GET", "/v1/containers/{own container}/files/{upload}/content", ""),
    ("DELETE", "/stead/v1/keys/{key}", ""),
    ("GET", "/stead/v1/keys?workspace={workspace}", ""),
    ("GET", "/stead/v1/keys?workspace={workspace name}", ""),
    ("DELETE", "/stead/v1/keys/{key}?workspace={workspace}", ""),
    ("POST", "/stead/v1/projects/{environment}/build", ""),
    ("GET", "/stead/v1/projects/{environment}/builds/1", ""),
    ("GET", "/stead/v1/projects/{environment}/builds/1/log", ""),
    ("POST", "/stead/v1/projects/{environment}/builds/1/cancel", ""),
    ("DELETE", "/stead/v1/projects/{environment}/versions/1", ""),
    ("GET", "/stead/v1/turns/{response}", ""),
    ("GET", "/stead/v1/turns/{turn}", ""),
    ("GET", "/stead/v1/turns/{turn}/output", ""),
    ("GET", "/stead/v1/turns/{running}/output", ""),
    // Ids in bodies.
    ("POST", "/v1/harnesses", r#"{"base":"shell","environment":"{environment}"}"#),
    ("PUT", "/v1/harnesses/{own harness}", r#"{"environment":"{environment}"}"#),
    ("POST", "/v1/responses", r#"{"input":"true","metadata":{"harness_id":"{harness}"}}"#),
    (
        "POST",
        "/v1/responses",
        r#"{"input":"true","environment":"{environment}","metadata":{"harness_id":"{own harness}"}}"#,
    ),
    (
        "POST",
        "/v1/responses",
        r#"{"input":"true","metadata":{"harness_id":"{own harness}","environment":"{environment}"}}"#,
    ),
    ("POST", "/v1/responses", r#"{"input":"true","previous_response_id":"{response}"}"#),
    (
        "POST",
        "/v1/responses",
        r#"{"input":"true","previous_response_id":"{running}","metadata":{"harness_id":"{own harness}"}}"#,
    ),
    (
        "POST",
        "/v1/responses",
        r#"{"input":[{"type":"input_file","file_id":"{upload}"}],"metadata":{"harness_id":"{own harness}"}}"#,
    ),
    (
        "POST",
        "/v1/responses",
        r#"{"input":[{"type":"input_file","file_id":"{artifact}"}],"metadata":{"harness_id":"{own harness}"}}"#,
    ),
    ("POST", "/stead/v1/keys", r#"{"name":"k","workspace":"{workspace}"}"#),
    ("POST", "/stead/v1/keys", r#"{"name":"k","workspace":"{workspace name}"}"#),
];

/// Lists, none of which may name anything of another workspace.
const LISTS: [&str; 6] =
    ["/v1/environments", "/v1/harnesses", "/v1/sessions?limit=100", "/v1/models", "/stead/v1/keys", "/stead/v1/usage"];

/// What one tenant has: an object of every kind, by the words between braces in [`ROUTES`].
struct Tenant {
    api: Api,
    objects: Vec<(&'static str, String)>,
}

impl Tenant {
    /// Makes everything: a built project, a task that read it and left a file, one that still runs, an upload and a key.
    fn furnished(api: Api, workspace: (String, &str)) -> Self {
        let environment = api.environment("Demo", &[("a.txt", "a\n"), ("d/b.txt", "b\n")]);
        api.build(&environment);
        let harness = api.post("/v1/harnesses", &json!({"base": "shell", "environment": environment})).ok();
        let harness = text(&harness["id"]).to_owned();
        let response = api.run(&harness, "cat /env/demo/a.txt; echo left > out.txt");
        let running = api.begin(&harness, "echo begun; sleep 300");
        let metadata = &response["metadata"];
        let session = text(&metadata["session_id"]).to_owned();
        let files = api.get(&format!("/v1/sessions/{session}/files")).ok();
        let turn = api.get(&format!("/stead/v1/turns/{}", text(&response["id"]))).ok();
        let part = "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"u\"\r\n\r\nx\r\n--edge--\r\n";
        let form = [("Content-Type", "multipart/form-data; boundary=edge"), ("UHP-Version", "2026-09-28")];
        let upload = api.send("POST", "/v1/files", &form, part.as_bytes()).ok();
        let key = api.post("/stead/v1/keys", &json!({"name": "spare", "verbs": ["read"]})).ok();
        let objects = vec![
            ("environment", environment),
            ("harness", harness),
            ("session", session),
            ("response", text(&response["id"]).to_owned()),
            ("running", text(&running["id"]).to_owned()),
            ("turn", text(&turn["id"]).to_owned()),
            ("container", text(&metadata["container_id"]).to_owned()),
            ("artifact", text(&files["files"][0]["id"]).to_owned()),
            ("upload", text(&upload["id"]).to_owned()),
            ("key", text(&key["id"]).to_owned()),
            ("workspace name", workspace.1.to_owned()),
            ("workspace", workspace.0),
        ];
        Self { api, objects }
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().filter(|(kind, _)| *kind != "workspace name").map(|(_, id)| id.as_str())
    }

    /// The template with this tenant's own ids where it says so, and for the others what `other` makes of the one whose they are.
    fn filled(&self, template: &str, theirs: &Tenant, other: impl Fn(&str, &str) -> String) -> String {
        let own = self.objects.iter().map(|(kind, id)| (format!("{{own {kind}}}"), id.clone()));
        let foreign = theirs.objects.iter().map(|(kind, id)| (format!("{{{kind}}}"), other(kind, id)));
        own.chain(foreign).fold(template.to_owned(), |text, (place, id)| text.replace(&place, &id))
    }

    /// Everything that a change by somebody else would show in.
    fn state(&self) -> Vec<Value> {
        let own = |path: &str| self.filled(path, self, |_, id| id.to_owned());
        [
            "/v1/environments",
            "/v1/environments/{environment}/files",
            "/v1/environments/{environment}/versions",
            "/v1/harnesses",
            "/v1/sessions",
            "/v1/sessions/{session}/turns",
            "/v1/responses/{running}",
            "/stead/v1/keys",
            "/stead/v1/projects/{environment}/builds/1",
        ]
        .map(|path| self.api.get(&own(path)).ok())
        .to_vec()
    }

    /// Asks every route for what the other has.
    fn finds_nothing_of(&self, theirs: &Tenant, is_operator: bool) {
        let send = |method: &str, path: &str, body: &str| {
            let kind = if body.starts_with('{') { "application/json" } else { "application/octet-stream" };
            let headers = [("Content-Type", kind)];
            let opened = self.api.open(method, path, &headers, body.as_bytes(), Framing::Length).unwrap();
            match method {
                // It has the length of a body that does not come.
                "HEAD" => Answer { status: opened.status, headers: opened.headers, body: Vec::new() },
                _ => opened.finish().unwrap(),
            }
        };
        let mut wrong = Vec::new();
        for &(method, path, body) in ROUTES {
            if is_operator && (path.contains("{workspace") || body.contains("{workspace")) {
                continue;
            }
            let ask = |other: &dyn Fn(&str, &str) -> String| {
                let filled = |template| self.filled(template, theirs, other);
                let answer = send(method, &filled(path), &filled(body));
                comparable(&answer, theirs.objects.iter().map(|(kind, id)| other(kind, id)))
            };
            let foreign = ask(&|_, id| id.to_owned());
            let expected = match path {
                // A filter that nothing fits, and a path that is wrong whoever's it is.
                "/v1/sessions?harness={harness}" => 200,
                "/v1/environments/{environment}/files/" => 422,
                _ => 404,
            };
            if foreign.0 != expected {
                wrong.push(format!("{method} {path} {body}: {} {}", foreign.0, foreign.2));
            }
            for (what, answer) in [("made up", ask(&|_, id| made_up(id))), ("no id", ask(&|_, _| "nothing".to_owned()))]
            {
                if foreign != answer {
                    wrong.push(format!("{method} {path} {body}: foreign {foreign:?}, {what} {answer:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for path in LISTS {
            let listed = self.api.get(path).ok().to_string();
            assert_eq!(theirs.ids().find(|id| listed.contains(id)), None, "{path}: {listed}");
        }
    }
}

fn made_up(id: &str) -> String {
    id.split_once('_').map_or_else(|| "nowhere".to_owned(), |(prefix, _)| format!("{prefix}_{NOBODY}"))
}

/// An answer without what differs between any two: status, headers, body.
fn comparable(answer: &Answer, echoed: impl Iterator<Item = String>) -> (u16, Vec<(String, String)>, String) {
    let without = ["date", "x-request-id", "content-length"];
    let headers = answer.headers.iter().filter(|(name, _)| !without.contains(&name.as_str())).cloned().collect();
    (answer.status, headers, echoed.fold(answer.text(), |text, id| text.replace(&id, "ID")))
}

#[test]
fn what_is_anothers_is_not_there_on_any_route() {
    needs_root!();
    let server = TestServer::start(&[]);
    let blue = Api::of_tenant(&server, "Team Blue");
    // The oldest is first, and the operator's.
    let found = Api::of(&server).get("/stead/v1/workspaces").ok();
    let id = |place: usize| text(&found["workspaces"][place]["id"]).to_owned();
    let blue = Tenant::furnished(blue, (id(1), "Team%20Blue"));
    let operator = Tenant::furnished(Api::of(&server), (id(0), "default"));
    let before = (blue.state(), operator.state());
    blue.finds_nothing_of(&operator, false);
    operator.finds_nothing_of(&blue, true);
    assert_eq!((blue.state(), operator.state()), before);
    for tenant in [&blue, &operator] {
        tenant.api.delete_sessions();
    }
}

#[test]
fn workspaces_are_made_and_given_keys_by_operators_alone() {
    needs_root!();
    let server = TestServer::start(&[]);
    let json = |arguments: &[&str]| -> Value {
        let ran = server.ran(&[arguments, &["--json"]].concat());
        serde_json::from_str(if ran.status == 0 { &ran.stdout } else { &ran.stderr }).unwrap()
    };
    let blue = json(&["workspace", "create", " Team Blue "]);
    assert_eq!((text(&blue["name"]), &blue["current"]), ("Team Blue", &json!(false)));
    let taken = json(&["workspace", "create", "Team Blue"]);
    assert_eq!((&taken["error"]["code"], &taken["error"]["http_status"]), (&json!("workspace_exists"), &json!(409)));
    assert_eq!(taken["error"]["detail"]["workspace"], blue["id"]);
    let listed = server.ran(&["workspace", "ls"]).stdout;
    assert!(listed.contains("default") && listed.contains("Team Blue"), "{listed}");
    let wrong = Api::of(&server).post("/stead/v1/workspaces", &json!({"name": "ws_x"}));
    assert_eq!((wrong.status, &wrong.json()["error"]["param"]), (400, &json!("name")));

    // By id as well as by name; a key of a tenant sees the tenant alone.
    let admin = json(&["key", "create", "admin", "--workspace", text(&blue["id"]), "--verb", "read,admin"]);
    assert_eq!(admin["workspace_id"], blue["id"]);
    let tenant = Api::with_key(&server, text(&admin["secret"]));
    let own = tenant.get("/stead/v1/workspaces").ok();
    assert_eq!(own["workspaces"].as_array().unwrap().len(), 1);
    assert_eq!((&own["workspaces"][0]["id"], &own["workspaces"][0]["current"]), (&blue["id"], &json!(true)));
    assert_eq!(tenant.post("/stead/v1/workspaces", &json!({"name": "Mine"})).status, 403);
    let refused = tenant.post("/stead/v1/keys", &json!({"name": "up", "verbs": ["read", "operator"]}));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (403, &json!("verbs")));
    let inside = tenant.post("/stead/v1/keys", &json!({"name": "in", "workspace": "Team Blue"})).ok();
    assert_eq!(inside["workspace_id"], blue["id"]);

    // It starts with the harness that the first one has, which takes a task at once.
    let runner = json(&["key", "create", "runner", "--workspace", "Team Blue"]);
    let runner = Api::with_key(&server, text(&runner["secret"]));
    let harnesses = runner.get("/v1/harnesses").ok();
    let shell = text(&harnesses["harnesses"][0]["id"]).to_owned();
    assert_eq!(crate::objects::said(&runner.run(&shell, "echo at work")), "at work\n");
    runner.delete_sessions();

    // An operator's key in a tenant's workspace is beyond the tenant's admins; the operator finds and ends the tenant's keys.
    let operator = json(&["key", "create", "second", "--workspace", "Team Blue", "--verb", "operator"]);
    let place = format!("/stead/v1/keys/{}", text(&operator["id"]));
    assert_eq!(tenant.delete(&place).status, 403);
    let second = Api::with_key(&server, text(&operator["secret"]));
    assert_eq!(second.post("/stead/v1/workspaces", &json!({"name": "Third"})).status, 200);
    assert_eq!(second.get("/v1/environments").status, 403, "one verb holds no other");
    assert_eq!(server.ran(&["key", "revoke", "second"]).status, 1, "it is not of the first workspace");
    assert_eq!(server.ran(&["key", "revoke", "second", "--workspace", "Team Blue"]).status, 0);
    assert_eq!(second.get("/stead/v1/workspaces").status, 401);
    assert_eq!(json(&["key", "list"])["keys"].as_array().unwrap().len(), 1);
}
