//! A server that is an ordinary user: what sandboxes have shut is its own to open, and what it left is ended when it comes back.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::api::Api;
use crate::objects::{leaves_nothing, said, text, wait_for_file};
use crate::program::needs_root;
use crate::server::TestServer;

/// Leaves directories that nobody may enter, and files that nobody may read.
const SHUTTING: &str =
    "mkdir -p shut/inner && echo inside > shut/inner/file && echo hidden > hidden && chmod 6755 hidden
    mkfifo pipe; chmod 000 shut/inner/file shut/inner shut hidden\n";

#[test]
fn what_sandboxes_shut_is_kept_and_removed() {
    needs_root!();
    let mut server = TestServer::start_as_user(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let project = api.environment("shut", &[("setup.sh", SHUTTING), ("kept.txt", "kept")]);
    api.build(&project);
    let script =
        format!("cat /env/shut/shut/inner/file /env/shut/hidden /env/shut/kept.txt; id -u; {SHUTTING} chmod 000 .");
    let ran = api.ask(&json!({"input": script, "metadata": {"harness_id": harness, "environment": project}})).ok();
    assert_eq!(said(&ran), "inside\nhidden\nkept1000\n", "{ran:#}");

    // A task that runs while the server is killed, and a build that does.
    api.begin(&harness, &format!("{SHUTTING} touch was-here; sleep 300"));
    wait_for_file(&server, "was-here");
    let script = format!("{SHUTTING} touch builds-here; sleep 300");
    api.put(&project, "setup.sh", &script);
    let version = api.begin_build(&project);
    wait_until_built(&server);
    let environments = server.data().join("environments");
    let before = leased(&environments);
    server.kill();
    server.start_again();
    let api = Api::of(&server);
    assert_eq!(api.ended_build(&project, version)["status"], "failed");
    assert_eq!((before, leased(&environments)), (3, 2), "the build's slot is free, those of sessions are kept");
    let again = api
        .go_on(&ran, "chmod 700 . && cat shut/inner/file 2>/dev/null || { chmod -R u+rwX . && cat shut/inner/file; }");
    assert_eq!(said(&again), "inside\n", "{again:#}");

    api.delete_sessions();
    api.delete(&format!("/v1/environments/{}", text(&json!(project)))).ok();
    leaves_nothing(&server, &api);
    assert_eq!(leased(&environments), 0);
}

fn leased(environments: &Path) -> usize {
    fs::read_dir(environments.join("slots")).unwrap().count()
}

/// Waits until a build's script is at its end, which nothing but its process tells.
fn wait_until_built(server: &TestServer) {
    crate::objects::eventually("the sleep of a build and that of a task", || {
        let sleeping = crate::objects::processes(server).iter().filter(|line| line.contains("sleep 300")).count();
        if sleeping >= 2 { Ok(()) } else { Err(format!("{sleeping} sleep")) }
    });
}
