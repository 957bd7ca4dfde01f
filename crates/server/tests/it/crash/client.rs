//! One of the clients: it does something, remembers it, and does the next thing, until it is stopped or its server is gone.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use stead_testkit::ledger::{Project, Random, Session};

use super::requests::{Asker, InFlight};
use crate::api::Api;

/// Sessions that a client keeps at once.
const SESSIONS: usize = 2;

/// A client with all that it knows.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its place among the clients.
    pub(super) number: usize,
    /// Its workspace's place among the workspaces.
    pub(super) workspace: usize,
    pub(super) harness: String,
    pub(super) asker: Asker,
    pub(super) random: Random,
    pub(super) projects: Vec<Project>,
    pub(super) sessions: Vec<Session>,
    /// Paths that were deleted.
    pub(super) gone: Vec<String>,
    /// What it has done, by the word.
    pub(super) done: Vec<&'static str>,
    round: u32,
    named: u32,
}

impl Client {
    pub(crate) fn new(number: usize, workspace: usize, api: &Api, harness: &str) -> Self {
        let asker = Asker {
            api: api.clone(),
            in_flight: Arc::new(InFlight::default()),
            stop: Arc::new(AtomicBool::new(false)),
            refused: Vec::new(),
        };
        Self {
            number,
            workspace,
            harness: harness.to_owned(),
            asker,
            random: Random::of(0),
            projects: Vec::new(),
            sessions: Vec::new(),
            gone: Vec::new(),
            done: Vec::new(),
            round: 0,
            named: 0,
        }
    }

    /// Gets ready for a round.
    pub(super) fn enter(&mut self, round: u32, seed: &Random, api: &Api) {
        self.round = round;
        self.random = seed.part(self.number as u64 + 1);
        self.asker.api = api.clone();
        self.asker.in_flight = Arc::new(InFlight::default());
        self.asker.stop = Arc::new(AtomicBool::new(false));
        self.asker.refused.clear();
        self.done.clear();
    }

    /// A name that nobody else has.
    pub(super) fn name(&mut self, kind: &str) -> String {
        self.named += 1;
        format!("{kind}-{}-{}-{}", self.round, self.number, self.named)
    }

    /// Works until it is stopped or its server does not answer any more.
    pub(super) fn work(&mut self) {
        while !self.asker.stopped() {
            let (what, goes_on) = self.step();
            self.done.push(what);
            if !goes_on && !self.outlasts() {
                return;
            }
        }
    }

    /// After a request without an answer: whether there is still a server, which answers a moment later.
    fn outlasts(&self) -> bool {
        std::thread::sleep(Duration::from_millis(50));
        self.asker.api.try_send("GET", "/v1/uhp", &[], b"").is_some()
    }

    /// One thing, and whether it was answered.
    fn step(&mut self) -> (&'static str, bool) {
        if !self.projects.iter().any(Project::is_usable) {
            return ("make a project", self.make_project());
        }
        match self.random.below(100) {
            0..13 => ("write a file", self.write_file()),
            13..17 => ("remove a file", self.remove_file()),
            17..26 => ("import", self.import()),
            26..36 => ("build", self.build()),
            36..38 => ("cancel a build", self.cancel_build()),
            38..40 => ("activate", self.activate()),
            40..53 => ("task", self.task("blocking")),
            53..65 => ("streamed task", self.task("streaming")),
            65..82 => ("background task", self.task("background")),
            82..88 => ("cancel", self.cancel()),
            88..93 => ("delete a session", self.delete_session()),
            93..95 => ("delete a project", self.delete_project()),
            95..96 => ("give up a version", self.give_up()),
            96..98 => ("collect", self.collect()),
            _ => ("look", self.look()),
        }
    }

    /// A session to work in: its place, or none for a new one.
    pub(super) fn a_session(&mut self) -> Option<usize> {
        let can_work = |session: &Session| session.is_usable() && session.is_idle();
        let usable: Vec<usize> = (0..self.sessions.len()).filter(|at| can_work(&self.sessions[*at])).collect();
        let full = self.sessions.len() >= SESSIONS;
        if usable.is_empty() || (!full && self.random.chance(40)) { None } else { self.random.pick(&usable).copied() }
    }

    /// Whether a new session would be one too many.
    pub(super) fn is_full(&self) -> bool {
        self.sessions.len() >= SESSIONS
    }
}
