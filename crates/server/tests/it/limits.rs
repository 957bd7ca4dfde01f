//! Limits as those meet them who reach them: which one it was, how much there is of it and what changes it, in a task, in a build,
//! and on a server that is an ordinary user. And that nobody else meets them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{leaves_nothing, processes, said, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// A task that failed for a limit.
fn assert_limited(response: &Value, limit: &str, sentence: &str) {
    assert_eq!(response["status"], "failed", "{response:#}");
    assert_eq!(response["metadata"]["stead_failure"], json!({"kind": "limit", "limit": limit}), "{response:#}");
    assert_eq!(response["error"]["detail"]["stead_reason"], "limit");
    let message = text(&response["error"]["message"]);
    assert!(message.starts_with(&format!("the script {sentence}")), "{message}");
}

/// The limits that a task ran into without having been ended by them.
fn hit(response: &Value) -> Vec<String> {
    let listed = response["metadata"]["stead_limits_hit"].as_array().cloned().unwrap_or_default();
    listed.iter().map(|hit| text(&hit["limit"]).to_owned()).collect()
}

const HOG: &str = "python3 -c 'bytearray(900_000_000)'";

#[test]
fn a_task_says_which_limit_it_reached_and_the_next_one_has_nothing_to_do_with_it() {
    needs_root!();
    let server = TestServer::start(&[
        ("sessions.network", "disabled"),
        ("native.memory", "128MiB"),
        ("native.processes", "64"),
        ("native.disk", "16MiB"),
        ("native.disk_files", "2000"),
        ("native.open_files", "256"),
        ("sessions.output", "2MiB"),
    ]);
    let api = Api::of(&server);
    let harness = api.harness();
    let memory = "used more memory than the 128 MiB that this server gives a session (native.memory), and ";
    let crowd = "started more processes than the 64 that this server gives a session (native.processes), and ";
    let disk = "wrote more to disk than the 16 MiB that this server gives a session (native.disk), and ";
    let files = "made more files than the 2,000 that this server gives a session (native.disk_files), and was ended";
    let full = "filled /tmp, which lies in memory and holds 64 MiB (a part of native.memory), and ";
    let said_too_much = "said more than the 2 MiB of output that this server takes (sessions.output), and was ended";
    let cases = [
        ("memory", memory, format!("exec {HOG}")),
        ("memory", memory, format!("{HOG}; exit $?")),
        // Whoever asked the one that was ended says so in its own way.
        ("memory", memory, format!("{HOG} || exit 5")),
        ("processes", crowd, "exec sh -c 'while :; do sleep 60 & done'".to_owned()),
        (
            "processes",
            crowd,
            ":(){ :|:& };: 2>/dev/null; exec python3 -c 'import sys, time; time.sleep(1); sys.exit(3)'".to_owned(),
        ),
        (
            "processes",
            crowd,
            "python3 -c 'import subprocess; [subprocess.Popen([\"sleep\", \"60\"]) for _ in range(100)]'".to_owned(),
        ),
        ("disk", disk, "head -c 40000000 /dev/zero > big".to_owned()),
        ("disk", disk, "python3 -c 'open(\"big\", \"wb\").write(bytes(40_000_000))'".to_owned()),
        ("disk", disk, "for n in 1 2 3 4 5; do head -c 6000000 /dev/zero > $n; done; sleep 60".to_owned()),
        ("disk", files, "python3 -c 'for n in range(5000): open(f\"f{n}\", \"w\")'; sleep 60".to_owned()),
        ("disk", full, "for n in $(seq 20); do head -c 8000000 /dev/zero > /tmp/$n || exit 1; done".to_owned()),
        ("output", said_too_much, "yes & yes >&2; wait".to_owned()),
    ];
    for (limit, sentence, script) in cases {
        let ended = api.run(&harness, &script);
        assert_limited(&ended, limit, sentence);
        // Files that are too many are still there, and so is what the kernel counted.
        let next = api.go_on(&ended, "exit 3");
        assert_eq!(next["metadata"]["stead_failure"], json!({"kind": "harness"}), "{script}: {next:#}");
        assert_eq!(next["error"]["message"], "the script ended with exit status 3");
        assert_eq!(hit(&next), Vec::<String>::new());
        api.delete_sessions();
    }

    // Its own hand, whatever the status looks like.
    let own_bound = "ulimit -f 100; head -c 1M /dev/zero > small";
    for script in ["kill -KILL $$", "bash -c 'kill -KILL $$'; exit $?", "exit 153", "kill -XFSZ $$", own_bound] {
        let own = api.run(&harness, script);
        assert_eq!(own["metadata"]["stead_failure"]["kind"], "harness", "{script}: {own:#}");
        assert_eq!(hit(&own), Vec::<String>::new());
    }
    // What is survived is a success, and noted.
    let crowd = "python3 -c '
import subprocess
held = []
try:
    while True: held.append(subprocess.Popen([\"sleep\", \"60\"]))
except BlockingIOError: print(\"on\")
for one in held:
    one.kill()
    one.wait()'";
    let survived = api.run(&harness, &format!("{HOG}\n{crowd}"));
    assert_eq!((&survived["status"], said(&survived).ends_with("on\n")), (&json!("completed"), true), "{survived:#}");
    assert_eq!(survived["metadata"]["stead_failure"], Value::Null);
    assert_eq!(hit(&survived), ["memory", "processes"], "{survived:#}");
    let path = format!("/stead/v1/turns/{}", text(&survived["id"]).replacen("resp", "turn", 1));
    assert_eq!(api.get(&path).ok()["limits_hit"][0]["limit"], "memory");

    let ran = server.ran(&["run", "-", "--", "bash", "-c", &format!("{HOG}; exit 0")]);
    let told =
        "on the way the script used more memory than the 128 MiB that this server gives a session (native.memory)\n";
    assert!(ran.status == 0 && ran.stderr.contains(told), "{}", ran.stderr);

    // Open files are the program's own to count; the bound is there.
    let script = "python3 -c '
import os
held = []
try:
    while True: held.append(os.open(\"/dev/null\", os.O_RDONLY))
except OSError as error: print(error.strerror, len(held))'";
    let open = said(&api.run(&harness, script));
    let most: u32 = open.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(open.starts_with("Too many open files") && (240..256).contains(&most), "{open}");
    api.delete_sessions();
    leaves_nothing(&server, &api);
}

#[test]
fn a_task_has_nothing_to_do_with_what_an_earlier_one_left() {
    needs_root!();
    let server =
        TestServer::start(&[("sessions.network", "disabled"), ("native.memory", "256MiB"), ("native.disk", "32MiB")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let own = |ended: &Value| {
        assert_eq!(ended["metadata"]["stead_failure"], json!({"kind": "harness"}), "{ended:#}");
        assert_eq!(hit(ended), Vec::<String>::new());
    };
    let well = |ended: &Value, hits: &[&str]| {
        assert_eq!((&ended["status"], hit(ended)), (&json!("completed"), hits.iter().map(|&hit| hit.into()).collect()));
    };

    // On disk: told to whom it was, and there for the next one to remove in its own time.
    let disk = "wrote more to disk than the 32 MiB that this server gives a session (native.disk), and ";
    let over = api.run(&harness, "for n in $(seq 6); do head -c 10M /dev/zero > f$n; done");
    well(&over, &["disk"]);
    let next = api.go_on(&over, "exit 2");
    own(&next);
    let cleared = api.go_on(&next, "sleep 5; rm f*");
    well(&cleared, &[]);
    let cut_off = api.go_on(&cleared, "head -c 100M /dev/zero > x");
    assert_limited(&cut_off, "disk", &format!("{disk}ended with exit status 153"));
    let next = api.go_on(&cut_off, "exit 153");
    own(&next);
    assert_limited(&api.go_on(&next, "head -c 20M /dev/zero > y; exit 2"), "disk", disk);
    well(&api.go_on(&next, "sleep 5; rm x y"), &[]);

    // In memory: full once more is told once more, and a large file there is not on disk.
    let fill = "rm -f /tmp/*; for n in $(seq 20); do head -c 10M /dev/zero > /tmp/$n || exit 1; done";
    let full =
        "filled /tmp, which lies in memory and holds 128 MiB (a part of native.memory), and ended with exit status 1";
    let filled = api.run(&harness, fill);
    assert_limited(&filled, "disk", full);
    let next = api.go_on(&filled, "exit 3");
    own(&next);
    let again = api.go_on(&next, fill);
    assert_limited(&again, "disk", full);
    let large = api.go_on(&again, "rm /tmp/*; head -c 100M /dev/zero > /tmp/large; exit 4");
    let one_file =
        "made a file in /tmp larger than the 32 MiB that one file may hold (native.disk), and ended with exit status";
    assert_limited(&large, "disk", &format!("{one_file} 4"));
    let next = api.go_on(&large, "exit 153");
    own(&next);
    assert_limited(&api.go_on(&next, "head -c 100M /dev/zero > /tmp/other"), "disk", &format!("{one_file} 153"));
}

#[test]
fn a_build_of_a_workspace_without_room_says_so() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled"), ("native.workspace_slots", "1")]);
    let api = Api::of(&server);
    let id = api.environment("crowded", &[("setup.sh", "exit 0")]);
    let harness = api.harness();
    assert_eq!(api.run(&harness, "echo here")["status"], "completed");
    let version = api.begin_build(&id);
    let record = api.ended_build(&id, version);
    assert_eq!(record["stead_failure"], json!({"kind": "limit", "limit": "quota"}), "{record:#}");
    let error = text(&record["error"]);
    assert!(error.starts_with("setup.sh: the workspace holds as many environments and build steps"), "{error}");
    assert!(!server.log().contains("a build broke"), "{}", server.log());
    api.delete_sessions();
    let version = api.begin_build(&id);
    assert_eq!(api.ended_build(&id, version)["status"], "ready");
}

#[test]
fn time_ends_whatever_a_task_does() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled"), ("sessions.time_limit", "3s")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let late = |script: &str, seconds: Option<u64>| {
        let began = Instant::now();
        let body = json!({"input": script, "timeout_seconds": seconds, "metadata": {"harness_id": harness}});
        let ended = api.ask(&body).ok();
        assert!(began.elapsed() < Duration::from_secs(10), "{script} took {:?}", began.elapsed());
        assert_eq!(
            (&ended["status"], &ended["incomplete_details"]["reason"], &ended["error"]),
            (&json!("incomplete"), &json!("timeout"), &Value::Null),
            "{ended:#}"
        );
        let failure = &ended["metadata"]["stead_failure"];
        assert_eq!((&failure["kind"], &failure["limit"]), (&json!("limit"), &json!("time")), "{ended:#}");
        let left: Vec<String> = processes(&server).into_iter().filter(|line| line.contains("987.9")).collect();
        assert_eq!(left, Vec::<String>::new());
        text(&failure["message"]).to_owned()
    };
    let named = "the script took longer than the 1 second that it was given, and was ended";
    for script in [
        "trap '' TERM INT HUP; (setsid sleep 987.91 &); sleep 987.91",
        "(setsid sleep 987.92 &); kill -STOP $PPID; sleep 987.92",
        "kill -STOP $$",
        "python3 -c 'import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))'; sleep 987.94",
        ":(){ :|:& };: 2>/dev/null; exec sleep 987.95",
    ] {
        assert_eq!(late(script, Some(1)), named, "{script}");
    }
    // Whoever watches it is stopped again and again, which ends the task at once.
    let stopping =
        "export one=$PPID; setsid bash -c 'while :; do kill -STOP $one; kill -CONT $one; done # 987.93' & sleep 987.93";
    let began = Instant::now();
    let ended = api.run(&harness, stopping);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // Its time may have been over just before.
    let told = ended.to_string();
    assert!(told.contains("was ended from outside") || ended["status"] == "incomplete", "{ended:#}");
    let left: Vec<String> = processes(&server).into_iter().filter(|line| line.contains("987.93")).collect();
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(
        late("sleep 987.96", None),
        "the script took longer than the 3 seconds that this server gives a task (sessions.time_limit), and was ended"
    );
}

#[test]
fn files_in_memory_are_bounded_in_number() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let script = "cd /tmp; python3 -c 'import os
for n in range(300_000): os.mknod(str(n))'";
    let ended = api.run(&api.harness(), script);
    assert_limited(
        &ended,
        "disk",
        "filled /tmp, which lies in memory and holds 200,000 files, and ended with exit status 1",
    );
    // Full since then, which is not what the next one fails for.
    let next = api.go_on(&ended, "touch /tmp/one-more");
    assert_eq!(next["metadata"]["stead_failure"], json!({"kind": "harness"}), "{next:#}");
    assert!(said(&next).contains("No space left on device"), "{}", said(&next));
}

#[test]
fn a_build_says_how_much_there_was_and_notes_what_it_survived() {
    needs_root!();
    let server = TestServer::start(&[
        ("builds.memory", "128MiB"),
        ("builds.processes", "48"),
        ("builds.disk", "16MiB"),
        ("builds.disk_files", "1000"),
        ("builds.time_limit", "20s"),
        ("builds.output", "2MiB"),
    ]);
    let api = Api::of(&server);
    let id = api.environment("limits", &[]);
    let build = |script: &str| {
        api.put(&id, "setup.sh", script);
        let version = api.begin_build(&id);
        api.ended_build(&id, version)
    };
    let cases = [
        (
            "memory",
            "used more memory than the 128 MiB that this server gives a build step (builds.memory) (setup.sh failed",
            HOG,
        ),
        (
            "processes",
            "started more processes than the 48 that this server gives a build step (builds.processes) (setup.sh",
            "sh -c 'while :; do sleep 60 & done'",
        ),
        (
            "disk",
            "wrote more to disk than the 16 MiB that this server gives a build step (builds.disk)",
            "head -c 40000000 /dev/zero > big",
        ),
        (
            "disk",
            "made more files than the 1,000 that this server gives a build step (builds.disk_files)",
            "touch $(seq 1200)",
        ),
        ("output", "said more than the 2 MiB of output that this server takes (builds.output)", "yes"),
        (
            "disk",
            "filled /home/agent, which lies in memory and holds 64 MiB (setup.sh failed with exit status 1",
            "for n in $(seq 20); do head -c 8000000 /dev/zero > /home/agent/$n || exit 1; done",
        ),
        (
            "disk",
            "filled /tmp, which lies in memory and holds 64 MiB (a part of builds.memory) (setup.sh failed",
            "for n in $(seq 20); do head -c 8000000 /dev/zero > /tmp/$n || exit 1; done",
        ),
    ];
    for (limit, sentence, script) in cases {
        let record = build(script);
        assert_eq!(record["stead_failure"], json!({"kind": "limit", "limit": limit}), "{script}: {record:#}");
        let error = text(&record["error"]);
        assert!(error.starts_with(&format!("setup.sh {sentence}")), "{error}");
    }
    for script in ["kill -KILL $$", "exit 153"] {
        let record = build(script);
        assert_eq!(record["stead_failure"], json!({"kind": "step"}), "{record:#}");
    }
    let record = build(&format!("{HOG}; echo on"));
    assert_eq!(record["status"], "ready", "{record:#}");
    let noted = "setup.sh: it used more memory than the 128 MiB that this server gives a build step (builds.memory), and went on";
    assert!(text(&record["log"]).contains(noted), "{}", record["log"]);
    assert_eq!(processes(&server), Vec::<String>::new());
}

/// The most memory that a process has had, in bytes.
fn peak(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
}

#[test]
fn a_flood_of_output_costs_nobody_memory() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled"), ("sessions.output", "64MiB")]);
    let api = Api::of(&server);
    let harness = api.harness();
    api.run(&harness, "echo warm");
    let before = server.peak_memory();
    let ended = api.run(&harness, "yes standard output & yes standard error >&2; wait");
    let after = server.peak_memory();
    assert_limited(
        &ended,
        "output",
        "said more than the 64 MiB of output that this server takes (sessions.output), and was ended",
    );
    let (omitted, shown) = (ended["metadata"]["stead_omitted_bytes"].as_u64().unwrap(), said(&ended));
    assert!(shown.len() < (1 << 20) + 1024 && omitted > 62 << 20, "{} {omitted}", shown.len());
    assert!(shown.contains(&omitted.to_string()), "the omission is not stated");
    assert!(after < before + (40 << 20), "the server had {before} bytes and then {after}");
    let runtimes = processes(&server);
    for line in runtimes.iter().filter(|line| line.contains("stead-runtime")) {
        let pid = line.split(['/', ' ']).nth(2).unwrap();
        assert!(peak(pid) < 12 << 20, "{line}: {}", peak(pid));
    }
    assert!(!runtimes.is_empty());
    let output = api.get(&format!("/stead/v1/turns/{}", text(&ended["id"]).replacen("resp", "turn", 1))).ok();
    assert_eq!(output["output_bytes"], 64 << 20);
}

/// How long each of some requests took, sorted.
fn timed(times: usize, mut ask: impl FnMut()) -> Vec<Duration> {
    let mut took: Vec<Duration> = (0..times)
        .map(|_| {
            let began = Instant::now();
            ask();
            began.elapsed()
        })
        .collect();
    took.sort();
    took
}

#[test]
fn floods_of_one_session_leave_the_others_at_work() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled"), ("native.memory", "256MiB")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let victim = api.run(&harness, "echo kept > file");
    let measure = || {
        let read = timed(60, || assert_eq!(api.get("/v1/sessions?limit=5").status, 200));
        let ran = timed(12, || {
            let ended = api.go_on(&victim, "cat file");
            assert_eq!((&ended["status"], said(&ended).as_str()), (&json!("completed"), "kept\n"), "{ended:#}");
            assert_eq!(hit(&ended), Vec::<String>::new());
        });
        (read, ran)
    };
    let steady = api.begin(&harness, "for n in $(seq 3000); do sleep 0.1; [ -e stop ] && exit 0; done; exit 9");
    let (read, ran) = measure();
    for (name, flood) in [
        ("processor", "for n in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"),
        ("processes", "b() { b | b & }; while :; do b; sleep 0.1; done 2>/dev/null"),
        ("memory", "while :; do python3 -c 'b = []\nwhile True: b.append(bytearray(1 << 20))'; done"),
        ("output", "while :; do yes; done & yes >&2"),
    ] {
        let flooding = api.begin(&harness, flood);
        std::thread::sleep(Duration::from_millis(500));
        let (read_now, ran_now) = measure();
        let ratio =
            |now: &[Duration], then: &[Duration]| now[now.len() / 2].as_secs_f64() / then[then.len() / 2].as_secs_f64();
        println!(
            "flood of {name}: a read {:.2}, a task {:.2} of the median without",
            ratio(&read_now, &read),
            ratio(&ran_now, &ran)
        );
        api.send("POST", &format!("/v1/responses/{}/cancel", text(&flooding["id"])), &[], b"").ok();
        let status = text(&api.ended(&flooding)["status"]).to_owned();
        assert!(["cancelled", "failed"].contains(&status.as_str()), "{status}");
    }
    let still = api.get(&format!("/v1/responses/{}", text(&steady["id"]))).ok();
    assert_eq!(still["status"], "in_progress", "{still:#}");
    api.send("POST", &format!("/v1/responses/{}/cancel", text(&steady["id"])), &[], b"").ok();
    api.ended(&steady);
}

#[test]
fn an_ordinary_user_keeps_softer_bounds_and_says_them_alike() {
    needs_root!();
    let server = TestServer::start_as_user(&[
        ("sessions.network", "disabled"),
        ("native.memory", "256MiB"),
        ("native.disk", "16MiB"),
        ("sessions.output", "2MiB"),
    ]);
    let api = Api::of(&server);
    let harness = api.harness();
    // Each keeps within what one process may have, and together they do not.
    let together =
        "for n in 1 2 3 4; do python3 -c 'import time; b = bytes([1]) * 100_000_000; time.sleep(60)' & done; wait";
    for (limit, sentence, script) in [
        (
            "memory",
            "used more memory than the 256 MiB that this server gives a session (native.memory), and was ended",
            together,
        ),
        (
            "disk",
            "wrote more to disk than the 16 MiB that this server gives a session (native.disk), and ",
            "head -c 40000000 /dev/zero > big",
        ),
        ("output", "said more than the 2 MiB of output that this server takes (sessions.output), and was ended", "yes"),
    ] {
        let ended = api.run(&harness, script);
        assert_limited(&ended, limit, sentence);
        let next = api.go_on(&ended, "exit 3");
        assert_eq!(next["metadata"]["stead_failure"], json!({"kind": "harness"}), "{script}: {next:#}");
    }
    let over = api.run(&harness, "for n in 1 2 3; do head -c 10M /dev/zero > $n; done");
    assert_eq!(over["status"], "completed", "{over:#}");
    let next = api.go_on(&over, "exit 153");
    assert_eq!(next["metadata"]["stead_failure"], json!({"kind": "harness"}), "{next:#}");
    assert_eq!(api.go_on(&next, "sleep 5; rm 1 2 3")["status"], "completed");
    let large = api.go_on(&next, "head -c 40M /dev/zero > /tmp/large; exit 4");
    assert_limited(
        &large,
        "disk",
        "made a file in /tmp larger than the 16 MiB that one file may hold (native.disk), and ",
    );
    let body =
        json!({"input": "kill -STOP $PPID; sleep 60", "timeout_seconds": 1, "metadata": {"harness_id": harness}});
    assert_eq!(api.ask(&body).ok()["metadata"]["stead_failure"]["limit"], "time");
}
