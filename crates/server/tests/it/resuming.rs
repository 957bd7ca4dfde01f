//! Streams that break off and go on behind the last event that was seen.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::api::{Api, Framing};
use crate::objects::{eventually, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// An event and its id.
type Told = (String, Value);

/// The events of a stream, at most so many.
fn read(api: &Api, path: &str, headers: &[(&str, &str)], most: usize) -> Vec<Told> {
    let opened = api.open("GET", path, headers, b"", Framing::Length).unwrap();
    assert_eq!(opened.status, 200);
    let (mut told, mut id) = (Vec::new(), String::new());
    for line in BufReader::new(opened.body).lines() {
        let line = line.unwrap();
        if let Some(value) = line.strip_prefix("id: ") {
            value.clone_into(&mut id);
        }
        if let Some(value) = line.strip_prefix("data: ") {
            told.push((id.clone(), serde_json::from_str(value).unwrap()));
            if told.len() == most {
                break;
            }
        }
    }
    told
}

/// All that was said, and the numbers in order.
fn whole(told: &[Told]) -> (String, Vec<u64>) {
    let deltas = told.iter().filter_map(|(_, event)| event["delta"].as_str()).collect();
    (deltas, told.iter().map(|(_, event)| event["sequence_number"].as_u64().unwrap()).collect())
}

#[test]
fn a_stream_goes_on_behind_any_event_while_the_task_runs_after_it_and_after_a_restart() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let api = Api::of(&server);
    assert_eq!(api.get("/v1/uhp").ok()["capabilities"]["stead_stream_resumption"], true);
    let harness = api.harness();
    let begun = api.begin(&harness, "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.3; done");
    let path = format!("/v1/responses/{}", text(&begun["id"]));
    let events = [("Accept", "text/event-stream")];

    // Live: a few events, then the connection breaks, then a few more, until the end.
    let mut live: Vec<Told> = Vec::new();
    while live.last().is_none_or(|(_, event)| event["type"] != "response.completed") {
        let last = live.last().map_or(String::new(), |(id, _)| id.clone());
        let mut headers = events.to_vec();
        if !live.is_empty() {
            headers.push(("Last-Event-ID", last.as_str()));
        }
        live.extend(read(&api, &path, &headers, 3));
    }
    let (said, numbers) = whole(&live);
    assert_eq!(said, "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n");
    assert!(numbers.iter().copied().eq(0..live.len() as u64), "{numbers:?}");
    assert!(live.len() > 8, "the text came in one piece: {live:?}");
    // The last event has nothing behind it.
    assert!(read(&api, &path, &[events[0], ("Last-Event-ID", live.last().unwrap().0.as_str())], usize::MAX).is_empty());

    // The task has ended, and its text has become one piece: what was seen is still the beginning of what comes.
    let check = |api: &Api| {
        for cut in 1..live.len() {
            let seen = &live[..cut];
            let rest = read(api, &path, &[events[0], ("Last-Event-ID", seen[cut - 1].0.as_str())], usize::MAX);
            let all = [seen, &rest].concat();
            let (again, numbers) = whole(&all);
            assert_eq!((again.as_str(), numbers), (said.as_str(), (0..all.len() as u64).collect()));
            assert_eq!(all.last().unwrap().1["response"], live.last().unwrap().1["response"]);
        }
    };
    check(&api);
    let bare = |number: u32| {
        let path = format!("{path}?stream=true&starting_after={number}");
        api.open("GET", &path, &[], b"", Framing::Length).unwrap().finish().unwrap()
    };
    assert_eq!(bare(3).status, 200);
    let expired = bare(5);
    assert_eq!((expired.status, &expired.json()["error"]["code"]), (410, &json!("stead_event_expired")));
    for wrong in ["x", "-1", "1.2"] {
        let refused = api.send("GET", &path, &[events[0], ("Last-Event-ID", wrong)], b"");
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("Last-Event-ID")), "{wrong}");
    }
    server.terminate();
    server.start_again();
    check(&Api::of(&server));

    // A POST that is repeated goes on as well.
    let api = Api::of(&server);
    let task = json!({"input": "echo once", "stream": true, "metadata": {"harness_id": harness}}).to_string();
    let post = |last: &[(&str, &str)]| {
        let headers = [&[("Idempotency-Key", "one"), ("Content-Type", "application/json")][..], last].concat();
        api.send("POST", "/v1/responses", &headers, task.as_bytes()).text()
    };
    let first = eventually("an answer", || Ok(post(&[])));
    let id = first.lines().filter_map(|line| line.strip_prefix("id: ")).nth(1).unwrap().to_owned();
    let again = post(&[("Last-Event-ID", &id)]);
    assert!(!again.contains("response.created") && again.contains("response.completed"), "{again}");
    assert_eq!(api.get("/v1/sessions").ok()["sessions"].as_array().unwrap().len(), 2);
    api.delete_sessions();
}
