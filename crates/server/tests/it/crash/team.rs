//! Ten clients of two workspaces, their work, and the look at what came of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stead_testkit::ledger::{Counter, Random};

use super::client::Client;
use super::leftovers::{Owned, left_over};
use super::oracle::{Excuses, View, name_in};
use super::requests::InFlight;
use crate::api::Api;
use crate::objects::{names, text};
use crate::server::TestServer;

/// How many clients there are.
const CLIENTS: usize = 10;

/// The clients.
#[derive(Debug)]
pub(super) struct Team {
    keys: [String; 2],
    clients: Vec<Client>,
    counter: Counter,
}

/// Clients at work, each in a thread of its own.
pub(super) struct AtWork {
    threads: Vec<std::thread::JoinHandle<Client>>,
    in_flight: Vec<Arc<InFlight>>,
    stops: Vec<Arc<std::sync::atomic::AtomicBool>>,
}

impl AtWork {
    /// How much is in flight at a moment.
    pub(super) fn in_flight(&self, moment: Instant) -> usize {
        self.in_flight.iter().map(|one| one.at(moment)).sum()
    }

    /// Waits until so much is in flight.
    pub(super) fn wait_for(&self, least: usize) {
        let began = Instant::now();
        while self.in_flight(Instant::now()) < least {
            assert!(began.elapsed() < Duration::from_secs(30), "the clients do not get to work");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Tells the clients to finish what they are at.
    pub(super) fn stop(&self) {
        self.stops.iter().for_each(|stop| stop.store(true, Ordering::SeqCst));
    }
}

impl Team {
    pub(super) fn new(server: &TestServer) -> Self {
        let apis = [Api::of(server), Api::of_tenant(server, "second")];
        let mut clients = Vec::new();
        for (workspace, api) in apis.iter().enumerate() {
            let harness = api.harness();
            let share = (0..CLIENTS).filter(|number| number % 2 == workspace);
            clients.extend(share.map(|number| Client::new(number, workspace, api, &harness)));
        }
        Self { keys: apis.map(|api| api.key().to_owned()), clients, counter: Counter::default() }
    }

    /// Sends the clients to work.
    pub(super) fn begin(&mut self, server: &TestServer, round: u32, seed: &Random) -> AtWork {
        let mut at_work = AtWork { threads: Vec::new(), in_flight: Vec::new(), stops: Vec::new() };
        for mut client in std::mem::take(&mut self.clients) {
            client.enter(round, seed, &Api::with_key(server, &self.keys[client.workspace]));
            at_work.in_flight.push(Arc::clone(&client.asker.in_flight));
            at_work.stops.push(Arc::clone(&client.asker.stop));
            at_work.threads.push(std::thread::spawn(move || {
                client.work();
                client
            }));
        }
        at_work
    }

    /// Takes the clients back when they have come to an end.
    pub(super) fn end(&mut self, at_work: AtWork) {
        at_work.stop();
        self.clients = at_work.threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    }

    /// What was refused, and how often what was done.
    pub(super) fn said(&self) -> (BTreeMap<&'static str, usize>, Vec<String>) {
        let mut done = BTreeMap::new();
        for what in self.clients.iter().flat_map(|client| &client.done) {
            *done.entry(*what).or_default() += 1;
        }
        (done, self.clients.iter().flat_map(|client| client.asker.refused.iter().cloned()).collect())
    }

    /// Counts the side effects that lie in the working directories.
    fn count(&mut self, server: &TestServer) {
        let environments = names(server, "environments").into_iter();
        let files: Vec<PathBuf> =
            environments.map(|name| server.data().join("environments").join(name).join("work/marks")).collect();
        self.counter.count(files.iter().map(PathBuf::as_path));
    }

    /// Everything that is wrong with the server after a round.
    pub(super) fn faults(&mut self, server: &TestServer, excuses: Excuses) -> Vec<String> {
        // What is in a directory that goes is counted as long as it is there.
        self.count(server);
        let mut faults = Vec::new();
        let projects = [0, 1].map(|workspace| self.attribute(server, workspace, &mut faults));
        faults.extend(self.each(server, |client| {
            let workspace = client.workspace;
            client.settle(&projects[workspace])
        }));
        self.count(server);
        faults.extend(self.counter.twice().into_iter().map(|name| format!("{name} ran twice")));
        let counter = std::mem::take(&mut self.counter);
        let view = View { counter: &counter, data: server.data(), excuses };
        faults.extend(self.each(server, |client| client.judge(&view)));
        self.counter = counter;
        let owned = self.owned();
        let strays = left_over(server, &owned, Duration::from_secs(20));
        faults.extend(strays.into_iter().map(|stray| format!("left over: {stray}")));
        faults
    }

    fn each(&mut self, server: &TestServer, look: impl Fn(&mut Client) -> Vec<String> + Sync) -> Vec<String> {
        let keys = &self.keys;
        std::thread::scope(|scope| {
            let look = &look;
            let threads = self.clients.iter_mut().map(|client| {
                scope.spawn(move || {
                    client.asker.api = Api::with_key(server, &keys[client.workspace]);
                    look(client)
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Finds whose the sessions are that nobody knows, by the names of their tasks, and says which projects there are.
    fn attribute(
        &mut self,
        server: &TestServer,
        workspace: usize,
        faults: &mut Vec<String>,
    ) -> BTreeMap<String, String> {
        let api = Api::with_key(server, &self.keys[workspace]);
        let mut cursor = String::new();
        loop {
            let listed = api.get(&format!("/v1/sessions?limit=100{cursor}")).ok();
            for session in listed["sessions"].as_array().into_iter().flatten() {
                let id = text(&session["id"]);
                let own = self.clients.iter().filter(|client| client.workspace == workspace);
                let known = own.flat_map(|client| &client.sessions).any(|session| session.id.as_deref() == Some(id));
                if !known {
                    let title = text(&session["title"]).to_owned();
                    let sessions = self
                        .clients
                        .iter_mut()
                        .filter(|client| client.workspace == workspace)
                        .flat_map(|client| &mut client.sessions);
                    let whose = sessions
                        .filter(|session| session.id.is_none())
                        .find(|session| session.tasks.first().is_some_and(|task| task.name == name_in(&title)));
                    match whose {
                        Some(session) => session.id = Some(id.to_owned()),
                        None => faults.push(format!("session {id} is nobody's: {title}")),
                    }
                }
            }
            match listed["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let listed = api.get("/v1/environments").ok();
        let projects = listed["environments"].as_array().into_iter().flatten();
        projects.map(|project| (text(&project["name"]).to_owned(), text(&project["id"]).to_owned())).collect()
    }

    fn owned(&self) -> Owned {
        let mut owned = Owned::default();
        for client in &self.clients {
            for session in &client.sessions {
                owned.sessions += 1;
                let completed = |status: &str| status == "completed";
                owned.worked += usize::from(
                    session.tasks.iter().any(|task| task.end.as_ref().is_some_and(|end| completed(&end.status))),
                );
                let responses = session.tasks.iter().filter_map(|task| task.response.as_deref());
                owned.responses.extend(responses.map(|id| id.trim_start_matches("resp_").to_owned()));
            }
            for project in &client.projects {
                let id = project.id.clone().unwrap_or_default();
                let ready = project.builds.iter().filter(|(_, build)| build.stands());
                let hex = id.trim_start_matches("henv_").to_owned();
                owned.versions.extend(ready.map(|(number, _)| (hex.clone(), *number)));
            }
        }
        owned
    }

    /// Deletes everything.
    pub(super) fn delete_everything(&mut self, server: &TestServer) {
        for key in &self.keys {
            let api = Api::with_key(server, key);
            api.delete_sessions();
            for project in api.get("/v1/environments").ok()["environments"].as_array().unwrap() {
                let deleted = api.delete(&format!("/v1/environments/{}", text(&project["id"])));
                assert_eq!(deleted.status, 200, "{}", deleted.text());
            }
        }
    }

    /// How many side effects there were.
    pub(super) fn effects(&self) -> usize {
        self.counter.len()
    }
}
