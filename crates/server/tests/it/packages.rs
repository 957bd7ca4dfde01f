//! Packages checked against the registries of this machine, and against one that does not answer.

use serde_json::{Value, json};

use crate::api::Api;
use crate::program::{Ran, needs_root};
use crate::server::TestServer;
use crate::toolchain;

/// A name that nobody has given to a package of any manager.
const UNKNOWN: &str = "stead-no-such-package-0f3a";

#[test]
fn registries_know_their_packages_and_no_others() {
    needs_root!();
    let server = toolchain::networked(&[]);
    let check = |manager: &str, spec: &str| -> (Value, Ran) {
        let ran = server.ran(&["--json", "package", "check", manager, spec]);
        (serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr)), ran)
    };
    for (manager, spec, version) in [("pip", "Six==1.16", "1.16.0"), ("npm", "@types/node@20.1.0", "20.1.0")] {
        let (found, ran) = check(manager, spec);
        assert_eq!((ran.status, &found["exists"], &found["error"]), (0, &json!(true), &json!("")), "{found}");
        assert_eq!(found["version"], json!(version), "{found}");
        assert!(found["latest"].as_str().is_some_and(|latest| !latest.is_empty() && latest != version), "{found}");
    }
    let (range, _) = check("npm", "is-number@^6");
    assert_eq!((&range["version"], &range["stead_fitting"]), (&json!(""), &json!("6.0.0")), "{range}");
    let (unpublished, ran) = check("pip", "six==0.0.99");
    assert_eq!((ran.status, &unpublished["exists"], &unpublished["version"]), (1, &json!(true), &json!("")));
    assert!(ran.stderr.contains("no published version fits `==0.0.99`"), "{}", ran.stderr);
    for manager in ["pip", "npm"] {
        let (unknown, ran) = check(manager, UNKNOWN);
        assert_eq!((ran.status, &unknown["exists"]), (1, &json!(false)), "{unknown}");
    }
    // Machines without apt, or that never fetched its lists, say that they cannot say.
    let (bash, _) = check("apt", "bash");
    match &bash["exists"] {
        Value::Null => assert!(!bash["error"].as_str().unwrap().is_empty(), "{bash}"),
        exists => {
            assert_eq!((exists, bash["latest"].as_str().unwrap().is_empty()), (&json!(true), false), "{bash}");
            assert_eq!(check("apt", UNKNOWN).0["exists"], json!(false));
        }
    }
    let refused = server.ran(&["package", "check", "pip", "./local"]);
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains("`./local` is not a package that pip installs by name"), "{}", refused.stderr);
    let api = Api::of(&server);
    let cargo = api.send("GET", "/v1/environments/packages/check?manager=cargo&spec=serde", &[], b"");
    assert_eq!((cargo.status, &cargo.json()["error"]["code"]), (400, &json!("environment_invalid")));

    let runtimes = server.ran(&["--json", "runtimes"]);
    let runtimes: Value = serde_json::from_str(&runtimes.stdout).unwrap();
    assert!(!runtimes["python"].as_array().unwrap().is_empty() && runtimes["os"]["name"].is_string(), "{runtimes}");
}

#[test]
fn a_registry_that_cannot_be_asked_is_null_and_its_address_stays_unsaid() {
    needs_root!();
    // Port 1 needs privileges to listen on and has no server in any test environment.
    let server = TestServer::start(&[
        ("builds.index_url", "http://me:hunter2@127.0.0.1:1/simple"),
        ("builds.npm_registry", "http://me:hunter2@127.0.0.2:1/"),
        ("builds.registry_hosts", "127.0.0.1"),
        ("log.level", "debug"),
    ]);
    let named = server.ran(&["--json", "package", "check", "pip", "six"]);
    let unnamed = server.ran(&["--json", "package", "check", "npm", "six"]);
    for (ran, why) in
        [(&named, "the registry does not answer"), (&unnamed, "the address of the registry may not be reached")]
    {
        let said: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.status, &said["exists"]), (1, &Value::Null), "{said}");
        assert!(said["error"].as_str().unwrap().starts_with(why), "{said}");
        for secret in ["hunter2", "127.0.0"] {
            assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{}{}", ran.stdout, ran.stderr);
        }
    }
    assert!(!server.log().contains("hunter2"), "{}", server.log());
}
