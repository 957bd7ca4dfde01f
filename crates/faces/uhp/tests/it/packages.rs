//! The package check and the runtimes through the router.

use serde_json::{Value, json};

use crate::client::Server;
use crate::schema::conforms;

#[tokio::test]
async fn a_check_says_what_the_registry_says_and_refuses_what_no_registry_is_asked() {
    let server = Server::start().await;
    let path = |query: &str| format!("/v1/environments/packages/check?{query}");
    let pinned =
        conforms("EnvironmentPackageCheck", &server.get(&path("manager=pip&spec=known%3D%3D1.0")).await.good());
    assert_eq!(
        pinned,
        json!({"object": "environment.package", "manager": "pip", "name": "known", "spec": "known==1.0", "exists": true,
            "latest": "1.0", "version": "1.0", "error": "", "stead_fitting": "1.0"})
    );
    let said = async |query: &str| conforms("EnvironmentPackageCheck", &server.get(&path(query)).await.good());
    let plain = said("manager=npm&spec=known").await;
    assert_eq!((&plain["version"], &plain["stead_fitting"]), (&json!(""), &json!("1.0")));
    assert_eq!(said("manager=apt&spec=unknown").await["exists"], json!(false));
    let unasked = said("manager=npm&spec=unasked%40%5E1").await;
    assert_eq!((&unasked["exists"], &unasked["name"]), (&Value::Null, &json!("unasked")));
    assert_eq!(unasked["error"], json!("the registry does not answer"));
    for (query, param) in [
        ("manager=cargo&spec=known", "manager"),
        ("spec=known", "manager"),
        ("manager=pip", "spec"),
        ("manager=pip&spec=-r%20x", "spec"),
        ("manager=npm&spec=git%2Bssh%3A%2F%2Fx", "spec"),
    ] {
        let refused = server.get(&path(query)).await.refused(400, "environment_invalid");
        assert_eq!(refused["param"], json!(param), "{query}");
    }
}

#[tokio::test]
async fn runtimes_are_what_is_there() {
    let server = Server::start().await;
    let found = conforms("EnvironmentRuntimes", &server.get("/v1/environments/runtimes").await.good());
    assert_eq!(found["os"], json!({"name": "Nowhere", "version": ""}));
    let node = std::path::Path::new("/usr/bin/node").exists();
    assert_eq!(!found["node"].as_array().unwrap().is_empty(), node, "{found}");
    let minor = |text: &str| text.split('.').count() == 2 && text.split('.').all(|part| part.parse::<u32>().is_ok());
    assert!(found["python"].as_array().unwrap().iter().all(|text| minor(text.as_str().unwrap())), "{found}");
    assert!(found["apt"].is_boolean());
}
