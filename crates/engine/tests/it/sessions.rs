//! Sessions that go while somebody follows one of their turns.

use futures_util::StreamExt as _;
use stead_domain::environment::EnvironmentState;
use stead_domain::event::EventKind;
use stead_domain::ports::Store as _;
use stead_domain::turn::TurnState;
use stead_testkit::doubles::Machine;

use crate::fixture::{World, came_to};

#[test]
fn who_follows_a_task_of_a_deleted_session_is_told_how_it_ended() {
    let machine = Machine::default();
    machine.set_places(1);
    let world = World::new(machine);
    let server = world.process();
    let running = server.start("hold");
    server.wait(world.machine.runs(running.turn.id));
    let waiting = server.start("hold");
    for started in [waiting, running] {
        let (engine, caller, id) = (&server.engine, &server.caller, started.turn.id);
        server.wait(async {
            let mut events = engine.turn_events(caller, id, 0).await.unwrap();
            let mut output = engine.turn_output(caller, id, 0).await.unwrap();
            events.next().await.unwrap().unwrap();
            let following = async {
                let mut last = None;
                while let Some(event) = events.next().await {
                    last = Some(event.unwrap().kind);
                }
                last
            };
            let reading = async {
                while let Some(chunk) = output.next().await {
                    chunk.unwrap();
                }
            };
            let deleting = async {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                engine.session_delete(caller, started.session.id).await.unwrap();
            };
            let (last, (), view, ()) = tokio::join!(following, reading, engine.turn_wait(caller, id), deleting);
            assert_eq!(last, Some(EventKind::TurnEnded));
            assert_eq!(view.unwrap().turn.state, TurnState::Cancelled);
        });
    }
}

#[test]
fn an_environment_whose_processes_do_not_end_is_stopped_before_the_next_task_can_begin() {
    let world = World::new(Machine::default());
    let server = world.process();
    let mut previous = server.run("hold");
    for number in 0..5 {
        world.machine.set_unruly(true);
        world.machine.end(previous, 0);
        server.end_of(previous);
        // Known with the end: whoever goes on from here waits for the stop, and is not hit by it.
        let environments = server.wait(server.store.environments_on("node")).unwrap();
        assert_ne!(environments[0].state, EnvironmentState::Ready);
        world.machine.set_unruly(false);
        let mut request = server.request(&format!("hold {number}"));
        (request.previous, request.agent_id) = (Some(previous), None);
        previous = server.wait(server.engine.turn_start(&server.caller, request)).unwrap().turn.id;
        server.wait(world.machine.runs(previous));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    world.machine.end(previous, 0);
    came_to(&server.end_of(previous), TurnState::Completed, "");
}
