//! What a task leaves behind, when it does not want it to be collected as it is: whatever lies in the working directory and
//! whoever still changes it, nothing from outside of it is ever handed out, and nobody waits or fails.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{processes, said, text};
use crate::program::needs_root;
use crate::server::TestServer;

const CHAOS: &str = include_str!("artifacts/chaos.py");
/// What lies beside the working directory, as the layer has it.
const SECRET: &str = "only in the version\n";
/// The longest that a round may take. The script itself takes a moment.
const PATIENCE: Duration = Duration::from_secs(45);

fn script(seed: u32) -> String {
    format!("cat > /tmp/chaos.py <<'END OF FILE'\nSEED = {seed}\n{CHAOS}\nEND OF FILE\nexec python3 /tmp/chaos.py")
}

/// Every file of a session is one that its tasks wrote.
fn only_own(api: &Api, session: &str, seed: u32) -> usize {
    let mut cursor = String::new();
    let mut seen = 0;
    loop {
        let listed = api.get(&format!("/v1/sessions/{session}/files{cursor}")).ok();
        let files = listed["files"].as_array().unwrap();
        for file in files {
            let path = format!("/v1/containers/{}/files/{}/content", text(&file["container_id"]), text(&file["id"]));
            let content = api.get(&path);
            assert_eq!(content.status, 200, "seed {seed}: {file}: {}", content.text());
            let own = content.body.iter().all(|byte| b"own:x\0".contains(byte));
            let start = String::from_utf8_lossy(&content.body[..content.body.len().min(200)]).into_owned();
            assert!(own, "seed {seed}: {file}: {start}");
            seen += 1;
        }
        let Some(last) = files.last().filter(|_| listed["has_more"] == true) else { return seen };
        cursor = format!("?after={}", text(&last["id"]));
    }
}

fn rounds(server: &TestServer, seeds: impl Iterator<Item = u32>) {
    let api = Api::of(server);
    let harness = api.harness();
    let project = api.environment("chaos", &[("secret.txt", SECRET)]);
    api.build(&project);
    let mut before: Option<Value> = None;
    let mut collected = 0;
    for seed in seeds {
        let began = Instant::now();
        // Some rounds find what others left.
        let answer = match before.take().filter(|_| seed % 3 != 0) {
            Some(before) => api.ask(&json!({"input": script(seed), "previous_response_id": before["id"]})),
            None => {
                let metadata = json!({"harness_id": harness, "environment": project});
                api.ask(&json!({"input": script(seed), "metadata": metadata}))
            }
        };
        let took = began.elapsed();
        assert!(
            answer.status == 200 && took < PATIENCE,
            "seed {seed}: {} after {took:?}: {}",
            answer.status,
            answer.text()
        );
        let response = answer.json();
        // More than a session may have ends it; that is an answer like another.
        let ended = response["status"] == "completed" && said(&response).ends_with("done\n");
        let limited = response["error"]["detail"]["stead_reason"] == "limit";
        assert!(ended || limited, "seed {seed}: {response:#}");
        let survivors: Vec<String> = processes(server).into_iter().filter(|line| line.contains("chaos.py")).collect();
        assert!(survivors.is_empty(), "seed {seed}: {survivors:#?}");
        let session = text(&response["metadata"]["session_id"]).to_owned();
        collected += only_own(&api, &session, seed);
        let archive = api.get(&format!("/v1/sessions/{session}/files/archive"));
        assert_eq!(archive.status, 200, "seed {seed}: {}", archive.text());
        for word in [SECRET.as_bytes(), b"from outside", b"root:x:"] {
            assert!(!archive.body.windows(word.len()).any(|window| window == word), "seed {seed}: the archive");
        }
        before = Some(response);
    }
    // Chaos that leaves nothing tries nothing.
    assert!(collected > 20, "{collected}");
    api.delete_sessions();
}

#[test]
fn chaos_in_a_working_directory_hands_out_nothing_of_what_lies_outside() {
    needs_root!();
    rounds(&TestServer::start(&[]), 0..14);
}

#[test]
fn chaos_on_a_server_of_a_user_hands_out_nothing_of_what_lies_outside() {
    needs_root!();
    rounds(&TestServer::start_as_user(&[]), 100..106);
}

#[test]
fn what_is_handed_in_goes_through_nothing_that_lies_in_its_place() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let look = "cat in.txt; stat -c %F in.txt; cat /tmp/outside; ls -A | grep -c stead-; true";
    let content = json!([{"role": "user", "content": [
        {"type": "input_text", "text": look},
        {"type": "input_file", "filename": "in.txt", "file_data": "data:text/plain;base64,aGFuZGVkIGluCg=="},
    ]}]);
    let replaced = "handed in\nregular file\noutside\n0\n";
    for in_the_way in [
        "ln -s /tmp/outside in.txt",
        "ln -s /etc in.txt",
        "ln -s in.txt in.txt",
        "mkfifo in.txt",
        "ln /workspace/other in.txt",
        "echo old > in.txt; chmod 0 in.txt",
        "python3 -c 'import os; os.mknod(\"in.txt\", 0o20666, 0)'",
        "ln -s /tmp/outside in.txt; chmod 0 .",
    ] {
        let script = format!("echo outside > /tmp/outside; echo other > other; {in_the_way}");
        let before = api.run(&harness, &script);
        assert_eq!(before["status"], "completed", "{in_the_way}: {before:#}");
        let began = Instant::now();
        let after = api.ask(&json!({"input": content, "previous_response_id": before["id"]})).ok();
        assert_eq!((after["status"].as_str(), said(&after).as_str()), (Some("completed"), replaced), "{in_the_way}");
        assert!(began.elapsed() < PATIENCE, "{in_the_way}");
    }
    // No file takes the place of a directory; that is said, and the session goes on.
    let before = api.run(&harness, "mkdir -p in.txt/d");
    let after = api.ask(&json!({"input": content, "previous_response_id": before["id"]}));
    assert!(after.status < 500 && after.json()["status"] != "completed", "{}", after.text());
    let next = api.go_on(&before, "rmdir in.txt/d in.txt && echo gone");
    assert_eq!(said(&next), "gone\n", "{next:#}");
}
