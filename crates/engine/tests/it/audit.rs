//! What the audit log costs, and what it says.

use stead_domain::audit::AuditTarget;
use stead_domain::key::Verb;
use stead_engine::{AuditQuery, RequestRecord};
use stead_testkit::SeededIds;
use stead_testkit::doubles::Machine;

use crate::fixture::World;

#[test]
fn an_entry_comes_with_the_commit_it_tells_of() {
    let world = World::new(Machine::default());
    let server = world.process();
    let engine = &server.engine;
    let verbs = vec![Verb::Read, Verb::Run];
    let (key, secret) = server.wait(engine.key_create(&server.caller, None, "asks", verbs)).unwrap();
    let before = engine.store_use().commits;
    let plain = server.start("hold").turn.id;
    server.wait(world.machine.runs(plain));
    let unasked = engine.store_use().commits - before;

    let request = server.request("hold");
    let record = RequestRecord::new(Some("asked-1"), &SeededIds::new(9));
    let before = engine.store_use().commits;
    let asking = record.clone().scope(async {
        record.routed("POST", "/v1/responses");
        let caller = engine.authenticate(&secret).await.unwrap();
        engine.turn_start(&caller, request).await.unwrap()
    });
    let started = server.wait(asking);
    server.wait(world.machine.runs(started.turn.id));
    assert_eq!(engine.store_use().commits - before, unasked, "the entry is a commit of its own");

    let list =
        |query: AuditQuery| server.wait(engine.audit_list(&server.caller, AuditQuery { limit: 10, ..query })).unwrap();
    let part = list(AuditQuery::default());
    assert_eq!(part.entries.len(), 1, "what nobody asks for is not in it: {part:?}");
    let (entry, name) = &part.entries[0];
    assert_eq!((name.as_deref(), part.next), (Some("asks"), None));
    let by_key = |name: &str| list(AuditQuery { key: Some(name.to_owned()), ..AuditQuery::default() }).entries.len();
    assert_eq!((by_key("asks"), by_key(&key.id.to_string()), by_key("another")), (1, 1, 0));
    assert_eq!((entry.key_id, entry.workspace_id), (key.id, key.workspace_id));
    assert_eq!((entry.request_id.as_str(), entry.action.as_str()), ("asked-1", "POST /v1/responses"));
    for target in [AuditTarget::new("turn", started.turn.id), AuditTarget::new("session", started.session.id)] {
        assert!(entry.targets.contains(&target), "{entry:?}");
    }
    for turn in [plain, started.turn.id] {
        world.machine.end(turn, 0);
        server.end_of(turn);
    }
}
