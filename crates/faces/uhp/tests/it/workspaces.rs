//! Workspaces and keys as the use cases have them, beneath every face.

use stead_domain::key::{Caller, Verb};
use stead_domain::{Code, Result};

use crate::client::Server;

fn code<T>(outcome: Result<T>) -> Code {
    outcome.err().expect("it is refused").code
}

async fn caller(server: &Server, workspace: &str, verbs: &[Verb]) -> Caller {
    let operator = server.caller().await;
    let (_, secret) = server.engine.key_create(&operator, Some(workspace), "k", verbs.to_vec()).await.unwrap();
    server.engine.authenticate(&secret).await.unwrap()
}

#[tokio::test]
async fn of_creations_at_once_one_is_made_and_the_others_are_told_which() {
    let server = Server::start().await;
    let (engine, operator) = (&server.engine, server.caller().await);
    let create = || engine.workspace_create(&operator, "blue");
    let outcomes: [Result<_>; 4] = tokio::join!(create(), create(), create(), create()).into();
    let (made, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    let made = made.into_iter().next().unwrap().unwrap();
    assert_eq!(refused.len(), 3);
    for error in refused.into_iter().map(Result::unwrap_err) {
        assert_eq!((error.code, error.param.as_deref()), (Code::WorkspaceExists, Some("name")));
        assert_eq!(error.detail.unwrap()["workspace"], made.id.to_string());
    }
    let names: Vec<String> = engine.workspace_list(&operator).await.unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["default", "blue"]);
    // A start finds what is there, as every start after the first does.
    let again = engine.bootstrap().await.unwrap();
    assert!(again.workspace == operator.workspace_id && again.admin_secret.is_none());
}

#[tokio::test]
async fn a_tenants_admin_keeps_the_keys_of_its_workspace_and_no_others() {
    let server = Server::start().await;
    let (engine, operator) = (&server.engine, server.caller().await);
    let blue = engine.workspace_create(&operator, "blue").await.unwrap();
    let admin = caller(&server, "blue", &[Verb::Admin]).await;
    let writer = caller(&server, &blue.id.to_string(), &[Verb::Read, Verb::Run, Verb::Write]).await;
    assert_eq!((admin.workspace_id, writer.workspace_id), (blue.id, blue.id));

    assert_eq!(code(engine.workspace_create(&admin, "mine").await), Code::ScopeInsufficient);
    assert_eq!(engine.workspace_list(&admin).await.unwrap(), std::slice::from_ref(&blue));
    for foreign in ["default", "made-up", &operator.workspace_id.to_string(), "ws_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00"] {
        let refused = engine.key_create(&admin, Some(foreign), "k", vec![Verb::Read]).await;
        assert_eq!(refused.err().unwrap().param.as_deref(), Some("workspace"), "{foreign}");
        assert_eq!(code(engine.key_list(&admin, Some(foreign)).await), Code::WorkspaceNotFound, "{foreign}");
        assert_eq!(
            code(engine.key_revoke(&admin, Some(foreign), operator.key_id).await),
            Code::WorkspaceNotFound,
            "{foreign}"
        );
    }
    assert_eq!(code(engine.key_revoke(&admin, None, operator.key_id).await), Code::KeyNotFound);
    let wanted = vec![Verb::Read, Verb::Operator];
    assert_eq!(code(engine.key_create(&admin, None, "k", wanted.clone()).await), Code::ScopeInsufficient);
    for (workspace, expected) in [(None, Code::ScopeInsufficient), (Some("default"), Code::ScopeInsufficient)] {
        assert_eq!(code(engine.key_create(&writer, workspace, "k", vec![Verb::Read]).await), expected);
        assert_eq!(code(engine.key_list(&writer, workspace).await), expected);
    }

    // An operator is more than an admin wherever its key is, and an admin cannot undo one.
    let (second, _) = engine.key_create(&operator, Some("blue"), "second", wanted).await.unwrap();
    assert_eq!(code(engine.key_revoke(&admin, None, second.id).await), Code::ScopeInsufficient);
    assert_eq!(engine.key_list(&admin, None).await.unwrap().len(), 3);
    let revoked = engine.key_revoke(&operator, Some("blue"), second.id).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    assert!(engine.key_revoke(&admin, Some("blue"), writer.key_id).await.unwrap().revoked_at.is_some());
}

#[tokio::test]
async fn a_new_workspace_has_what_the_first_one_has() {
    let server = Server::start().await;
    let (engine, operator) = (&server.engine, server.caller().await);
    engine.workspace_create(&operator, "blue").await.unwrap();
    let tenant = caller(&server, "blue", &Verb::ALL).await;
    let harnesses = |agents: Vec<stead_domain::agent::Agent>| -> Vec<_> {
        agents.into_iter().map(|agent| (agent.name, agent.harness)).collect()
    };
    let (mine, first) = (engine.agent_list(&tenant).await.unwrap(), engine.agent_list(&operator).await.unwrap());
    assert!(mine.iter().all(|agent| agent.workspace_id == tenant.workspace_id));
    assert_eq!(harnesses(mine), harnesses(first));
}
