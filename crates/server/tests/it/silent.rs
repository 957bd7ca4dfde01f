//! A runtime that is there and says nothing keeps no task: whoever stops it on the host has ended what runs in it.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::api::Api;
use crate::objects::{commands, eventually, processes, said, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// Far more than any of the deadlines in between.
const AT_MOST: Duration = Duration::from_secs(100);

#[test]
fn a_runtime_that_is_silent_keeps_no_task() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let begin = |number: u32, seconds: Option<u32>| {
        let input = format!("echo begun; sleep 300.58{number}");
        let metadata = json!({"harness_id": harness});
        let mut body = json!({"input": input, "background": true, "metadata": metadata});
        if let Some(seconds) = seconds {
            body["timeout_seconds"] = json!(seconds);
        }
        api.ask(&body).ok()
    };
    let [limited, cancelled, lost] = [begin(1, Some(3)), begin(2, None), begin(3, None)];
    eventually("the tasks to run", || {
        match (1..=3).all(|it| {
            let word = format!("sleep 300.58{it}");
            commands(&server).iter().any(|line| line.contains(&word))
        }) {
            true => Ok(()),
            false => Err(format!("{:?}", processes(&server))),
        }
    });
    let runtimes: Vec<i32> = processes(&server)
        .into_iter()
        .filter(|line| line.contains(" --orphan-grace "))
        .filter_map(|line| line.split(['/', ' ']).nth(2)?.parse().ok())
        .collect();
    assert_eq!(runtimes.len(), 3, "{:?}", processes(&server));
    for pid in runtimes {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    }
    api.post(&format!("/v1/responses/{}/cancel", text(&cancelled["id"])), &json!({})).ok();
    let ended = |response: &serde_json::Value| {
        let path = format!("/v1/responses/{}", text(&response["id"]));
        let began = std::time::Instant::now();
        loop {
            let now = api.get(&path).ok();
            if now["status"] != "in_progress" {
                return now;
            }
            assert!(began.elapsed() < AT_MOST, "{now}\n{}", server.log());
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    assert_eq!(ended(&cancelled)["status"], "cancelled");
    assert_eq!(ended(&limited)["status"], "incomplete");
    let lost = ended(&lost);
    assert_eq!(lost["status"], "failed");
    assert!(lost.to_string().contains("the environment was lost while the task ran"), "{lost}");
    eventually("that nothing of them runs", || match processes(&server) {
        none if none.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });
    for response in [&limited, &cancelled, &lost] {
        assert_eq!(said(&api.go_on(response, "echo again")), "again\n");
    }
}
