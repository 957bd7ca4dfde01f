//! What those read who watch a server: the audit log, and how many of what lives there is.

use std::time::Duration;

use stead_domain::audit::{AuditEntry, AuditTarget};
use stead_domain::changes::{Changes, Removal};
use stead_domain::ports::Store as _;
use stead_domain::{AuditId, Timestamp};
use stead_testkit::{Samples, SeededIds, TestDatabase};

use crate::commit;

async fn old_entries_go_and_the_others_are_read_by_workspace_and_page(database: TestDatabase) {
    let store = database.open().await;
    let (ids, now) = (SeededIds::new(7), Timestamp::from_micros(1_800_000_000_000_000));
    let workspaces = [Samples::new(1).workspace(), Samples::new(2).workspace()];
    let mut entries = Vec::new();
    for age in (0..6).rev() {
        let workspace = &workspaces[age % 2];
        let entry = AuditEntry {
            id: AuditId::new(&ids),
            at: now.minus(Duration::from_secs(age as u64)),
            workspace_id: workspace.id,
            key_id: Samples::new(1).key("digest").id,
            request_id: format!("request-{age}"),
            action: "POST /v1/environments".to_owned(),
            targets: vec![AuditTarget::new("project", age), AuditTarget::new("workspace", workspace.id)],
        };
        commit(&store, Changes::new().fact(entry.clone())).await;
        entries.insert(0, entry);
    }
    let all = store.audit_list(None, None, 10).await.unwrap();
    assert_eq!((all.rows, all.more), (entries.clone(), false));
    let page = store.audit_list(None, Some(entries[1].id), 2).await.unwrap();
    assert_eq!((page.rows, page.more), (entries[2..4].to_vec(), true));
    let own = store.audit_list(Some(workspaces[1].id), None, 10).await.unwrap();
    assert_eq!(own.rows, [entries[1].clone(), entries[3].clone(), entries[5].clone()]);

    // What is exactly as old as that stays.
    commit(&store, Changes::new().remove(Removal::Audit(entries[2].at))).await;
    assert_eq!(store.audit_list(None, None, 10).await.unwrap().rows, entries[..3]);
    commit(&store, Changes::new().remove(Removal::Audit(now.plus(Duration::from_secs(1))))).await;
    assert_eq!(store.audit_list(None, None, 10).await.unwrap().rows, []);
}

async fn what_lives_is_counted_by_state(database: TestDatabase) {
    let store = database.open().await;
    assert_eq!(
        store.census("node").await.unwrap().iter().map(|tally| tally.count).sum::<u64>(),
        0,
        "an empty database has something in it"
    );
    let samples = Samples::new(1);
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let turn = samples.turn(&mut session, &agent);
    let (environment, operation) = samples.environment("node");
    let (elsewhere, _) = samples.environment("other");
    let attachment = samples.attachment(&session, &environment);
    let (project, build) = samples.build(samples.project("Demo"), "node");
    let mut expected = [
        ("build", build.state.as_str(), 1),
        ("environment", environment.state.as_str(), 1),
        ("operation", operation.state.as_str(), 1),
        ("session", "live", 1),
        ("turn", turn.state.as_str(), 1),
    ];
    let changes = Changes::new().insert(agent).insert(session).insert(turn).insert(environment).insert(operation);
    let changes = changes.insert(elsewhere).insert(attachment).insert(project).insert(build.clone());
    commit(&store, changes).await;
    let found = store.census("node").await.unwrap();
    let mut found: Vec<_> =
        found.iter().map(|tally| (tally.noun.as_str(), tally.state.as_str(), tally.count)).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

on_both!(old_entries_go_and_the_others_are_read_by_workspace_and_page, what_lives_is_counted_by_state);
