//! What lies on the machine and belongs to nobody.
//!
//! Looked for in the process table, the control groups, the mounts, the leases of user ids and the data directory, when nothing
//! runs any more.

use std::collections::BTreeSet;
use std::path::Path;

use crate::objects::{eventually, names, processes, unfinished_builds};
use crate::server::TestServer;

/// What there is by what the clients know.
#[derive(Debug, Default)]
pub(super) struct Owned {
    /// How many sessions there are.
    pub(super) sessions: usize,
    /// How many of them have run something.
    pub(super) worked: usize,
    /// Responses, by the hexadecimal of their ids.
    pub(super) responses: BTreeSet<String>,
    /// Versions that are ready, as project and number.
    pub(super) versions: BTreeSet<(String, u32)>,
}

/// The directories below a directory, by name.
fn below(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether a control group is that of a proxy which the server has started itself.
fn is_of_the_proxy(server: &TestServer, group: &Path) -> bool {
    let pids = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let own: Vec<String> = server.children().into_iter().map(|(pid, _)| pid.to_string()).collect();
    pids.lines().any(|pid| own.iter().any(|own| own == pid))
}

/// Everything that nobody owns.
fn strays(server: &TestServer, owned: &Owned) -> Vec<String> {
    let mut strays = Vec::new();
    let slots: BTreeSet<String> = names(server, "environments/slots").into_iter().collect();
    let environments =
        names(server, "environments").into_iter().filter(|name| name != "slots" && name != "place.json").count();
    if slots.len() != environments {
        strays.push(format!("{} slots are leased for {environments} environments", slots.len()));
    }
    if environments > owned.sessions || environments < owned.worked {
        let Owned { sessions, worked, .. } = owned;
        strays.push(format!("{environments} environments for {sessions} sessions, of which {worked} have worked"));
    }
    let named = |name: &str| name.strip_prefix('e').is_some_and(|slot| slots.contains(slot));
    let runs = names(server, "run").into_iter().filter(|name| name != "place.json" && name != "control.sock");
    strays.extend(runs.filter(|name| !named(name)).map(|name| format!("run/{name}")));
    for group in server.groups() {
        for child in below(&group).into_iter().filter(|child| group.join(child).is_dir()) {
            if !named(&child) && !is_of_the_proxy(server, &group.join(&child)) {
                strays.push(format!("{}/{child}", group.display()));
            }
        }
    }
    let first = server.uids().start;
    for line in processes(server) {
        let status = line.split(' ').next().map(|path| format!("{path}/status")).unwrap_or_default();
        let status = std::fs::read_to_string(status).unwrap_or_default();
        let uid = status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|uids| uids.split_whitespace().next()?.parse::<u32>().ok());
        let Some(uid) = uid else { continue };
        if !slots.contains(&((uid - first) / 65_536).to_string()) {
            strays.push(line);
        }
    }
    let data = server.data().display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let beneath = format!("{data}/");
    strays.extend(mounts.lines().filter(|line| line.contains(&beneath)).map(|line| format!("mount {line}")));
    strays.extend(unfinished_builds(server));
    strays.extend(names(server, "spool").into_iter().map(|name| format!("spool/{name}")));
    strays.extend(names(server, "handovers").into_iter().map(|name| format!("handovers/{name}")));
    for log in names(server, "logs") {
        if let Some(turn) = log.strip_suffix(".output").filter(|turn| !owned.responses.contains(*turn)) {
            strays.push(format!("logs/{turn}.output"));
        }
    }
    let projects = server.data().join("projects");
    for workspace in below(&projects) {
        for project in below(&projects.join(&workspace)) {
            let versions = projects.join(&workspace).join(&project).join("versions");
            for number in below(&versions) {
                let known = number.parse().is_ok_and(|number| owned.versions.contains(&(project.clone(), number)));
                if !known {
                    strays.push(format!("projects/{workspace}/{project}/versions/{number}"));
                }
            }
        }
    }
    strays.extend(strangers(server, &data));
    strays
}

/// Processes that name the data directory, and whose forebears do not lead to the server.
fn strangers(server: &TestServer, data: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in below(Path::new("/proc")) {
        let Ok(pid) = entry.parse::<i32>() else { continue };
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
        if !command.contains(data) || pid == std::process::id().cast_signed() {
            continue;
        }
        let mut forebear = pid;
        while forebear > 1 && forebear != server.pid() {
            let status = std::fs::read_to_string(format!("/proc/{forebear}/status")).unwrap_or_default();
            let parent = status
                .lines()
                .find_map(|line| line.strip_prefix("PPid:"))
                .and_then(|parent| parent.trim().parse().ok());
            forebear = parent.unwrap_or(0);
        }
        // One that is gone meanwhile has no parent.
        if forebear == 1 {
            found.push(format!("process {pid}: {command}"));
        }
    }
    found
}

/// What nobody owns, once what is on its way out has gone.
pub(super) fn left_over(server: &TestServer, owned: &Owned, patience: std::time::Duration) -> Vec<String> {
    let began = std::time::Instant::now();
    loop {
        let strays = strays(server, owned);
        if strays.is_empty() || began.elapsed() > patience {
            return strays;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Waits until nothing at all is left, after everything was deleted.
pub(super) fn nothing(server: &TestServer) {
    eventually("that nothing is left over", || {
        let strays = strays(server, &Owned::default());
        if strays.is_empty() { Ok(()) } else { Err(format!("{strays:#?}")) }
    });
}
