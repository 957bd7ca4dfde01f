//! Ten clients, kills at seeded moments, and after each of them a look at everything that was acknowledged.
//!
//! Rounds take turns: one dies at a moment with a name, the next after a seeded time, and the start that follows that one dies
//! at a moment of its own. `STEAD_CRASH_ROUNDS` and `STEAD_CRASH_SEED` make more of them, and the same ones again.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use stead_engine::MOMENTS;
use stead_testkit::ledger::Random;

use super::leftovers::nothing;
use super::oracle::Excuses;
use super::team::Team;
use crate::program::needs_root;
use crate::server::TestServer;

/// The least that is in flight at a kill.
const IN_FLIGHT: usize = 5;
/// How long a moment may take to come before the server is killed all the same.
const PATIENCE: Duration = Duration::from_secs(6);
/// Rounds on one data directory.
const SHARED: u32 = 10;

/// The moments that clients of this kind lead to.
fn moments(seed: &Random) -> Vec<&'static str> {
    let unlikely = ["import.opened", "import.fetched"];
    let starts =
        |moment: &str| unlikely.iter().any(|prefix| moment.starts_with(prefix)) || moment.starts_with("recovery.");
    let mut moments: Vec<&'static str> = MOMENTS.iter().copied().filter(|moment| !starts(moment)).collect();
    // A seeded order.
    let mut random = seed.part(1_000_001);
    for at in (1..moments.len()).rev() {
        moments.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap());
    }
    moments
}

/// How often a moment comes by in a second: one that comes often is not to be met at its first time only.
fn nth(moment: &str, random: &mut Random) -> u64 {
    1 + match moment {
        "commit.begun" | "commit.done" | "turn.output" => random.below(60),
        "turn.cancelling" => 0,
        _ if moment.starts_with("collect.") => 0,
        _ if moment.starts_with("turn.") || moment.starts_with("source.") => random.below(6),
        _ => random.below(2),
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// What there was of each moment.
#[derive(Debug, Default)]
struct Kills {
    count: usize,
    least: usize,
    most: usize,
}

struct Siege {
    server: TestServer,
    team: Team,
    arm: std::path::PathBuf,
}

impl Siege {
    fn new() -> Self {
        let settings = [
            ("sessions.idle_stop", "2s"),
            ("sessions.orphan_grace", "10s"),
            ("sessions.network", "disabled"),
            ("builds.network", "disabled"),
            // Blobs and layers that nothing names go while others are stored and named.
            ("collection.grace", "45s"),
            // As long as the grace allows: on a busy machine a build takes its time, and none of these needs ending.
            ("builds.time_limit", "45s"),
            ("git.time_limit", "45s"),
        ];
        let mut server = TestServer::start(&settings);
        let arm = server.data().join("crash-at");
        std::fs::write(&arm, "").unwrap();
        server.terminate();
        server.set("STEAD_CRASH_AT", &arm.display().to_string());
        server.start_again();
        let team = Team::new(&server);
        Self { server, team, arm }
    }

    fn arm(&self, moment: &str) {
        let new = self.arm.with_extension("new");
        std::fs::write(&new, moment).unwrap();
        std::fs::rename(new, &self.arm).unwrap();
    }

    /// Whether the server dies right after it was ready.
    fn dies_soon(&mut self) -> bool {
        std::thread::sleep(Duration::from_millis(50));
        self.server.is_dead()
    }

    /// One round; the moment of the death, and how much was in flight then.
    fn round(&mut self, round: u32, seed: &Random, moment: Option<&'static str>) -> (String, usize) {
        let mut random = seed.part(0);
        let at_work = self.team.begin(&self.server, round, seed);
        at_work.wait_for(IN_FLIGHT + 2);
        std::thread::sleep(Duration::from_millis(random.below(1200)));
        at_work.wait_for(IN_FLIGHT + 2);
        let mut died_at = "a time".to_owned();
        let began = Instant::now();
        let mut is_dead = false;
        if moment == Some("turn.taken_over") {
            // It is handed over first.
            self.server.hand_over();
            is_dead = true;
        } else if let Some(moment) = moment {
            let armed = format!("{moment}:{}", nth(moment, &mut random));
            self.arm(&armed);
            if moment == "turn.handed_over" {
                self.server.signal(rustix::process::Signal::TERM);
            }
            while !is_dead && began.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
                is_dead = self.server.is_dead();
            }
            moment.clone_into(&mut died_at);
            if !is_dead {
                // The count was too high for what the clients did; its first time will do.
                self.arm(moment);
                while !is_dead && began.elapsed() < PATIENCE * 2 {
                    std::thread::sleep(Duration::from_millis(1));
                    is_dead = self.server.is_dead();
                }
            }
        }
        if !is_dead {
            at_work.wait_for(IN_FLIGHT);
            "a time".clone_into(&mut died_at);
            self.server.kill();
        }
        let in_flight = at_work.in_flight(Instant::now());
        self.arm("");
        self.team.end(at_work);
        if moment == Some("turn.taken_over") {
            self.arm("turn.taken_over");
            if !self.server.start_if_it_lives() || self.dies_soon() {
                "turn.taken_over".clone_into(&mut died_at);
            }
            self.arm("");
            if died_at == "turn.taken_over" {
                self.server.start_again();
            }
        } else if moment.is_none() {
            let starts: Vec<&str> = MOMENTS
                .iter()
                .copied()
                .filter(|moment| moment.starts_with("recovery.") || moment.starts_with("commit."))
                .collect();
            let moment = random.pick(&starts).copied().unwrap();
            self.arm(&format!("{moment}:{}", 1 + random.below(3)));
            if !self.server.start_if_it_lives() || self.dies_soon() {
                died_at = format!("a time, then {moment}");
                self.arm("");
                self.server.start_again();
            }
            self.arm("");
        } else {
            self.server.start_again();
        }
        (died_at, in_flight)
    }
}

/// Says something whether or not tests are shown: the seeds and moments of rounds belong to the record.
pub(super) fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// What was refused that need not have been, each kind once.
pub(super) fn tell(refused: &[String]) {
    let mut kinds: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for line in refused {
        let code = line.split_once("\"code\":\"").and_then(|(_, rest)| rest.split('"').next()).unwrap_or(line);
        kinds.entry(code).or_insert((0, line)).0 += 1;
    }
    for (code, (count, line)) in kinds {
        print(&format!("  {count} times {code}, as {}", line.chars().take(300).collect::<String>()));
    }
}

/// So many rounds from a seed on; the table of kills.
fn rounds(count: u32, seed: u64) {
    let mut table: BTreeMap<String, Kills> = BTreeMap::new();
    let order = moments(&Random::of(seed));
    let mut siege = None;
    let began = Instant::now();
    for round in 0..count {
        if round % SHARED == 0 {
            finish(siege.take());
        }
        let siege = siege.get_or_insert_with(Siege::new);
        // A round's seed alone repeats it: `STEAD_CRASH_ROUNDS=1 STEAD_CRASH_SEED=<seed of the round>`.
        let own = seed.wrapping_add(u64::from(round));
        let moment = (round % 2 == 0).then(|| order[(round / 2) as usize % order.len()]);
        let moment = match std::env::var("STEAD_CRASH_MOMENT") {
            Ok(name) => MOMENTS.iter().copied().find(|moment| *moment == name),
            Err(_) => moment,
        };
        let (died_at, in_flight) = siege.round(round, &Random::of(own), moment);
        let (done, refused) = siege.team.said();
        let checked = Instant::now();
        let faults = siege.team.faults(&siege.server, Excuses::KILLED);
        print(&format!(
            "round {round}: seed {own}, meant {}, died at {died_at}, {in_flight} in flight, {} side effects; {:.1} s, looked {:.1} s; {done:?}",
            moment.unwrap_or("a time"),
            siege.team.effects(),
            began.elapsed().as_secs_f32(),
            checked.elapsed().as_secs_f32()
        ));
        tell(&refused);
        assert!(in_flight >= IN_FLIGHT, "round {round} (seed {own}): {in_flight} in flight");
        assert!(faults.is_empty(), "round {round} (seed {own}, {died_at}): {faults:#?}");
        let kills = table.entry(died_at).or_default();
        kills.least = if kills.count == 0 { in_flight } else { kills.least.min(in_flight) };
        kills.most = kills.most.max(in_flight);
        kills.count += 1;
    }
    finish(siege);
    print(&format!("\n{:<36} {:>6}  in flight", "died at", "kills"));
    for (moment, kills) in table {
        print(&format!("{moment:<36} {:>6}  {}-{}", kills.count, kills.least, kills.most));
    }
}

/// Deletes everything, after which nothing is left.
fn finish(siege: Option<Siege>) {
    let Some(mut siege) = siege else { return };
    siege.team.delete_everything(&siege.server);
    nothing(&siege.server);
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_runs_twice_however_often_the_server_is_killed() {
    needs_root!();
    let count = u32::try_from(number("STEAD_CRASH_ROUNDS", 20)).unwrap();
    rounds(count, number("STEAD_CRASH_SEED", 1));
}
