//! Networks as they are given: by the deployment, a harness, a task, a project; each narrows, none widens, and what is refused is
//! said in words that name the host.
//!
//! Names under `.invalid` resolve nowhere. A proxy that lets one through fails to find it (502), one that does not refuses it
//! unasked (403); without a network there is no proxy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{eventually, said, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// Asks for addresses through the proxy and says what came of each.
const ASK: &str = "cat > /tmp/ask.py <<'END'
import sys, urllib.error, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({'http': 'http://127.0.0.1:3128'}))
for url in sys.argv[1:]:
    try: print(url, opener.open(url, timeout=20).read().decode().strip())
    except urllib.error.HTTPError as error: print(url, error.code, error.headers.get('X-Stead-Egress', '').split(' ')[0])
    except OSError: print(url, 'no way')
END
no_proxy= NO_PROXY= python3 /tmp/ask.py";

const REFUSED: &str = "403 refused";
const OPEN: &str = "502 failed";
const CLOSED: &str = "no way";

/// A script that asks for hosts, and what it says when each is answered so.
fn asking(answers: &[(&str, &str)]) -> (String, String) {
    let urls: Vec<String> = answers.iter().map(|(host, _)| format!("http://{host}/")).collect();
    let said: Vec<String> = urls.iter().zip(answers).map(|(url, (_, answer))| format!("{url} {answer}\n")).collect();
    (format!("{ASK} {}", urls.join(" ")), said.concat())
}

fn restricted(hosts: &[&str]) -> Value {
    json!({ "mode": "restricted", "hosts": hosts })
}

/// Runs a script as the next task of a session, or the first of one, with this network; it must end well.
fn task(api: &Api, harness: &str, previous: Option<&Value>, network: &Value, script: &str) -> Value {
    let metadata = json!({ "harness_id": harness, "stead_network": network });
    let mut body = json!({ "input": script, "metadata": metadata });
    if let Some(previous) = previous {
        body["previous_response_id"] = previous["id"].clone();
    }
    let response = api.ask(&body).ok();
    assert_eq!(response["status"], "completed", "{response:#}");
    response
}

/// A mirror of packages: what it is asked for it has.
fn mirror() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                head.push(byte[0]);
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nmirror");
        }
    });
    address
}

#[test]
fn tasks_of_one_session_reach_what_each_was_given() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "restricted"), ("sessions.hosts", "a.invalid,b.invalid")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let everything = [("a.invalid", OPEN), ("b.invalid", OPEN), ("c.invalid", REFUSED), ("192.0.2.1", REFUSED)];
    let (script, expected) = asking(&everything);
    let proxies =
        "env | grep -i '_proxy=http' | cut -d= -f1 | sort | tr '\\n' ' '; env | grep -ci all_proxy; echo kept > kept";
    let first = task(&api, &harness, None, &Value::Null, &format!("{script}; {proxies}; true"));
    assert_eq!(said(&first), format!("{expected}HTTPS_PROXY HTTP_PROXY http_proxy https_proxy 0\n"));
    assert_eq!(first["metadata"]["stead_network"], restricted(&["a.invalid", "b.invalid"]));

    let (script, expected) = asking(&[("a.invalid", REFUSED), ("b.invalid", OPEN)]);
    let second = task(&api, &harness, Some(&first), &restricted(&["b.invalid"]), &script);
    assert_eq!(said(&second), expected);
    assert_eq!(second["metadata"]["stead_network"], restricted(&["b.invalid"]));

    let (script, expected) = asking(&[("b.invalid", CLOSED)]);
    let third =
        task(&api, &harness, Some(&second), &json!("disabled"), &format!("{script}; env | grep -ic proxy; true"));
    assert_eq!(said(&third), format!("{expected}0\n"));

    // Back to all of it, in the same files.
    let (script, expected) = asking(&everything);
    let fourth = task(&api, &harness, Some(&third), &Value::Null, &format!("{script}; cat kept"));
    assert_eq!(said(&fourth), format!("{expected}kept\n"));

    // A harness of its own narrowness, and what goes beyond it or beyond the deployment.
    let body = json!({ "base": "shell", "name": "narrow", "stead_network": restricted(&["b.invalid"]) });
    let narrow = text(&api.post("/v1/harnesses", &body).ok()["id"]).to_owned();
    let (script, expected) = asking(&[("a.invalid", REFUSED), ("b.invalid", OPEN)]);
    assert_eq!(said(&task(&api, &narrow, None, &Value::Null, &script)), expected);
    for (harness, network) in [(&narrow, restricted(&["a.invalid"])), (&harness, json!("enabled"))] {
        let metadata = json!({ "harness_id": harness, "stead_network": network });
        let refused = api.ask(&json!({ "input": "true", "metadata": metadata }));
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert_eq!(refused.json()["error"]["param"], "metadata.stead_network");
    }

    // The command line says the same.
    let (script, expected) = asking(&[("a.invalid", OPEN), ("b.invalid", REFUSED)]);
    let ran = server.ran(&["run", "-", "--rm", "--allow-host", "a.invalid", "--", "bash", "-c", &script]);
    assert_eq!((ran.status, ran.stdout), (0, expected), "{}", ran.stderr);
    let (script, expected) = asking(&[("a.invalid", CLOSED)]);
    let ran = server.ran(&["run", "-", "--rm", "--network", "disabled", "--", "bash", "-c", &script]);
    assert_eq!((ran.status, ran.stdout), (0, expected), "{}", ran.stderr);
    let ran = server.ran(&["run", "-", "--network", "enabled", "--", "true"]);
    assert!(ran.status == 125 && ran.stderr.contains("goes beyond what this server allows"), "{}", ran.stderr);
    let ran = server.ran(&["run", "-", "--network", "enabled", "--allow-host", "a.invalid", "--", "true"]);
    assert!(ran.status == 2 && ran.stderr.contains("--network restricted"), "{} {}", ran.status, ran.stderr);
}

#[test]
fn a_deployment_that_becomes_narrower_narrows_what_was_admitted_before() {
    needs_root!();
    let mut server = TestServer::start(&[("sessions.network", "enabled")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let body = json!({ "base": "shell", "name": "two", "stead_network": restricted(&["a.invalid", "b.invalid"]) });
    let two = text(&api.post("/v1/harnesses", &body).ok()["id"]).to_owned();

    // It dies with the task admitted and nothing done.
    server.terminate();
    server.set("STEAD_CRASH_AT", "turn.admitted");
    server.start_again();
    let (script, expected) = asking(&[("a.invalid", REFUSED), ("b.invalid", OPEN)]);
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "once")];
    let body =
        json!({ "input": script, "metadata": { "harness_id": harness, "stead_network": "enabled" } }).to_string();
    let _ = Api::of(&server).try_send("POST", "/v1/responses", &headers, body.as_bytes());
    server.wait_for_death();
    for (key, value) in
        [("STEAD_CRASH_AT", ""), ("sessions.network", "restricted"), ("sessions.hosts", "b.invalid,c.invalid")]
    {
        server.set(key, value);
    }
    server.start_again();
    let api = Api::of(&server);
    let response = api.send("POST", "/v1/responses", &headers, body.as_bytes()).ok();
    let response = api.ended(&response);
    assert_eq!((&response["status"], said(&response)), (&json!("completed"), expected), "{response:#}");
    assert_eq!(response["metadata"]["stead_network"], restricted(&["b.invalid", "c.invalid"]));

    // What the harness was configured with stays, and counts as far as it goes.
    let (script, expected) = asking(&[("a.invalid", REFUSED), ("b.invalid", OPEN), ("c.invalid", REFUSED)]);
    assert_eq!(said(&task(&api, &two, None, &Value::Null, &script)), expected);
    let kept = api.get(&format!("/v1/harnesses/{two}")).ok();
    assert_eq!(kept["stead_network"], restricted(&["a.invalid", "b.invalid"]));
}

#[test]
fn builds_reach_registries_and_what_their_project_names() {
    needs_root!();
    let mirror = format!("localhost:{}", mirror().port());
    let server = TestServer::start(&[
        ("builds.index_url", &format!("http://{mirror}/simple")),
        ("builds.registry_hosts", "localhost"),
        ("builds.registries", "named.invalid"),
        ("sessions.network", "disabled"),
    ]);
    eventually("that the server says what builds reach", || {
        let log = server.log();
        if log.contains("named.invalid") && log.contains(&mirror) { Ok(()) } else { Err(log) }
    });
    let api = Api::of(&server);
    let beneath = mirror.replace("localhost", "127.0.0.1");
    let script = |name: &str| {
        let urls = [&mirror, &beneath, "named.invalid", name, "10.0.0.1"].map(|host| format!("http://{host}/"));
        format!("{ASK} {}\n", urls.join(" "))
    };
    let answers = |name: &str, answers: [&str; 5]| {
        let hosts = [&mirror, &beneath, "named.invalid", name, "10.0.0.1"];
        let lines = hosts.iter().zip(answers).map(|(host, answer)| format!("http://{host}/ {answer}\n"));
        lines.collect::<Vec<_>>().concat()
    };
    let environment = api.environment("reach", &[("setup.sh", &script("other.invalid"))]);
    let choose = |network: &Value| {
        let body = json!({ "name": "reach", "stead_build_network": network }).to_string();
        let json = [("Content-Type", "application/json")];
        api.send("PUT", &format!("/v1/environments/{environment}"), &json, body.as_bytes()).ok()
    };
    let log = || text(&api.build(&environment)["log"]).to_owned();

    let usual = log();
    assert!(usual.contains("network: registries\n"), "{usual}");
    assert!(usual.contains(&answers("other.invalid", ["mirror", REFUSED, OPEN, REFUSED, REFUSED])), "{usual}");
    for why in [
        "setup.sh: `other.invalid` cannot be reached, as the build's network is `registries`; the project's build network",
        "; `10.0.0.1`, `127.0.0.1` cannot be reached",
    ] {
        assert!(usual.contains(why), "{usual}");
    }

    // Each choice makes a layer of its own, and the way back finds the first one.
    for (network, word, expected) in [
        (restricted(&["other.invalid"]), "restricted other.invalid", ["mirror", REFUSED, OPEN, OPEN, REFUSED]),
        (json!("enabled"), "enabled", ["mirror", REFUSED, OPEN, OPEN, REFUSED]),
        (json!("disabled"), "disabled", [CLOSED; 5]),
    ] {
        assert_eq!(choose(&network)["stead_build_network"], network);
        let log = log();
        assert!(log.contains(&format!("network: {word}\n")), "{log}");
        assert!(log.contains(&answers("other.invalid", expected)), "{word}: {log}");
    }
    choose(&Value::Null);
    assert!(log().contains("setup.sh: nothing to install"), "the layer of before is the one of before");

    // A step that fails for it says so in the error, too.
    api.put(&environment, "setup.sh", &format!("{} | grep -q mirror.nowhere", script("elsewhere.invalid").trim_end()));
    let record = api.ended_build(&environment, api.begin_build(&environment));
    let error = text(&record["error"]);
    assert!(
        error.starts_with("setup.sh failed with exit status 1") && error.contains("`elsewhere.invalid`"),
        "{error}"
    );
    assert_eq!(record["stead_failure"], json!({ "kind": "step", "refused_hosts": ["elsewhere.invalid"] }));
    choose(&restricted(&["other.invalid"]));
    let built = server.ran(&["project", "build", "reach"]);
    let hint =
        "`stead project set reach --build-host elsewhere.invalid --build-host other.invalid` lets its builds reach";
    assert!(built.status == 1 && built.stderr.contains(hint), "{}", built.stderr);

    let made = server.ran(&["--json", "project", "create", "Other", "--build-host", "x.invalid"]);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(made["stead_build_network"], restricted(&["x.invalid"]));
    let shown = server.ran(&["project", "set", "other", "--build-network", "registries"]);
    assert!(shown.stdout.contains("network      registries\n"), "{}{}", shown.stdout, shown.stderr);
    let shown = server.ran(&["--json", "project", "set", "other", "--build-network", "default"]);
    assert_eq!(serde_json::from_str::<Value>(&shown.stdout).unwrap()["stead_build_network"], Value::Null);
}

#[test]
fn an_operator_bounds_what_projects_choose_and_narrows_what_they_chose() {
    needs_root!();
    let mut server = TestServer::start(&[("sessions.network", "disabled")]);
    let (script, open) = asking(&[("other.invalid", OPEN)]);
    let environment = {
        let api = Api::of(&server);
        let environment = api.environment("bound", &[("setup.sh", &script)]);
        let body = json!({ "name": "bound", "stead_build_network": "enabled" }).to_string();
        let json = [("Content-Type", "application/json")];
        api.send("PUT", &format!("/v1/environments/{environment}"), &json, body.as_bytes()).ok();
        assert!(text(&api.build(&environment)["log"]).contains(&open));
        environment
    };
    server.terminate();
    server.set("builds.network_limit", "registries");
    server.start_again();
    let api = Api::of(&server);
    let (_, refused) = asking(&[("other.invalid", REFUSED)]);
    let log = text(&api.build(&environment)["log"]).to_owned();
    assert!(log.contains("network: registries\n") && log.contains(&refused), "{log}");
    for network in [json!("enabled"), restricted(&["other.invalid"])] {
        let made = api.post("/v1/environments", &json!({ "name": "more", "stead_build_network": network }));
        assert_eq!((made.status, &made.json()["error"]["param"]), (400, &json!("stead_build_network")));
    }
}
