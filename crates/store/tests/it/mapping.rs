//! Whatever a row holds, it reads back the same, and a row that holds what none may is refused.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use stead_domain::agent::Agent;
use stead_domain::attachment::Pin;
use stead_domain::build::{Base, Build, BuildFailure, BuildState, PlacedLayer, Stage, Version};
use stead_domain::changes::Changes;
use stead_domain::environment::{Certainty, Environment, EnvironmentFailure, EnvironmentState};
use stead_domain::item::Item;
use stead_domain::lease::Lease;
use stead_domain::limit::{Limit, LimitHit};
use stead_domain::network::{BuildNetworkPolicy, NetworkPolicy};
use stead_domain::operation::{Operation, OperationKind, OperationState};
use stead_domain::ports::Store as _;
use stead_domain::source::TreeSize;
use stead_domain::turn::{
    ExcessFile, ExitStatus, InputFile, Turn, TurnFailure, TurnFailureKind, TurnInput, TurnOutcome, TurnState,
};
use stead_domain::{BlobId, LayerId, OperationId, ProjectId, ServerId, Timestamp, TurnId};
use stead_testkit::{Samples, TestDatabase};

use crate::{commit, run_sql};

const CASES: usize = 48;

fn generated<S: Strategy>(runner: &mut TestRunner, strategy: S) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}

/// Any text without NUL, which a plain text column does not hold.
fn text() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| text.replace('\0', ""))
}

fn instant() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp::from_micros)
}

fn blob() -> impl Strategy<Value = BlobId> {
    any::<[u8; 32]>().prop_map(BlobId::from_bytes)
}

fn size() -> impl Strategy<Value = TreeSize> {
    (0..=i64::MAX as u64, 0..=i64::MAX as u64).prop_map(|(files, bytes)| TreeSize { files, bytes })
}

fn budget() -> impl Strategy<Value = Option<Duration>> {
    prop::option::of((0..=i64::MAX as u64).prop_map(Duration::from_micros))
}

fn lease(samples: &Samples) -> impl Strategy<Value = Option<Lease>> + use<> {
    let holder = ServerId::new(&samples.ids);
    prop::option::of(instant().prop_map(move |until| Lease { holder, until }))
}

fn outcome() -> impl Strategy<Value = TurnOutcome> {
    let item = (any::<String>(), any::<String>(), any::<bool>()).prop_map(|(id, text, complete)| Item::Message {
        id,
        text,
        complete,
    });
    let exit = prop_oneof![any::<i32>().prop_map(ExitStatus::Code), any::<i32>().prop_map(ExitStatus::Signal)];
    let failure = prop_oneof![
        any::<String>().prop_map(|message| TurnFailure::new(TurnFailureKind::Harness, message)),
        any::<String>().prop_map(|message| TurnFailure::limit(Limit::Memory, message)),
    ];
    let excess = (any::<String>(), any::<String>()).prop_map(|(path, reason)| ExcessFile { path, reason });
    let hit = any::<String>().prop_map(|message| LimitHit { limit: Limit::Processes, message });
    let hits = prop::collection::vec(hit, 0..3);
    let lists = (prop::collection::vec(item, 0..3), prop::collection::vec(excess, 0..3), hits);
    let rest = (prop::option::of(exit), prop::option::of(failure), any::<[u64; 3]>());
    (lists, rest).prop_map(
        |((items, excess, limits_hit), (exit, failure, [output_bytes, omitted_bytes, replaced_bytes]))| TurnOutcome {
            items,
            exit,
            failure,
            limits_hit,
            excess,
            output_bytes,
            omitted_bytes,
            replaced_bytes,
        },
    )
}

fn input() -> impl Strategy<Value = TurnInput> {
    let file =
        (any::<String>(), blob(), any::<u64>()).prop_map(|(filename, blob, bytes)| InputFile { filename, blob, bytes });
    let verbatim = prop::option::of(any::<String>().prop_map(serde_json::Value::from));
    (any::<String>(), prop::collection::vec(file, 0..3), verbatim, prop::option::of(any::<String>()))
        .prop_map(|(text, files, verbatim, instructions)| TurnInput { text, files, verbatim, instructions })
}

fn network() -> impl Strategy<Value = NetworkPolicy> {
    let policies = ["disabled", "enabled", "restricted a.example", "restricted a.example b.example"];
    prop::sample::select(policies.to_vec()).prop_map(|text| text.parse().unwrap())
}

fn build_network() -> impl Strategy<Value = BuildNetworkPolicy> {
    let policies = ["disabled", "registries", "enabled", "restricted a.example b.example"];
    prop::sample::select(policies.to_vec()).prop_map(|text| text.parse().unwrap())
}

async fn turns(database: TestDatabase) {
    let (store, samples, mut runner) = (database.open().await, Samples::new(1), TestRunner::deterministic());
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let mut rows = Vec::new();
    for _ in 0..CASES {
        let r = &mut runner;
        session.active_turn = None;
        let sample = samples.turn(&mut session, &agent);
        let pin = any::<u32>().prop_map(|version| Pin { project_id: ProjectId::new(&samples.ids), version });
        rows.push(Turn {
            previous: generated(r, any::<bool>()).then(|| TurnId::new(&samples.ids)),
            state: generated(r, prop::sample::select(TurnState::ALL.to_vec())),
            input: generated(r, input()),
            reads: generated(r, prop::option::of(pin)),
            time_limit: generated(r, budget()),
            network: generated(r, network()),
            ignored_fields: generated(r, prop::collection::vec(any::<String>(), 0..3)),
            requested_model: generated(r, prop::option::of(text())),
            store: generated(r, any::<bool>()),
            outcome: generated(r, outcome()),
            lease: generated(r, lease(&samples)),
            created_at: generated(r, instant()),
            started_at: generated(r, prop::option::of(instant())),
            finished_at: generated(r, prop::option::of(instant())),
            deleted_at: generated(r, prop::option::of(instant())),
            row_version: generated(r, 0..i64::MAX),
            ..sample
        });
    }
    commit(&store, rows.iter().fold(Changes::new(), |changes, row| changes.insert(row.clone()))).await;
    assert_eq!(store.turns_list(session.id).await.unwrap(), rows);
}

async fn builds(database: TestDatabase) {
    let (store, samples, mut runner) = (database.open().await, Samples::new(1), TestRunner::deterministic());
    let (project, sample) = samples.build(samples.project("p"), "node");
    let (layer, name) = (LayerId::new(&samples.ids), any::<String>);
    let version = (name(), name(), size(), size(), name(), prop::option::of(instant())).prop_map(
        move |(id, description, source, size, target, removed_at)| Version {
            base: Base { id, description },
            layers: vec![PlacedLayer { target, layers: vec![layer] }],
            packages: vec![],
            source,
            size,
            removed_at,
        },
    );
    let failure = name().prop_map(|message| BuildFailure { message, ..BuildFailure::interrupted() });
    let mut rows = Vec::new();
    for number in (0..CASES as u32).chain([u32::MAX]) {
        let r = &mut runner;
        rows.push(Build {
            number,
            state: generated(r, prop::sample::select(BuildState::ALL.to_vec())),
            stage: generated(r, prop::sample::select(Stage::ALL.to_vec())),
            snapshot: generated(r, blob()),
            fresh: generated(r, any::<bool>()),
            network: generated(r, build_network()),
            node: generated(r, text()),
            lease: generated(r, lease(&samples)),
            started_at: generated(r, instant()),
            finished_at: generated(r, prop::option::of(instant())),
            failure: generated(r, prop::option::of(&failure)),
            version: generated(r, prop::option::of(&version)),
            ..sample.clone()
        });
    }
    commit(&store, rows.iter().fold(Changes::new(), |changes, row| changes.insert(row.clone()))).await;
    assert_eq!(store.builds_list(project.id).await.unwrap(), rows);
}

async fn environments_and_operations(database: TestDatabase) {
    let (store, samples, mut runner) = (database.open().await, Samples::new(1), TestRunner::deterministic());
    let cause = OperationId::new(&samples.ids);
    let certainties = vec![Certainty::Known, Certainty::NotDispatched, Certainty::Unknown];
    let failure = (any::<String>(), any::<String>(), prop::sample::select(certainties), any::<bool>(), instant())
        .prop_map(move |(code, message, certainty, permanent, at)| EnvironmentFailure {
            code,
            message,
            certainty,
            permanent,
            operation: permanent.then_some(cause),
            at,
        });
    for _ in 0..CASES {
        let r = &mut runner;
        let (environment, operation) = samples.environment("node");
        let environment = Environment {
            provider: generated(r, text()),
            state: generated(r, prop::sample::select(EnvironmentState::ALL.to_vec())),
            operation_id: generated(r, prop::option::of(Just(cause))),
            network: generated(r, network()),
            handle: generated(r, prop::option::of(text())),
            running_with: generated(r, prop::option::of(text())),
            failure: generated(r, prop::option::of(&failure)),
            idle_since: generated(r, prop::option::of(instant())),
            updated_at: generated(r, instant()),
            ..environment
        };
        let operation = Operation {
            kind: generated(r, prop::sample::select(OperationKind::ALL.to_vec())),
            state: generated(r, prop::sample::select(OperationState::ALL.to_vec())),
            spec: generated(r, prop::option::of(text())),
            generation: generated(r, any::<i64>()),
            lease: generated(r, lease(&samples)),
            attempts: generated(r, any::<i64>()),
            next_attempt_at: generated(r, instant()),
            error: generated(r, prop::option::of(text())),
            finished_at: generated(r, prop::option::of(instant())),
            ..operation
        };
        commit(&store, Changes::new().insert(environment.clone()).insert(operation.clone())).await;
        assert_eq!(store.environment_fetch(environment.id).await.unwrap(), Some(environment));
        assert_eq!(store.operation_fetch(operation.id).await.unwrap(), Some(operation));
    }
}

async fn an_update_writes_what_an_insert_does(database: TestDatabase) {
    let (store, samples, mut runner) = (database.open().await, Samples::new(1), TestRunner::deterministic());
    let mut agent = samples.agent();
    commit(&store, Changes::new().insert(agent.clone())).await;
    for _ in 0..CASES {
        let r = &mut runner;
        agent = Agent {
            name: generated(r, text()),
            instructions: generated(r, text()),
            default_model: generated(r, prop::option::of(text())),
            project_id: generated(r, any::<bool>()).then(|| ProjectId::new(&samples.ids)),
            disabled_tools: generated(r, prop::collection::vec(any::<String>(), 0..3)),
            max_step: generated(r, prop::option::of(any::<u32>())),
            time_limit: generated(r, budget()),
            network: generated(r, prop::option::of(network())),
            created_at: generated(r, instant()),
            updated_at: generated(r, instant()),
            deleted_at: generated(r, prop::option::of(instant())),
            ..agent
        };
        commit(&store, Changes::new().update(agent.clone())).await;
        agent.row_version += 1;
        assert_eq!(store.agent_fetch(samples.workspace_id, agent.id).await.unwrap().as_ref(), Some(&agent));
    }
    // What PostgreSQL's text does not hold is replaced on both engines, not refused.
    agent.name = "a\0b".into();
    commit(&store, Changes::new().update(agent.clone())).await;
    let read = store.agent_fetch(samples.workspace_id, agent.id).await.unwrap().unwrap();
    assert_eq!(read.name, "a\u{fffd}b");
}

async fn a_row_that_holds_what_none_may_is_an_error_that_names_the_column(database: TestDatabase) {
    let (store, samples) = (database.open().await, Samples::new(1));
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let turn = samples.turn(&mut session, &agent);
    commit(&store, Changes::new().insert(turn.clone())).await;
    for (damage, repair, column) in [
        ("UPDATE turns SET state = 'sleeping'", "UPDATE turns SET state = 'queued'", "state"),
        ("UPDATE turns SET previous = 'turn_1'", "UPDATE turns SET previous = NULL", "previous"),
        ("UPDATE turns SET store = 2", "UPDATE turns SET store = 1", "store"),
        ("UPDATE turns SET lease_until = 5", "UPDATE turns SET lease_until = NULL", "lease_until"),
        ("UPDATE turns SET reads_version = -1", "UPDATE turns SET reads_version = NULL", "reads_version"),
        ("UPDATE turns SET outcome = '{'", "UPDATE turns SET outcome = outcome", "outcome"),
    ] {
        run_sql(&database, damage).await;
        let error = store.turn_fetch(samples.workspace_id, turn.id).await.unwrap_err();
        assert!(error.source.to_string().contains(&format!("`{column}`")), "{damage}: {error:?}");
        run_sql(&database, repair).await;
    }
}

on_both!(
    turns,
    builds,
    environments_and_operations,
    an_update_writes_what_an_insert_does,
    a_row_that_holds_what_none_may_is_an_error_that_names_the_column,
);
