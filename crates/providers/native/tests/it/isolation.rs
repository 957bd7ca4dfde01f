//! What code in a session can see of its surroundings.

use std::fs;

use stead_domain::ports::Provider;
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};

use crate::fixture::{Fixture, Ids, Mode, known, mode, plain, process, run};

#[tokio::test]
async fn nothing_of_the_service_shows_inside() {
    let mut fixture = Fixture::new();
    let (bundle, tools) = (fixture.scratch.path().join("bundle"), fixture.directory("tools"));
    fs::write(&bundle, "ours\n").unwrap();
    fs::write(tools.join("tool"), "tool\n").unwrap();
    fixture.config.ca_bundle = Some(bundle);
    fixture.config.toolchains = vec![tools];
    let provider = fixture.open();
    let environment = EnvironmentId::new(&Ids);
    known(provider.create(OperationId::new(&Ids), environment, WorkspaceId::new(&Ids), &plain()).await).unwrap();
    let runtime = provider.link(environment).await.unwrap();
    let text = "hostname; id -u; ls -A / | tr '\\n' ' '; echo
        ls -l /proc/self/fd | grep -v -e total -e /dev/null -e pipe: -e /proc/ -e stead-script; cat /etc/shadow 2>&1 | tail -1; ls /run
        for file in environ mem fd/0 exe; do (exec 3</proc/1/$file) 2>/dev/null && echo opened $file; done
        kill -9 1; kill -TERM 1; grep -c . /proc/net/route; grep NoNewPrivs /proc/self/status
        cat /etc/ssl/certs/ca-certificates.crt /opt/stead/tools/tool";
    let seen = run(&*runtime, text).await.stdout;
    let expected = "stead\n1000\nbin dev etc home lib lib64 opt proc run sbin tmp usr var workspace \n\
                    cat: /etc/shadow: No such file or directory\n1\nNoNewPrivs:\t1\nours\ntool\n";
    let expected = expected.replace("lib lib64", &libraries());
    assert_eq!(seen, expected);

    // Process 1 belongs to the slot's range, and its token is nowhere among what it was given.
    let pid = process(&provider, environment).await;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let uid = fixture.owner(0);
    assert!(status.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")), "{status}");
    assert!(status.contains("CapEff:\t0000000000000000\n"));
    let launch = fs::read_to_string(fixture.config.run.join("e0/launch.json")).unwrap();
    let launch: serde_json::Value = serde_json::from_str(&launch).unwrap();
    let token = launch["token"].as_str().unwrap();
    for file in ["cmdline", "environ"] {
        match fs::read_to_string(format!("/proc/{pid}/{file}")) {
            Ok(text) => assert!(!text.contains(token), "{file}"),
            // Process 1 is not dumpable, so even the service, which has its user, may not look.
            Err(error) => assert_eq!((mode(), error.kind()), (Mode::User, std::io::ErrorKind::PermissionDenied)),
        }
    }
    assert!(!provider.inspect(environment).await.unwrap().handle.unwrap().contains(token));
    known(provider.delete(OperationId::new(&Ids), environment).await).unwrap();
}

/// The directories that this host keeps beside `/usr`.
fn libraries() -> String {
    let names = ["lib", "lib32", "lib64", "libx32"];
    let there = names.into_iter().filter(|name| fs::symlink_metadata(format!("/{name}")).is_ok());
    there.collect::<Vec<_>>().join(" ")
}
