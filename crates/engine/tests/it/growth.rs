//! Whatever is made and goes again leaves no rows, and what lives long gathers none.

use std::time::{Duration, Instant};

use stead_domain::declared::PackageManager;
use stead_domain::precondition::Precondition;
use stead_domain::turn::TurnState;
use stead_domain::{Code, ProjectId, SourcePath, TurnId};
use stead_engine::{AgentText, FileWrite, ProjectChoice, ProjectText, Settings};
use stead_testkit::doubles::Machine;

use crate::fixture::{Process, World, came_to};

/// Collects all the time, and stops at once what is idle.
fn restless(settings: &mut Settings) {
    settings.idle_stop = Duration::ZERO;
    settings.collection.every = Duration::from_millis(100);
    settings.collection.grace = Duration::from_secs(1);
}

#[track_caller]
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A project with a source and this many builds.
fn built(server: &Process, name: &str, builds: usize) -> ProjectId {
    let (engine, caller) = (&server.engine, &server.caller);
    let text = ProjectText {
        name: name.to_owned(),
        description: None,
        entry: None,
        packages: Vec::<(PackageManager, Vec<String>)>::new(),
        python: None,
        build_network: None,
    };
    let project = server.wait(engine.project_create(caller, text)).unwrap().project.id;
    server.wait(async {
        let mut body = engine.spool(100).await.unwrap();
        body.write(b"bytes").await.unwrap();
        let body = body.finish().await.unwrap();
        let path = SourcePath::parse("src/file").unwrap();
        let write = FileWrite { path, executable: None, precondition: Precondition::default() };
        engine.source_write(caller, project, write, body).await.unwrap();
    });
    for _ in 0..builds {
        let number = server.wait(engine.build_start(caller, project, false)).unwrap().number;
        let ended = || server.wait(engine.build_get(caller, project, number)).unwrap().state.is_ended();
        soon("the end of a build", ended);
    }
    assert_eq!(server.wait(engine.project_get(caller, project)).unwrap().project.active, Some(builds as u32));
    project
}

fn go_on(server: &Process, previous: TurnId, text: &str) -> TurnId {
    let mut request = server.request(&format!("echo {text}"));
    (request.previous, request.agent_id) = (Some(previous), None);
    let turn = server.wait(server.engine.turn_start(&server.caller, request)).unwrap().turn.id;
    came_to(&server.end_of(turn), TurnState::Completed, &format!("{text}\n"));
    turn
}

#[test]
fn what_is_made_and_deleted_leaves_no_rows() {
    let world = World::new(Machine::default());
    let server = world.process_with(restless);
    let (engine, caller) = (&server.engine, &server.caller);
    let (before, logs) = (world.rows(), world.logs());
    for round in 0..2 {
        let project = built(&server, "Demo", 2);
        let text =
            AgentText { harness: Some("shell".to_owned()), project_id: Some(Some(project)), ..Default::default() };
        let agent = server.wait(engine.agent_create(caller, text)).unwrap().id;
        let mut request = server.request("echo one");
        request.agent_id = Some(agent);
        let started = server.wait(engine.turn_start(caller, request)).unwrap();
        came_to(&server.end_of(started.turn.id), TurnState::Completed, "one\n");
        soon("an idle stop", || world.machine.running() == 0);
        go_on(&server, started.turn.id, "two");
        assert!(world.rows()["builds"] >= 2, "round {round}");

        server.wait(engine.agent_delete(caller, agent)).unwrap();
        server.wait(engine.project_delete(caller, project)).unwrap();
        server.wait(engine.session_delete(caller, started.session.id)).unwrap();
        let gone = server.wait(engine.project_get(caller, project)).unwrap_err();
        assert_eq!(gone.code, Code::ProjectNotFound);
        soon("an end of the rows", || world.rows() == before);
        assert_eq!(world.logs(), logs, "logs stay");
        let later = server.wait(engine.project_get(caller, project)).unwrap_err();
        assert_eq!((later.code, later.message), (gone.code, gone.message), "its answer has changed");
        assert_eq!(server.wait(engine.build_get(caller, project, 1)).unwrap_err().code, Code::ProjectNotFound);
        assert_eq!(server.wait(engine.project_delete(caller, project)).unwrap_err().code, Code::ProjectNotFound);
    }
}

#[test]
fn a_session_that_lives_long_gathers_no_operations() {
    let world = World::new(Machine::default());
    let server = world.process_with(restless);
    let mut turn = server.start("echo 0").turn.id;
    came_to(&server.end_of(turn), TurnState::Completed, "0\n");
    for number in 1..4 {
        soon("an idle stop", || world.machine.running() == 0);
        turn = go_on(&server, turn, &number.to_string());
    }
    assert!(world.rows()["operations"] >= 2);
    soon("an end of the operations", || !world.rows().contains_key("operations"));
    go_on(&server, turn, "more");
}

#[test]
fn a_deleted_project_stays_for_the_task_that_reads_it_and_goes_with_the_next_process() {
    let world = World::new(Machine::adopting());
    let first = world.process_with(restless);
    let before = world.rows();
    let (read, unread) = (built(&first, "Read", 1), built(&first, "Unread", 1));
    let mut request = first.request("hold");
    request.project = ProjectChoice::Named(read);
    let started = first.wait(first.engine.turn_start(&first.caller, request)).unwrap();
    first.wait(world.machine.runs(started.turn.id));
    for project in [read, unread] {
        first.wait(first.engine.project_delete(&first.caller, project)).unwrap();
    }
    soon("the end of the unread one", || world.rows()["projects"] == 1);
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!((world.rows()["projects"], world.rows()["builds"]), (1, 1));
    first.hand_over();

    let second = world.process_with(restless);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(world.rows()["projects"], 1);
    world.machine.end(started.turn.id, 0);
    came_to(&second.end_of(started.turn.id), TurnState::Completed, "");
    soon("its end", || !world.rows().contains_key("projects") && !world.rows().contains_key("builds"));
    // The session goes on without it, and can go.
    let mut request = second.request("echo on");
    (request.previous, request.agent_id, request.project) = (Some(started.turn.id), None, ProjectChoice::Nothing);
    let next = second.wait(second.engine.turn_start(&second.caller, request)).unwrap().turn.id;
    came_to(&second.end_of(next), TurnState::Completed, "on\n");
    second.wait(second.engine.session_delete(&second.caller, started.session.id)).unwrap();
    // Each process has made an agent.
    let mut left = before;
    *left.get_mut("agents").unwrap() += 1;
    soon("an end of the rows", || world.rows() == left);
}
