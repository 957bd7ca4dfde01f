//! Two tenants of one server: what is the other's is not there. On every route and in every field a foreign id, a made-up one and
//! what is no id at all are one answer, whoever asks, operators of the deployment included.

use serde_json::{Value, json};
use stead_face_frame::Row;

use crate::api::{Answer, Api, Framing};
use crate::documented::{DOCUMENT, table};
use crate::objects::text;
use crate::program::needs_root;
use crate::server::TestServer;

/// Every route, each with the bodies that it is asked with. A route that is not here fails the sweep. Words between braces are
/// objects of the other tenant, or, behind `own`, of the one that asks.
const ROUTES: &[(&str, &str, &[&str])] = &[
    ("GET", "/v1/uhp", &[""]),
    ("GET", "/v1/harnesses", &[""]),
    ("POST", "/v1/harnesses", &[r#"{"base":"shell","environment":"{environment}"}"#]),
    ("GET", "/v1/harnesses/{harness_id}", &[""]),
    ("PUT", "/v1/harnesses/{harness_id}", &[r#"{"name":"taken over"}"#, r#"{"environment":"{environment}"}"#]),
    ("DELETE", "/v1/harnesses/{harness_id}", &[""]),
    ("GET", "/v1/harnesses/{harness_id}/models", &[""]),
    ("GET", "/v1/models", &[""]),
    ("GET", "/v1/models/{model}", &[""]),
    (
        "POST",
        "/v1/responses",
        &[
            r#"{"input":"true","metadata":{"harness_id":"{harness}"}}"#,
            r#"{"input":"true","environment":"{environment}","metadata":{"harness_id":"{own harness}"}}"#,
            r#"{"input":"true","metadata":{"harness_id":"{own harness}","environment":"{environment}"}}"#,
            r#"{"input":"true","previous_response_id":"{response}"}"#,
            r#"{"input":"true","previous_response_id":"{running}","metadata":{"harness_id":"{own harness}"}}"#,
            r#"{"input":[{"type":"input_file","file_id":"{upload}"}],"metadata":{"harness_id":"{own harness}"}}"#,
            r#"{"input":[{"type":"input_file","file_id":"{artifact}"}],"metadata":{"harness_id":"{own harness}"}}"#,
            r#"{"input":[{"content":[{"type":"input_file","file_id":"{upload}"}],"role":"user"}],
                "metadata":{"harness_id":"{own harness}"}}"#,
        ],
    ),
    ("GET", "/v1/responses/{response_id}", &[""]),
    ("DELETE", "/v1/responses/{response_id}", &[""]),
    ("GET", "/v1/responses/{response_id}/input_items", &[""]),
    ("POST", "/v1/responses/{response_id}/cancel", &[""]),
    ("GET", "/v1/sessions", &[""]),
    ("GET", "/v1/sessions/{session_id}", &[""]),
    ("DELETE", "/v1/sessions/{session_id}", &[""]),
    ("GET", "/v1/sessions/{session_id}/turns", &[""]),
    ("POST", "/v1/sessions/{session_id}/cancel", &[""]),
    ("GET", "/v1/sessions/{session_id}/files", &[""]),
    ("GET", "/v1/sessions/{session_id}/files/archive", &[""]),
    ("DELETE", "/v1/traces/{session_id}", &[""]),
    ("POST", "/v1/files", &["no form"]),
    ("GET", "/v1/containers/{container_id}/files/{file_id}/content", &[""]),
    ("GET", "/v1/containers/{container_id}/files/{file_id}/pdf", &[""]),
    ("GET", "/v1/environments", &[""]),
    ("POST", "/v1/environments", &["no name"]),
    ("GET", "/v1/environments/runtimes", &[""]),
    ("GET", "/v1/environments/packages/check", &[""]),
    ("GET", "/v1/environments/{environment_id}", &[""]),
    ("PUT", "/v1/environments/{environment_id}", &[r#"{"name":"taken over"}"#]),
    ("DELETE", "/v1/environments/{environment_id}", &[""]),
    ("GET", "/v1/environments/{environment_id}/harnesses", &[""]),
    ("GET", "/v1/environments/{environment_id}/files", &[""]),
    ("GET", "/v1/environments/{environment_id}/files/", &[""]),
    ("PUT", "/v1/environments/{environment_id}/files/", &["taken over"]),
    ("PATCH", "/v1/environments/{environment_id}/files/", &[r#"{"executable":true}"#]),
    ("DELETE", "/v1/environments/{environment_id}/files/", &[""]),
    ("GET", "/v1/environments/{environment_id}/files/{*path}", &[""]),
    ("PUT", "/v1/environments/{environment_id}/files/{*path}", &["taken over"]),
    ("PATCH", "/v1/environments/{environment_id}/files/{*path}", &[r#"{"executable":true}"#]),
    ("DELETE", "/v1/environments/{environment_id}/files/{*path}", &[""]),
    ("POST", "/v1/environments/{environment_id}/directories", &[r#"{"path":"d"}"#]),
    (
        "POST",
        "/v1/environments/{environment_id}/import",
        &["no archive", r#"{"git":{"url":"https://host.example/a.git"}}"#],
    ),
    ("POST", "/v1/environments/{environment_id}/build", &[""]),
    ("GET", "/v1/environments/{environment_id}/builds/{version}", &[""]),
    ("GET", "/v1/environments/{environment_id}/versions", &[""]),
    ("POST", "/v1/environments/{environment_id}/versions/{version}/activate", &[""]),
    ("GET", "/stead/v1/server", &[""]),
    ("GET", "/stead/v1/openapi.json", &[""]),
    ("GET", "/stead/v1/workspaces", &[""]),
    ("POST", "/stead/v1/workspaces", &["no name"]),
    ("GET", "/stead/v1/keys", &[""]),
    (
        "POST",
        "/stead/v1/keys",
        &[r#"{"name":"k","workspace":"{workspace}"}"#, r#"{"name":"k","workspace":"{workspace name}"}"#],
    ),
    ("DELETE", "/stead/v1/keys/{id}", &[""]),
    ("POST", "/stead/v1/collect", &[""]),
    ("GET", "/stead/v1/usage", &[""]),
    ("GET", "/stead/v1/audit", &[""]),
    ("POST", "/stead/v1/projects/{project}/build", &[""]),
    ("GET", "/stead/v1/projects/{project}/builds/{number}", &[""]),
    ("GET", "/stead/v1/projects/{project}/builds/{number}/log", &[""]),
    ("POST", "/stead/v1/projects/{project}/builds/{number}/cancel", &[""]),
    ("DELETE", "/stead/v1/projects/{project}/versions/{number}", &[""]),
    ("GET", "/stead/v1/turns/{turn}", &[""]),
    ("GET", "/stead/v1/turns/{turn}/output", &[""]),
];

/// What stands in a path, and the kind of object whose place it is. A name that is not here fails the sweep.
const PLACES: &[(&str, &str)] = &[
    ("harness_id", "harness"),
    ("response_id", "running"),
    ("session_id", "session"),
    ("container_id", "container"),
    ("file_id", "artifact"),
    ("environment_id", "environment"),
    ("project", "environment"),
    ("turn", "running"),
    ("id", "key"),
    // No identities: what they name belongs to what stands before them.
    ("version", "1"),
    ("number", "1"),
    ("*path", "a.txt"),
    ("model", "nothing"),
];

/// Parameters in which an id may stand.
const NAMING: [&str; 7] = ["harness", "cursor", "workspace", "starting_after", "key", "target", "request_id"];
/// Parameters in which none may.
const PLAIN: [&str; 18] = [
    "action",
    "since",
    "until",
    "limit",
    "after",
    "under",
    "executable",
    "X-Stead-Executable",
    "replace",
    "fresh",
    "stream",
    "manager",
    "spec",
    "from",
    "Range",
    "Last-Event-ID",
    "Idempotency-Key",
    "before",
];

/// Fields of bodies in which an id may stand; each is in a body of [`ROUTES`].
const NAMING_FIELDS: [&str; 5] = ["environment", "harness_id", "previous_response_id", "workspace", "input"];
/// Fields in which none may.
const PLAIN_FIELDS: [&str; 45] = [
    "base",
    "name",
    "default_model",
    "system_prompt",
    "mcp_servers",
    "skills",
    "plugins",
    "disabled_tools",
    "max_step",
    "timeout_seconds",
    "stead_network",
    "mode",
    "hosts",
    "model",
    "metadata",
    "stead_version",
    "stream",
    "background",
    "instructions",
    "store",
    "max_output_tokens",
    "file",
    "purpose",
    "description",
    "entry",
    "packages",
    "pip",
    "npm",
    "apt",
    "runtime",
    "python",
    "stead_build_network",
    "executable",
    "path",
    "git",
    "url",
    "ref",
    "stead_ssh_key",
    "stead_known_hosts",
    "replace",
    "verbs",
    "include",
    "tools",
    "fresh",
    "temperature",
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

    /// The object of a kind; what is no kind stands for itself.
    fn object<'a>(&'a self, kind: &'a str) -> &'a str {
        self.objects.iter().find(|(known, _)| *known == kind).map_or(kind, |(_, id)| id)
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

    /// A request as comparable text.
    fn ask(&self, method: &str, path: &str, body: &str, echoed: &[String]) -> (u16, Vec<(String, String)>, String) {
        let kind = if body.starts_with('{') { "application/json" } else { "application/octet-stream" };
        let opened = self.api.open(method, path, &[("Content-Type", kind)], body.as_bytes(), Framing::Length).unwrap();
        let answer = match method {
            // It has the length of a body that does not come.
            "HEAD" => Answer { status: opened.status, headers: opened.headers, body: Vec::new() },
            _ => opened.finish().unwrap(),
        };
        crate::documented::check(method, path, &answer);
        comparable(&answer, echoed)
    }

    /// Asks every route for what the other has: in every place where an id may stand, every id that the other has, as it is and
    /// respelled as the kind that the place is for.
    fn finds_nothing_of(&self, theirs: &Tenant, is_operator: bool) {
        let mut sweep = Sweep { own: self, theirs, wrong: Vec::new(), asked: 0 };
        for Row { route, .. } in table() {
            let (method, path) = (route.method.as_str(), route.path);
            let Some((_, _, bodies)) = ROUTES.iter().find(|row| (row.0, row.1) == (method, path)) else {
                sweep.wrong.push(format!("{method} {path} has no row in the sweep"));
                continue;
            };
            for body in *bodies {
                sweep.paths(method, path, body);
                if !(is_operator && body.contains("{workspace")) {
                    sweep.bodies(method, path, body);
                }
            }
            sweep.queries(method, path, is_operator);
        }
        let known: Vec<(String, &str)> =
            table().iter().map(|row| (row.route.method.to_string(), row.route.path)).collect();
        for (method, path, _) in ROUTES {
            assert!(known.contains(&((*method).to_owned(), path)), "{method} {path} is no route any more");
        }
        assert!(sweep.wrong.is_empty(), "{}", sweep.wrong.join("\n"));
        assert!(sweep.asked > 1000, "the sweep asked {} times", sweep.asked);
        for path in LISTS {
            let listed = self.api.get(path).ok().to_string();
            assert_eq!(theirs.ids().find(|id| listed.contains(id)), None, "{path}: {listed}");
        }
    }
}

/// An identity that nothing has, of the same moment: what an id says by itself is no secret.
fn made_up(id: &str) -> String {
    match id.len().checked_sub(8) {
        Some(front) if id.contains('_') => format!("{}5b3c2d1e", &id[..front]),
        _ => "nowhere".to_owned(),
    }
}

/// The sweep of one tenant through the routes.
struct Sweep<'a> {
    own: &'a Tenant,
    theirs: &'a Tenant,
    wrong: Vec<String>,
    asked: usize,
}

impl Sweep<'_> {
    /// Every id of the other, as it is and as an object of that kind would be called.
    fn foreign(&self, kind: &str) -> Vec<String> {
        let prefix = self.own.object(kind).split_once('_').map(|(prefix, _)| prefix.to_owned());
        let mut ids: Vec<String> = self.theirs.ids().map(str::to_owned).collect();
        if let Some(prefix) = prefix {
            let respelled: Vec<String> =
                ids.iter().filter_map(|id| Some(format!("{prefix}_{}", id.split_once('_')?.1))).collect();
            ids.extend(respelled);
        }
        ids.sort();
        ids.dedup();
        ids
    }

    /// Asks with a foreign id and with a made-up one.
    fn compare(&mut self, method: &str, ask: &dyn Fn(&str) -> (String, String), id: &str, allowed: &[u16]) {
        let mut answers = Vec::new();
        for id in [id, &made_up(id)] {
            let (path, body) = ask(id);
            answers.push((self.own.ask(method, &path, &body, &[id.to_owned()]), path, body));
            self.asked += 1;
        }
        let [(foreign, path, body), (other, ..)] = &answers[..] else { unreachable!("two were asked for") };
        if !allowed.contains(&foreign.0) {
            self.wrong.push(format!("{method} {path} {body}: {} {}", foreign.0, foreign.2));
        }
        if foreign != other {
            self.wrong.push(format!("{method} {path} {body}: foreign {foreign:?}, made up {other:?}"));
        }
    }

    fn paths(&mut self, method: &str, template: &str, body: &str) {
        let names: Vec<&str> = template.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
        for name in &names {
            let Some((_, kind)) = PLACES.iter().find(|(place, _)| place == name) else {
                self.wrong.push(format!("{method} {template}: nobody says what `{name}` is"));
                continue;
            };
            if *kind == "a.txt" {
                continue;
            }
            // The rest of the path is the own one's, or is the other's as well.
            for others in [self.own, self.theirs] {
                if std::ptr::eq(others, self.theirs) && names.len() == 1 {
                    continue;
                }
                let ask = |id: &str| {
                    let path = names.iter().fold(template.to_owned(), |path, other| {
                        let kind = PLACES.iter().find(|(place, _)| place == other).map_or("", |(_, kind)| kind);
                        let filled = if other == name { id } else { others.object(kind) };
                        path.replace(&format!("{{{other}}}"), filled)
                    });
                    (path, self.own.filled(body, self.own, |_, id| id.to_owned()))
                };
                let allowed: &[u16] = if template.ends_with("/files/") { &[422] } else { &[404] };
                for id in self.foreign(kind) {
                    self.compare(method, &ask, &id, allowed);
                    if method == "GET" {
                        self.compare("HEAD", &ask, &id, allowed);
                    }
                }
                if *kind == "1" || *kind == "nothing" {
                    continue;
                }
                let (nothing, foreign) = (ask("nothing"), ask(self.theirs.object(kind)));
                let nothing = self.own.ask(method, &nothing.0, &nothing.1, &["nothing".to_owned()]);
                let foreign = self.own.ask(method, &foreign.0, &foreign.1, &[self.theirs.object(kind).to_owned()]);
                if nothing != foreign {
                    self.wrong.push(format!("{method} {template} {body}: foreign {foreign:?}, no id {nothing:?}"));
                }
            }
        }
    }

    fn bodies(&mut self, method: &str, template: &str, body: &str) {
        for (kind, _) in &self.own.objects {
            let place = format!("{{{kind}}}");
            if !body.contains(&place) {
                continue;
            }
            let path = PLACES.iter().fold(template.to_owned(), |path, (name, kind)| {
                path.replace(&format!("{{{name}}}"), self.own.object(kind))
            });
            let mut ids = self.foreign(kind);
            ids.push(self.theirs.object(kind).to_owned());
            for id in ids {
                let ask = |id: &str| {
                    let filled = body.replace(&place, id);
                    (path.clone(), self.own.filled(&filled, self.own, |_, id| id.to_owned()))
                };
                self.compare(method, &ask, &id, &[404]);
            }
        }
    }

    fn queries(&mut self, method: &str, template: &str, is_operator: bool) {
        let item = &DOCUMENT["paths"][template.replace("{*", "{")][method.to_ascii_lowercase()];
        for parameter in item["parameters"].as_array().unwrap() {
            let name = text(&parameter["name"]);
            if parameter["in"] == "path" || PLAIN.contains(&name) {
                continue;
            }
            if !NAMING.contains(&name) {
                self.wrong.push(format!("{method} {template}: nobody says whether `{name}` may be an id"));
            }
            // An operator looks into every workspace.
            if ["workspace", "key", "target", "request_id"].contains(&name) && is_operator {
                continue;
            }
            let path = PLACES.iter().fold(template.to_owned(), |path, (name, kind)| {
                path.replace(&format!("{{{name}}}"), self.own.object(kind))
            });
            let kind = match name {
                "harness" => "harness",
                "cursor" => "session",
                "workspace" => "workspace",
                "key" => "key",
                _ => "running",
            };
            let mut ids = self.foreign(kind);
            ids.push(self.theirs.object("workspace name").to_owned());
            for id in ids {
                // Where an answer would else go on for ever. The own interface refuses what it does not know.
                let ends = if path.starts_with("/v1/") { "&stream=0" } else { "" };
                let ask = |id: &str| (format!("{path}?{name}={id}{ends}"), String::new());
                self.compare(method, &ask, &id, if name == "workspace" { &[404] } else { &[200, 400] });
            }
        }
    }
}

#[test]
fn every_field_of_a_body_is_known_to_name_something_or_not_to() {
    fn names(value: &Value, found: &mut std::collections::BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::Object(properties)) = object.get("properties") {
                    found.extend(properties.keys().cloned());
                }
                if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
                    names(DOCUMENT.pointer(reference.trim_start_matches('#')).unwrap(), found);
                }
                object.values().for_each(|inner| names(inner, found));
            }
            Value::Array(list) => list.iter().for_each(|inner| names(inner, found)),
            _ => {}
        }
    }
    let mut found = std::collections::BTreeSet::new();
    for item in DOCUMENT["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            names(&operation["requestBody"], &mut found);
        }
    }
    let swept: String = ROUTES.iter().flat_map(|(_, _, bodies)| bodies.iter().copied()).collect();
    for name in NAMING_FIELDS {
        assert!(swept.contains(&format!("\"{name}\":")), "no body of the sweep has `{name}`");
    }
    let unknown: Vec<&String> = found
        .iter()
        .filter(|name| !NAMING_FIELDS.contains(&name.as_str()) && !PLAIN_FIELDS.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "nobody says whether {unknown:?} may be ids");
}

/// An answer without what differs between any two: status, headers, body.
fn comparable(answer: &Answer, echoed: &[String]) -> (u16, Vec<(String, String)>, String) {
    let without = ["date", "x-request-id", "content-length"];
    let headers = answer.headers.iter().filter(|(name, _)| !without.contains(&name.as_str())).cloned().collect();
    (answer.status, headers, echoed.iter().fold(answer.text(), |text, id| text.replace(id, "ID")))
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
