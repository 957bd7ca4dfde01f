//! A server that cannot serve takes nobody's place, and one that ends on purpose says so.

use std::net::TcpListener;

use serde_json::json;

use crate::api::Api;
use crate::objects::{eventually, process, text};
use crate::observing::plain;
use crate::program::needs_root;
use crate::server::TestServer;

#[test]
fn who_cannot_serve_leaves_the_server_that_does_in_its_place() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "5s")]);
    let api = Api::of(&server);
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let before = server.pid();
    for (arguments, reason) in [
        (vec!["--listen", &address], "`server.listen`"),
        (vec!["--runtime", "/bin/true"], "/bin/true is no stead-runtime"),
        (vec!["--runtime", "/nonexistent"], "the runtime program /nonexistent cannot be read"),
    ] {
        let tried = server.tried(&[vec!["--take-over"], arguments].concat());
        assert_eq!(tried.status, 1, "{}", tried.stderr);
        assert!(tried.stderr.contains(reason), "{}", tried.stderr);
        assert!(api.get("/v1/sessions").status == 200 && server.pid() == before, "it serves on");
    }
    server.set("server.metrics_listen", &address);
    let tried = server.tried(&["--take-over"]);
    assert!(tried.stderr.contains("`server.metrics_listen`"), "{}", tried.stderr);
    assert_eq!(api.get("/v1/sessions").status, 200);

    // Where numbers are shown goes along: no moment at which the address is somebody else's.
    drop(busy);
    server.set("server.metrics_listen", &address);
    for _ in 0..3 {
        assert_eq!(server.take_over(), Some(0), "{}", server.log());
        assert_eq!(plain(&address, "/healthz").0, 200);
    }
}

#[test]
fn a_task_that_a_stop_has_ended_says_that_the_server_stopped() {
    needs_root!();
    let mut server = TestServer::start(&[("server.shutdown_grace", "5s")]);
    let api = Api::of(&server);
    let body = json!({"input": "echo begun; sleep 300", "background": true, "metadata": {"harness_id": api.harness()}});
    let begun = api.ask(&body).ok();
    // Not sooner: a task whose sandbox only starts is still queued, and a stop leaves it to the next server.
    eventually("the task to run", || process(&server, "sleep 300").map(|_| ()).ok_or("nothing runs".to_owned()));
    server.signal(rustix::process::Signal::INT);
    assert_eq!(server.wait_for_end().0, Some(0));
    assert!(!server.log().contains("lost its runtime"), "{}", server.log());
    server.start_again();
    let response = api.get(&format!("/v1/responses/{}", text(&begun["id"]))).ok();
    assert!(response.to_string().contains("the server stopped while the task ran"), "{response}");
}
