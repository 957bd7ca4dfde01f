//! The protocol's own client, as it is published, against the real server.

use std::process::Command;

use crate::api::Api;
use crate::program::needs_root;
use crate::server::TestServer;
use crate::toolchain;

#[test]
fn the_published_client_does_the_whole_of_its_job() {
    needs_root!();
    let Some(python) = toolchain::python() else {
        return toolchain::skip("no interpreter with the protocol's client; ./test makes one");
    };
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    api.harness();
    let ran = Command::new(&python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/uhp_client.py"))
        .args([server.url(), api.key()])
        .output()
        .unwrap();
    let (said, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.ends_with("all done\n"), "{said}\n{errors}");

    // Its command line, too.
    let client = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-m", "uhp.cli"]).args(arguments).env("UHP_BASE_URL", server.url()).env("UHP_API_KEY", api.key());
        let ran = command.output().unwrap();
        (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
    };
    let harness = api.harness();
    let (good, discovered) = client(&["discover"]);
    assert!(good && discovered.contains("\"protocol\": \"uhp\""), "{discovered}");
    let (good, ran) = client(&["run", "--harness", &harness, "echo", "from", "the", "shell"]);
    assert!(good && ran.contains("from the shell"), "{ran}");
    let (good, streamed) = client(&["stream", "--harness", &harness, "echo streamed"]);
    assert!(good && streamed.contains("streamed"), "{streamed}");
}
