//! The same clients while something else than the server is hit. The server lives on, or is back on a machine that has forgotten
//! everything but its disks.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use stead_testkit::ledger::Random;

use super::leftovers::nothing;
use super::oracle::Excuses;
use super::postgres::Postgres;
use super::rounds::{print, tell};
use super::team::Team;
use crate::api::Api;
use crate::damage::Disk;
use crate::objects::{eventually, processes, said, text};
use crate::program::needs_root;
use crate::server::TestServer;

/// The least that is in flight when the blow falls.
const IN_FLIGHT: usize = 5;

/// Settings of every server here.
const USUAL: [(&str, &str); 3] =
    [("sessions.idle_stop", "2s"), ("sessions.network", "disabled"), ("builds.network", "disabled")];

/// The seed of a test, and how many rounds it makes.
fn seeds(usual: u64) -> impl Iterator<Item = (u32, u64)> {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let seed = number("STEAD_CRASH_SEED", 1);
    (0..number("STEAD_BLOW_ROUNDS", usual)).map(move |round| (u32::try_from(round).unwrap(), seed + round))
}

/// A blow that falls while the clients work; they go on for a while, and then everything is looked at.
fn under(
    server: &mut TestServer,
    team: &mut Team,
    (round, seed): (u32, u64),
    excuses: Excuses,
    blow: impl FnOnce(&mut TestServer, &mut Random),
) {
    let seeded = Random::of(seed);
    let mut random = seeded.part(0);
    let at_work = team.begin(server, round, &seeded);
    at_work.wait_for(IN_FLIGHT + 2);
    std::thread::sleep(Duration::from_millis(random.below(800)));
    at_work.wait_for(IN_FLIGHT);
    let in_flight = at_work.in_flight(std::time::Instant::now());
    blow(server, &mut random);
    std::thread::sleep(Duration::from_millis(500));
    team.end(at_work);
    if server.is_dead() {
        server.start_again();
    }
    let (done, refused) = team.said();
    let effects = team.effects();
    print(&format!("round {round}: seed {seed}, {in_flight} in flight, {effects} side effects; {done:?}"));
    tell(&refused);
    ready(server);
    let faults = team.faults(server, excuses);
    assert!(faults.is_empty(), "round {round} (seed {seed}): {faults:#?}");
}

/// Waits until new work is taken: where the disk was full, room is put back first.
fn ready(server: &TestServer) {
    let api = Api::of(server);
    eventually("the server to be ready", || {
        let answer = api.get("/readyz");
        if answer.status == 200 { Ok(()) } else { Err(format!("{answer:?}")) }
    });
}

fn finish(server: &TestServer, team: &mut Team) {
    team.delete_everything(server);
    nothing(server);
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn pid_of(line: &str) -> i32 {
    line.split(['/', ' ']).nth(2).and_then(|pid| pid.parse().ok()).unwrap_or(0)
}

/// Processes 1 of sandboxes.
fn runtimes(server: &TestServer) -> Vec<i32> {
    let is_runtime = |line: &&String| line.contains("stead-runtime");
    processes(server).iter().filter(is_runtime).map(|line| pid_of(line)).collect()
}

#[test]
fn a_killed_runtime_costs_what_ran_in_it_and_nothing_else() {
    needs_root!();
    let mut server = TestServer::start(&USUAL);
    let mut team = Team::new(&server);
    for place in seeds(3) {
        under(&mut server, &mut team, place, Excuses::BROKEN, |server, random| {
            for _ in 0..3 {
                let found = runtimes(server);
                if let Some(pid) = random.pick(&found) {
                    kill(*pid);
                }
                std::thread::sleep(Duration::from_millis(random.below(300)));
            }
        });
    }
    finish(&server, &mut team);
}

#[test]
fn a_killed_proxy_costs_nothing() {
    needs_root!();
    let settings = [("sessions.idle_stop", "2s"), ("sessions.network", "enabled"), ("builds.network", "disabled")];
    let mut server = TestServer::start(&settings);
    let mut team = Team::new(&server);
    let proxy = |server: &TestServer| {
        server.children().into_iter().find(|(_, command)| command.starts_with("stead-egress")).map(|(pid, _)| pid)
    };
    for place in seeds(2) {
        under(&mut server, &mut team, place, Excuses::NONE, |server, random| {
            for _ in 0..3 {
                proxy(server).into_iter().for_each(kill);
                std::thread::sleep(Duration::from_millis(random.below(400)));
            }
        });
    }
    // There is a proxy again: it answers, if only to refuse.
    let api = Api::of(&server);
    let harness = api.harness();
    let asked = "curl --retry 5 --retry-all-errors -s -o /dev/null -w '%{http_code}' http://10.255.255.1/";
    eventually("that the proxy answers", || {
        let answer = said(&api.run(&harness, asked));
        if answer == "403" { Ok(()) } else { Err(answer) }
    });
    finish(&server, &mut team);
}

/// What a machine that was started again has of a server: its disk. Processes, control groups and mounts are gone, and the kernel's
/// name for this run of the machine is another.
fn restart_the_host(server: &mut TestServer) {
    server.kill();
    eventually("that every process is gone", || {
        let left = processes(server);
        left.iter().map(|line| pid_of(line)).for_each(kill);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    });
    for group in server.groups() {
        eventually("that the control groups are gone", || {
            for child in std::fs::read_dir(&group).into_iter().flatten().flatten().filter(|child| child.path().is_dir())
            {
                let _ = std::fs::remove_dir(child.path());
            }
            let gone = std::fs::remove_dir(&group);
            if gone.is_ok() || !group.exists() { Ok(()) } else { Err(format!("{}: {gone:?}", group.display())) }
        });
    }
    let run = server.data().join("run");
    for sandbox in std::fs::read_dir(run).into_iter().flatten().flatten() {
        let path = sandbox.path().join("launch.json");
        let Ok(launched) = std::fs::read(&path) else { continue };
        let mut launched: Value = serde_json::from_slice(&launched).unwrap();
        launched["boot"] = "00000000-0000-4000-8000-000000000000".into();
        // Somebody else may have the number by now.
        launched["pid"] = std::process::id().into();
        std::fs::write(&path, launched.to_string()).unwrap();
    }
}

#[test]
fn a_machine_that_was_started_again_has_lost_nothing_that_was_acknowledged() {
    needs_root!();
    let mut server = TestServer::start(&USUAL);
    let mut team = Team::new(&server);
    for place in seeds(2) {
        under(&mut server, &mut team, place, Excuses::KILLED, |server, _| restart_the_host(server));
    }
    finish(&server, &mut team);
}

#[test]
fn a_server_that_is_stopped_hands_its_tasks_to_the_next_one() {
    needs_root!();
    let mut server = TestServer::start(&[USUAL.as_slice(), &[("sessions.orphan_grace", "5s")]].concat());
    let mut team = Team::new(&server);
    for place in seeds(3) {
        under(&mut server, &mut team, place, Excuses::STOPPED, |server, random| {
            if random.chance(50) {
                server.hand_over();
                server.start_again();
            } else {
                server.take_over();
            }
        });
    }
    finish(&server, &mut team);
}

#[test]
fn a_store_that_hangs_or_dies_costs_time_and_nothing_that_was_acknowledged() {
    needs_root!();
    let Some(mut postgres) = Postgres::start() else { return };
    let mut server = TestServer::start(&[USUAL.as_slice(), &[("database.url", &postgres.url())]].concat());
    let mut team = Team::new(&server);
    for (round, seed) in seeds(3) {
        under(&mut server, &mut team, (round, seed), Excuses::NONE, |_, random| match round % 3 {
            0 => {
                postgres.hang();
                std::thread::sleep(Duration::from_millis(500 + random.below(2500)));
                postgres.go_on();
            }
            1 => {
                postgres.kill();
                std::thread::sleep(Duration::from_millis(200 + random.below(1500)));
                postgres.start_again();
            }
            _ => postgres.drop_connections(),
        });
    }
    finish(&server, &mut team);
}

#[test]
fn a_full_disk_refuses_and_loses_nothing_that_was_acknowledged() {
    needs_root!();
    let settings = [USUAL.as_slice(), &[("native.disk_reserve", "4KiB")]].concat();
    let mut server = TestServer::start_prepared(&settings, |data| Disk::mount(data, "160m"));
    let data = server.data().to_owned();
    let _disk = Disk(&data);
    let mut team = Team::new(&server);
    let filler = data.join("filler");
    for place in seeds(2) {
        under(&mut server, &mut team, place, Excuses::FULL, |_, random| {
            let mut file = std::fs::File::create(&filler).unwrap();
            while std::io::Write::write_all(&mut file, &[7; 4096]).is_ok() {}
            std::thread::sleep(Duration::from_millis(500 + random.below(1000)));
            std::fs::remove_file(&filler).unwrap();
        });
        server.kill();
        server.start_again();
        ready(&server);
        let faults = team.faults(&server, Excuses::KILLED);
        assert!(faults.is_empty(), "{place:?}, after a kill: {faults:#?}");
    }
    finish(&server, &mut team);
    let api = Api::of(&server);
    let harness = api.harness();
    let last = api.ask(&json!({"input": "echo room again", "metadata": {"harness_id": harness}})).ok();
    assert_eq!(said(&last), "room again\n", "{}", text(&last["status"]));
    api.delete_sessions();
    nothing(&server);
    server.terminate();
}
