//! What a key may do, route by route as the tables say it.

use serde_json::json;
use stead_domain::key::Verb;
use stead_face_frame::Row;

use crate::api::Api;
use crate::documented::table;
use crate::objects::text;
use crate::program::needs_root;
use crate::server::TestServer;

fn key(admin: &Api, server: &TestServer, verbs: &[Verb]) -> Api {
    let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
    let made = admin.post("/stead/v1/keys", &json!({"name": "some", "verbs": verbs})).ok();
    Api::with_key(server, text(&made["secret"]))
}

#[test]
fn every_route_refuses_a_key_without_its_verb_and_no_other() {
    needs_root!();
    let server = TestServer::start(&[]);
    let admin = Api::of(&server);
    let alone: Vec<(Verb, Api)> = Verb::ALL.iter().map(|verb| (*verb, key(&admin, &server, &[*verb]))).collect();
    let mut with_all_but: Vec<(Vec<Verb>, Api)> = Vec::new();
    let mut wrong = Vec::new();
    for Row { route, .. } in table() {
        // Names nothing that is there, so that nothing happens behind the gate.
        let path = route.path.replace(['{', '}', '*'], "");
        let (method, told) = (route.method.as_str(), format!("{} {}", route.method, route.path));
        let ask = |api: &Api| {
            let answer = api.send(method, &path, &[("Content-Type", "application/json")], b"");
            let code = answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
            (answer.status, code)
        };
        let nobody = ask(&Api::with_key(&server, "stead_nobody"));
        if route.verbs.is_empty() {
            if nobody.0 != 200 {
                wrong.push(format!("{told}: {nobody:?} without a key"));
            }
            continue;
        }
        if nobody.0 != 401 {
            wrong.push(format!("{told}: {nobody:?} with a key that is none"));
        }
        let others: Vec<Verb> = Verb::ALL.into_iter().filter(|verb| !route.verbs.contains(verb)).collect();
        if !with_all_but.iter().any(|(verbs, _)| *verbs == others) {
            with_all_but.push((others.clone(), key(&admin, &server, &others)));
        }
        let (_, without) = with_all_but.iter().find(|(verbs, _)| *verbs == others).unwrap();
        let refused = ask(without);
        if refused.0 != 403 || !["insufficient_scope", "scope_insufficient"].contains(&refused.1.as_str()) {
            wrong.push(format!("{told}: {refused:?} with every verb but its own"));
        }
        for (verb, api) in alone.iter().filter(|(verb, _)| route.verbs.contains(verb)) {
            let passed = ask(api);
            if [401, 403].contains(&passed.0) || passed.0 >= 500 && passed.0 != 501 {
                wrong.push(format!("{told}: {passed:?} with `{}` alone", verb.as_str()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
