//! What a client does with its projects.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::ledger::{Build, Project, Tree};

use super::client::Client;
use super::requests::Sent;
use crate::objects::text;

/// Paths that files of a project have. No name is a file here and a directory there.
const PATHS: [&str; 8] = ["a.txt", "b.bin", "c.txt", "d/e.txt", "d/f.bin", "g/h/i.txt", "g/j.txt", "k.txt"];

fn archive(tree: &Tree) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content) in tree {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, content.as_slice()).unwrap();
    }
    archive.into_inner().unwrap()
}

impl Client {
    /// The place of a project that is there, as far as is known.
    fn a_project(&mut self) -> Option<usize> {
        let there: Vec<usize> = (0..self.projects.len()).filter(|at| self.projects[*at].is_usable()).collect();
        self.random.pick(&there).copied()
    }

    fn content(&mut self) -> Vec<u8> {
        let length = match self.random.below(10) {
            0 => 300_000,
            1 => 0,
            _ => 20 + self.random.below(3000),
        };
        self.random.bytes(usize::try_from(length).unwrap_or(0))
    }

    /// A script that a build runs, and that says so.
    fn setup(&mut self) -> Vec<u8> {
        let name = self.name("b");
        let pause = self.random.below(900);
        format!("echo ran-{name}\nsleep 0.{pause:03}\necho {name} > made.txt\n").into_bytes()
    }

    pub(super) fn make_project(&mut self) -> bool {
        let name = self.name("p");
        self.projects.push(Project::asked(name.clone()));
        let body = json!({ "name": name }).to_string();
        let sent =
            self.asker.send("POST", "/v1/environments", &[("Content-Type", "application/json")], body.as_bytes());
        match sent {
            Sent::Done(made) => {
                if let Some(project) = self.projects.last_mut() {
                    project.id = Some(text(&made["id"]).to_owned());
                    project.exists.acknowledge();
                }
                true
            }
            Sent::Refused => {
                self.projects.pop();
                true
            }
            Sent::Lost => false,
        }
    }

    /// Changes the files of a project by a request.
    fn edit(&mut self, at: usize, tree: Tree, method: &str, path: &str, body: &[u8]) -> bool {
        let project = &mut self.projects[at];
        let path = format!("/v1/environments/{}/{path}", project.id.clone().unwrap_or_default());
        project.tree.ask(tree);
        let sent = self.asker.send(method, &path, &[("Content-Type", "application/octet-stream")], body);
        match sent {
            Sent::Done(_) => project.tree.acknowledge(),
            Sent::Refused => project.tree.refuse(),
            Sent::Lost => return false,
        }
        true
    }

    pub(super) fn write_file(&mut self) -> bool {
        let Some(at) = self.a_project() else { return true };
        let content = self.content();
        let path = PATHS[usize::try_from(self.random.below(PATHS.len() as u64)).unwrap_or(0)];
        let mut tree = self.projects[at].tree.certain().clone();
        tree.insert(path.to_owned(), content.clone());
        self.edit(at, tree, "PUT", &format!("files/{path}"), &content)
    }

    pub(super) fn remove_file(&mut self) -> bool {
        let Some(at) = self.a_project() else { return true };
        let mut tree = self.projects[at].tree.certain().clone();
        let paths: Vec<String> = tree.keys().cloned().collect();
        let Some(path) = self.random.pick(&paths).cloned() else { return true };
        tree.remove(&path);
        self.edit(at, tree, "DELETE", &format!("files/{path}"), b"")
    }

    pub(super) fn import(&mut self) -> bool {
        let Some(at) = self.a_project() else { return true };
        let mut sent = Tree::new();
        // Two names at the top, or the one there is would be taken for a wrapping directory.
        for path in ["a.txt", "c.txt"] {
            sent.insert(path.to_owned(), self.content());
        }
        for path in PATHS {
            if self.random.chance(50) {
                let content = self.content();
                sent.insert(path.to_owned(), content);
            }
        }
        if self.random.chance(50) {
            let setup = self.setup();
            sent.insert("setup.sh".to_owned(), setup);
        }
        let replace = self.random.chance(50);
        let mut tree = if replace { Tree::new() } else { self.projects[at].tree.certain().clone() };
        tree.extend(sent.clone());
        self.edit(at, tree, "POST", if replace { "import?replace=1" } else { "import" }, &archive(&sent))
    }

    pub(super) fn build(&mut self) -> bool {
        let Some(at) = self.a_project() else { return true };
        if self.random.chance(60) || self.projects[at].tree.certain().is_empty() {
            let setup = self.setup();
            let mut tree = self.projects[at].tree.certain().clone();
            tree.insert("setup.sh".to_owned(), setup.clone());
            if !self.edit(at, tree, "PUT", "files/setup.sh", &setup) {
                return false;
            }
        }
        if self.projects[at].builds_now() && !self.look_at_build(at) {
            return false;
        }
        let project = &mut self.projects[at];
        if project.builds_now() {
            return true;
        }
        let tree = project.tree.certain().clone();
        let path = format!("/v1/environments/{}/build", project.id.clone().unwrap_or_default());
        project.asked_build = Some(tree.clone());
        let sent = self.asker.send("POST", &path, &[], b"");
        if matches!(sent, Sent::Lost) {
            return false;
        }
        project.asked_build = None;
        if let Sent::Done(begun) = sent {
            let number = u32::try_from(begun["version"].as_u64().unwrap()).unwrap();
            // A build takes longer than this whatever it does.
            let until = Instant::now() + Duration::from_millis(20);
            self.asker.in_flight.runs_until(until);
            project.builds.insert(number, Build::of(tree, Some(until)));
        }
        true
    }

    /// Reads how the newest build stands.
    fn look_at_build(&mut self, at: usize) -> bool {
        let project = &mut self.projects[at];
        let Some((number, build)) = project.builds.iter_mut().next_back() else { return true };
        let path = format!("/v1/environments/{}/builds/{number}", project.id.clone().unwrap_or_default());
        match self.asker.send("GET", &path, &[], b"") {
            Sent::Done(record) => {
                build.end = ended(&record);
                true
            }
            Sent::Refused => true,
            Sent::Lost => false,
        }
    }

    pub(super) fn cancel_build(&mut self) -> bool {
        let building = self.projects.iter_mut().find(|project| project.is_usable() && project.builds_now());
        let Some(project) = building else { return true };
        let Some((number, build)) = project.builds.iter_mut().next_back() else { return true };
        build.cancelled = true;
        let path = format!("/stead/v1/projects/{}/builds/{number}/cancel", project.id.clone().unwrap_or_default());
        !matches!(self.asker.send("POST", &path, &[], b""), Sent::Lost)
    }

    pub(super) fn activate(&mut self) -> bool {
        let Some(at) = self.a_project() else { return true };
        let project = &mut self.projects[at];
        let ready = project.builds.iter().find(|(_, build)| build.stands());
        let Some(number) = ready.map(|(number, _)| *number) else { return true };
        project.activated = true;
        let path = format!("/v1/environments/{}/versions/{number}/activate", project.id.clone().unwrap_or_default());
        !matches!(self.asker.send("POST", &path, &[], b""), Sent::Lost)
    }

    pub(super) fn delete_project(&mut self) -> bool {
        let Some(at) = self.a_project() else { return true };
        let project = &mut self.projects[at];
        let path = format!("/v1/environments/{}", project.id.clone().unwrap_or_default());
        project.exists.ask(false);
        match self.asker.send("DELETE", &path, &[], b"") {
            Sent::Done(_) => {
                self.projects.remove(at);
                self.gone.push(path);
                true
            }
            Sent::Refused => {
                project.exists.refuse();
                true
            }
            Sent::Lost => false,
        }
    }

    /// Gives up the files of an old version.
    pub(super) fn give_up(&mut self) -> bool {
        let Some(at) = self.a_project() else { return true };
        let project = &mut self.projects[at];
        let Some((number, build)) = project.builds.iter_mut().find(|(_, build)| build.stands()) else { return true };
        let path = format!("/stead/v1/projects/{}/versions/{number}", project.id.clone().unwrap_or_default());
        build.given_up.ask(true);
        match self.asker.send("DELETE", &path, &[], b"") {
            Sent::Done(_) => build.given_up.acknowledge(),
            // It is the active one, or a task reads it.
            Sent::Refused => build.given_up.refuse(),
            Sent::Lost => return false,
        }
        true
    }

    pub(super) fn collect(&mut self) -> bool {
        !matches!(self.asker.send("POST", "/stead/v1/collect", &[], b""), Sent::Lost)
    }
}

/// How a build ended, unless it goes on.
pub(super) fn ended(record: &Value) -> Option<String> {
    record["status"].as_str().filter(|status| *status != "building").map(str::to_owned)
}
