//! What one workspace may have of the machine, and what that means to it and to another.

use serde_json::json;

use crate::api::Api;
use crate::objects::{eventually, said, text};
use crate::program::needs_root;
use crate::server::TestServer;

#[test]
fn a_workspace_that_has_its_share_waits_and_no_other_waits_for_it() {
    needs_root!();
    let server = TestServer::start(&[("native.workspace_slots", "1")]);
    let (ours, theirs) = (Api::of(&server), Api::of_tenant(&server, "other"));
    let [our_harness, their_harness] = [&ours, &theirs].map(Api::harness);
    let task = |harness: &str, script: &str| json!({"input": script, "metadata": {"harness_id": harness}});
    let first = ours.ask(&task(&our_harness, "echo first")).ok();
    assert_eq!(said(&first), "first\n");

    let mut second = task(&our_harness, "echo second");
    second["background"] = json!(true);
    let second = ours.ask(&second).ok();
    let refused = || server.log().matches("the workspace holds as many environments and build steps").count();
    eventually("several refusals", || if refused() > 2 { Ok(()) } else { Err(server.log()) });
    let path = format!("/v1/responses/{}", text(&second["id"]));
    let status = |wanted: &str| {
        let found = ours.get(&path).ok();
        if found["status"] == wanted { Ok(found) } else { Err(found.to_string()) }
    };
    assert!(status("queued").is_ok() || status("in_progress").is_ok(), "{:?}", status(""));
    // Meanwhile, and again.
    for word in ["one", "two"] {
        let previous = theirs.ask(&task(&their_harness, &format!("echo {word}"))).ok();
        assert_eq!(said(&previous), format!("{word}\n"));
        let session = text(&previous["metadata"]["session_id"]).to_owned();
        theirs.delete(&format!("/v1/sessions/{session}")).ok();
    }

    // A build is told, and does not wait.
    let project = ours.environment("built", &[("setup.sh", "echo x > made")]);
    let version = ours.begin_build(&project);
    let record = ours.ended_build(&project, version);
    assert_eq!(record["status"], "failed", "{record:#}");
    assert!(text(&record["log"]).contains("sessions that are deleted make room"), "{record:#}");

    let session = text(&first["metadata"]["session_id"]);
    ours.delete(&format!("/v1/sessions/{session}")).ok();
    let second = eventually("the second task has run", || status("completed"));
    assert_eq!(said(&second), "second\n");
}
