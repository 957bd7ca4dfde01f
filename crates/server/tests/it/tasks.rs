//! Tasks as clients meet them.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_face_stead::wire::{Exit, OutputLine, Stream};

use crate::api::{Answer, Api, Framing};
use crate::objects::{eventually, leaves_nothing, processes, said, text, wait_for_file};
use crate::program::needs_root;
use crate::server::TestServer;

fn start() -> (TestServer, Api, String) {
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let harness = api.harness();
    (server, api, harness)
}

#[test]
fn scripts_from_the_field_end_as_they_should() {
    needs_root!();
    let (server, api, harness) = start();
    let run = |script: &str| {
        let began = Instant::now();
        let response = api.run(&harness, script);
        assert!(began.elapsed() < Duration::from_secs(5), "{script} took {:?}", began.elapsed());
        assert_eq!((&response["status"], &response["metadata"]["stead_exit_status"]), (&json!("completed"), &json!(0)));
        response
    };
    // The end of a command is not waited for where a child holds its output.
    assert_eq!(said(&run(include_str!("../../../../tests/field-cases/C060-bg.sh"))), "foreground-done\n");
    assert_eq!(said(&run(include_str!("../../../../tests/field-cases/C061-stdin.sh"))), "after-cat\neof\n0\n");
    let split = run(include_str!("../../../../tests/field-cases/C063-split.sh"));
    assert_eq!(said(&split), format!("€😀\n{}\n", "─".repeat(100_000)));
    assert_eq!(split["metadata"]["stead_replaced_bytes"], Value::Null);
    let binary = run(include_str!("../../../../tests/field-cases/C063-binary.sh"));
    assert!(said(&binary).contains('\u{fffd}'));
    assert_eq!(binary["metadata"]["stead_replaced_bytes"], 128 * 64, "{}", binary["metadata"]);

    for _ in 0..3 {
        let body = json!({
            "input": include_str!("../../../../tests/field-cases/C062-timeout.sh"), "timeout_seconds": 2, "metadata": {"harness_id": harness},
        });
        let began = Instant::now();
        let late = api.ask(&body).ok();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!((&late["status"], &late["incomplete_details"]["reason"]), (&json!("incomplete"), &json!("timeout")));
        assert_eq!((said(&late).as_str(), &late["error"]), ("before\n", &Value::Null));
        let left: Vec<String> = processes(&server).into_iter().filter(|line| line.contains("987.62")).collect();
        assert_eq!(left, Vec::<String>::new());
        assert_eq!(said(&api.go_on(&late, "echo on")), "on\n");
    }
}

#[test]
fn a_session_runs_one_task_and_a_cancel_keeps_what_was_said() {
    needs_root!();
    let (server, api, harness) = start();
    let begun = api.begin(&harness, "echo kept > file; echo said; touch running; sleep 300; echo never");
    assert_eq!((&begun["status"], &begun["error"]), (&json!("in_progress"), &Value::Null));
    wait_for_file(&server, "running");
    let busy = api.ask(&json!({"input": "true", "previous_response_id": begun["id"]}));
    let error = busy.json();
    assert_eq!((busy.status, &error["error"]["code"]), (409, &json!("session_busy")), "{error}");
    assert_eq!(said(&api.run(&harness, "echo another session")), "another session\n");
    let path = format!("/v1/responses/{}/cancel", text(&begun["id"]));
    let asked = Instant::now();
    assert_eq!(api.send("POST", &path, &[], b"").status, 200);
    assert!(asked.elapsed() < Duration::from_secs(1), "a cancel took {:?}", asked.elapsed());
    let cancelled = api.ended(&begun);
    assert_eq!((&cancelled["status"], &cancelled["error"]), (&json!("cancelled"), &Value::Null));
    assert_eq!(said(&cancelled), "said\n");
    assert_eq!(api.send("POST", &path, &[], b"").ok(), cancelled);
    assert_eq!(processes(&server).iter().filter(|line| line.contains("sleep")).count(), 0);
    let next = api.go_on(&cancelled, "cat file; exit 4");
    assert_eq!((said(&next).as_str(), &next["status"]), ("kept\n", &json!("failed")));
    assert_eq!((&next["error"]["code"], &next["metadata"]["stead_exit_status"]), (&json!("harness_error"), &json!(4)));
    assert_eq!(
        (&next["previous_response_id"], &next["metadata"]["session_id"]),
        (&begun["id"], &begun["metadata"]["session_id"])
    );

    // A deleted session takes everything along, also while something runs in it.
    let session = text(&begun["metadata"]["session_id"]).to_owned();
    let running = api.ask(&json!({"input": "echo x > y; touch again; sleep 300", "background": true, "previous_response_id": next["id"]})).ok();
    wait_for_file(&server, "again");
    let files = api.get(&format!("/v1/sessions/{session}/files")).ok();
    let file = text(&files["files"][0]["id"]).to_owned();
    let container = text(&files["files"][0]["container_id"]).to_owned();
    let content = format!("/v1/containers/{container}/files/{file}/content");
    assert_eq!(api.get(&content).status, 200);
    assert!((200..300).contains(&api.delete(&format!("/v1/sessions/{session}")).status));
    for path in ["", "/turns", "/files", "/files/archive"] {
        assert_eq!(api.get(&format!("/v1/sessions/{session}{path}")).status, 404, "{path}");
    }
    assert_eq!(api.get(&content).status, 404);
    for response in [&begun, &running] {
        assert_eq!(api.get(&format!("/v1/responses/{}", text(&response["id"]))).status, 404);
    }
    leaves_nothing(&server, &api);
    eventually("that no log is left", || {
        let left = crate::objects::names(&server, "logs");
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

#[test]
fn one_key_runs_one_task() {
    needs_root!();
    let (_server, api, harness) = start();
    let body = json!({"input": "echo mark >> marks; sleep 0.5; wc -l < marks", "metadata": {"harness_id": harness}});
    let ask = |key: &str| -> Answer {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
        api.send("POST", "/v1/responses", &headers, body.to_string().as_bytes())
    };
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| ask("the same").ok())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for answer in &answers {
        assert_eq!(
            (&answer["id"], said(answer).as_str(), &answer["status"]),
            (&answers[0]["id"], "1\n", &json!("completed"))
        );
    }
    assert_eq!(ask("the same").ok(), answers[0]);
    assert_ne!(ask("another").ok()["id"], answers[0]["id"]);
    assert_eq!(api.get("/v1/sessions").ok()["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(said(&api.go_on(&answers[0], "wc -l < marks")), "1\n");
    assert_eq!(ask(&"k".repeat(256)).status, 400);
}

#[test]
fn long_output_keeps_head_and_tail_and_excess_files_are_named() {
    needs_root!();
    let (_server, api, harness) = start();
    let long = api.run(&harness, "echo head; seq 1 600000; echo tail");
    let text_of = said(&long);
    let omitted = long["metadata"]["stead_omitted_bytes"].as_u64().unwrap();
    assert!(text_of.starts_with("head\n1\n2\n") && text_of.ends_with("\n600000\ntail\n"), "{}", text_of.len());
    assert!(text_of.len() < (1 << 20) + 1024, "{}", text_of.len());
    assert!(text_of.contains(&omitted.to_string()), "the omission of {omitted} bytes is not stated");
    let spoken: u64 =
        "head\ntail\n".len() as u64 + (1..=600_000_u64).map(|n| n.to_string().len() as u64 + 1).sum::<u64>();
    assert!(spoken - omitted <= 1 << 20, "{spoken} {omitted}");

    let many = api.run(
        &harness,
        "truncate -s 201M large.bin; mkdir m; cd m; for i in $(seq 1 4100); do echo $i > $i; done; printf x > $'\\xff'",
    );
    let excess = many["metadata"]["stead_artifacts_excess"].as_array().unwrap();
    let reason =
        |path: &str| excess.iter().find(|file| file["path"] == path).map(|file| text(&file["reason"]).to_owned());
    assert!(reason("large.bin").unwrap().contains("larger than"), "{excess:?}");
    assert_eq!(
        excess.iter().filter(|file| text(&file["reason"]).contains("more than 4096 files")).count(),
        4,
        "{excess:?}"
    );
    assert!(excess.iter().any(|file| text(&file["reason"]).contains("UTF-8")), "{excess:?}");
    let session = text(&many["metadata"]["session_id"]);
    let files = api.get(&format!("/v1/sessions/{session}/files")).ok();
    assert_eq!(files["files"].as_array().unwrap().len(), 4096);
}

#[test]
fn raw_output_is_the_same_in_lines_and_in_frames_from_wherever_it_is_asked_for() {
    needs_root!();
    let (_server, api, harness) = start();
    let run = api.run(&harness, "printf a; printf '\\377\\n' >&2; head -c 300000 /dev/zero; exit 3");
    let path = format!("/stead/v1/turns/{}/output", text(&run["id"]));
    let frames = |from: u64| {
        let accept = [("Accept", "application/vnd.stead.output")];
        let answer = api.send("GET", &format!("{path}?from={from}"), &accept, b"");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/vnd.stead.output")));
        assert_eq!(answer.header("vary"), Some("accept"));
        let (mut rest, mut offset, mut read) = (answer.body.as_slice(), from, Vec::new());
        while let [kind, a, b, c, d, bytes @ ..] = rest {
            let data;
            (data, rest) = bytes.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            offset += 5 + data.len() as u64;
            let chunk = |stream| OutputLine::Chunk { offset, stream, data: data.to_vec() };
            read.push(match kind {
                1 => chunk(Stream::Stdout),
                2 => chunk(Stream::Stderr),
                3 => serde_json::from_slice(data).unwrap(),
                other => panic!("a frame of the kind {other}"),
            });
        }
        read
    };
    let lines = |from: u64| -> Vec<OutputLine> {
        let answer = api.get(&format!("{path}?from={from}"));
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
        answer.body.split_inclusive(|&byte| byte == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect()
    };
    let whole = lines(0);
    let (end, chunks) = whole.split_last().unwrap();
    assert!(matches!(end, OutputLine::End { state, exit: Some(Exit::Code(3)), .. } if state == "failed"), "{end:?}");
    assert_eq!(frames(0), whole);
    let (mut from, mut said) = (0, 0);
    for (index, chunk) in chunks.iter().enumerate() {
        let OutputLine::Chunk { offset, data, .. } = chunk else { panic!("{chunk:?}") };
        (from, said) = (*offset, said + data.len());
        assert_eq!(frames(from), whole[index + 1..]);
        assert_eq!(lines(from), whole[index + 1..]);
    }
    assert_eq!((said, from > 300_003), (300_003, true));
}

#[test]
fn files_go_in_and_come_out() {
    needs_root!();
    let (_server, api, harness) = start();
    let bytes: Vec<u8> = (0..=255).cycle().take(1_500_000).collect();
    let mut upload = b"--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"up load.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n".to_vec();
    upload.extend_from_slice(&bytes);
    upload.extend_from_slice(b"\r\n--b--\r\n");
    let uploaded = api.send("POST", "/v1/files", &[("Content-Type", "multipart/form-data; boundary=b")], &upload).ok();
    assert_eq!((&uploaded["object"], &uploaded["bytes"]), (&json!("file"), &json!(bytes.len())));
    let content = json!([
        {"type": "input_text", "text": "cat inline.txt; sha256sum < 'up load.bin'; mkdir out; tr a-z A-Z < inline.txt > out/INLINE.txt; cp 'up load.bin' out/copy.bin; printf '<svg/>' > x.svg"},
        {"type": "input_file", "file_id": uploaded["id"]},
        {"type": "input_file", "filename": "inline.txt", "file_data": "data:text/plain;base64,aW5saW5lIHRleHQK"},
    ]);
    let body = json!({"input": [{"role": "user", "content": content}], "metadata": {"harness_id": harness}});
    let response = api.ask(&body).ok();
    let digest = std::process::Command::new("python3")
        .args(["-c", "import hashlib; print(hashlib.sha256(bytes(i % 256 for i in range(1500000))).hexdigest())"])
        .output()
        .unwrap();
    assert_eq!(said(&response), format!("inline text\n{}  -\n", String::from_utf8(digest.stdout).unwrap().trim()));
    let session = text(&response["metadata"]["session_id"]);
    let listed = api.get(&format!("/v1/sessions/{session}/files")).ok();
    let mut names: Vec<&str> = listed["files"].as_array().unwrap().iter().map(|file| text(&file["filename"])).collect();
    names.sort_unstable();
    // What came in and was not changed is no artifact.
    assert_eq!(names, ["out/INLINE.txt", "out/copy.bin", "x.svg"]);
    for file in listed["files"].as_array().unwrap() {
        let path = format!("/v1/containers/{}/files/{}/content", text(&file["container_id"]), text(&file["id"]));
        let answer = api.get(&path);
        assert_eq!((answer.status, answer.header("x-content-type-options")), (200, Some("nosniff")));
        assert_eq!(answer.body.len() as u64, file["bytes"].as_u64().unwrap());
        if file["filename"] == "out/copy.bin" {
            assert!(answer.body == bytes);
        }
    }
    let cited = response["output"][0]["content"][0]["annotations"].as_array().unwrap();
    assert_eq!(cited.len(), 3, "{cited:?}");
    assert_eq!(cited[0]["type"], "container_file_citation");
    for probe in ["../../etc/passwd", "..%2f..%2fetc%2fpasswd"] {
        let path = format!("/v1/containers/{}/files/{probe}/content", text(&response["metadata"]["container_id"]));
        assert!([400, 403, 404].contains(&api.get(&path).status), "{probe}");
    }
    let archive = api.get(&format!("/v1/sessions/{session}/files/archive"));
    assert_eq!((archive.status, archive.header("content-type")), (200, Some("application/zip")));
    let place = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(place.path(), &archive.body).unwrap();
    let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None\n\
        for i in sorted(z.infolist(), key=lambda i: i.filename): print(i.filename, i.file_size, z.read(i)[:12])";
    let read = std::process::Command::new("python3").args(["-c", script]).arg(place.path()).output().unwrap();
    let expected = "out/INLINE.txt 12 b'INLINE TEXT\\n'\nout/copy.bin 1500000 b'\\x00\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x08\\t\\n\\x0b'\nx.svg 6 b'<svg/>'\n";
    assert_eq!(String::from_utf8(read.stdout).unwrap(), expected);
}

#[test]
fn a_stream_tells_everything_in_order_and_its_reader_may_leave() {
    needs_root!();
    let (server, api, harness) = start();
    let body = |script: &str| json!({"input": script, "stream": true, "metadata": {"harness_id": harness}}).to_string();
    let headers = [("Content-Type", "application/json")];
    let script = "for i in 1 2 3 4 5; do echo line $i ünï; sleep 0.12; done; echo file > f.txt; printf '\\342\\202'";
    let opened = api.open("POST", "/v1/responses", &headers, body(script).as_bytes(), Framing::Length).unwrap();
    assert_eq!(opened.status, 200);
    let kind = opened.headers.iter().find(|(name, _)| name == "content-type").unwrap();
    assert!(kind.1.starts_with("text/event-stream"), "{kind:?}");
    let began = Instant::now();
    let mut first_delta = None;
    let mut events: Vec<Value> = Vec::new();
    for line in BufReader::new(opened.body).lines() {
        let line = line.unwrap();
        let Some(data) = line.strip_prefix("data:") else { continue };
        let event: Value = serde_json::from_str(data).unwrap();
        if event["type"] == "response.output_text.delta" {
            first_delta = first_delta.or(Some(began.elapsed()));
        }
        events.push(event);
    }
    assert!(began.elapsed() > first_delta.unwrap() + Duration::from_millis(300), "the text came all at once");
    let kinds: Vec<&str> = events.iter().map(|event| text(&event["type"])).collect();
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], index, "{kinds:?}");
    }
    assert_eq!((kinds.first(), kinds.last()), (Some(&"response.created"), Some(&"response.completed")));
    let position = |kind: &str| kinds.iter().position(|known| *known == kind).unwrap();
    let order = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert!(order.map(position).is_sorted(), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| kind.starts_with("response.completed")).count(), 1);
    let deltas: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| text(&event["delta"]))
        .collect();
    let done = &events[position("response.output_text.done")];
    let last = &events.last().unwrap()["response"];
    assert_eq!((deltas.as_str(), text(&done["text"])), (said(last).as_str(), said(last).as_str()));
    assert!(
        deltas.ends_with('\u{fffd}') && kinds.iter().filter(|kind| kind.ends_with("text.delta")).count() >= 3,
        "{deltas}"
    );
    assert_eq!(&api.get(&format!("/v1/responses/{}", text(&last["id"]))).ok(), last);
    assert_eq!(said(&api.run(&harness, script)), deltas);

    // A reader that leaves ends nothing.
    let opened = api
        .open(
            "POST",
            "/v1/responses",
            &headers,
            body("echo a; sleep 1; echo b | tee after").as_bytes(),
            Framing::Length,
        )
        .unwrap();
    let mut lines = BufReader::new(opened.body).lines();
    let created =
        lines.find_map(|line| serde_json::from_str::<Value>(line.unwrap().strip_prefix("data:")?).ok()).unwrap();
    drop(lines);
    wait_for_file(&server, "after");
    let response = api.ended(&created["response"]);
    assert_eq!((said(&response).as_str(), &response["status"]), ("a\nb\n", &json!("completed")));
    // The same without a stream: the task is asked for, and the caller hangs up.
    let waiting = std::net::TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
    let body =
        json!({"input": "sleep 0.5; touch left-alone; echo done", "metadata": {"harness_id": harness}}).to_string();
    let request = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        api.key(),
        body.len()
    );
    std::io::Write::write_all(&mut &waiting, request.as_bytes()).unwrap();
    eventually("a task", || {
        let sessions = api.get("/v1/sessions").ok();
        if sessions["sessions"].as_array().unwrap().len() == 4 { Ok(()) } else { Err(sessions.to_string()) }
    });
    drop(waiting);
    wait_for_file(&server, "left-alone");
}

#[test]
fn a_task_that_takes_too_much_memory_is_told_so() {
    needs_root!();
    let server = TestServer::start(&[("native.memory", "96MiB")]);
    let api = Api::of(&server);
    let harness = api.harness();
    for script in ["exec python3 -c 'bytearray(900_000_000)'", "python3 -c 'bytearray(900_000_000)'; exit $?"] {
        let ended = api.run(&harness, script);
        let error = &ended["error"];
        assert_eq!(
            (&ended["status"], &error["detail"]["stead_reason"]),
            (&json!("failed"), &json!("limit")),
            "{ended}"
        );
        assert!(text(&error["message"]).contains("memory"), "{ended}");
    }
    let other = api.run(&harness, "kill -KILL $$");
    assert_eq!(other["error"]["detail"]["stead_reason"], "harness", "{other}");
}

#[test]
fn what_a_harness_says_in_vain_is_named_on_each_response() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let made = api.post(
        "/v1/harnesses",
        &json!({"name": "n", "base": "shell", "system_prompt": "be kind", "disabled_tools": ["x"], "max_step": 3}),
    );
    let ended = api.run(text(&made.ok()["id"]), "true");
    let metadata = &ended["metadata"];
    assert_eq!(metadata["stead_harness_ignored"], json!(["system_prompt", "disabled_tools", "max_step"]), "{ended}");
    assert_eq!(metadata["ignored_fields"], json!(null), "{ended}");
    let plain = api.run(&api.harness(), "true");
    assert_eq!(plain["metadata"]["stead_harness_ignored"], json!(null), "{plain}");
}
