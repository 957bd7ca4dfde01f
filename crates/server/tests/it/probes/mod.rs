//! Ways out of a session, tried from inside real ones: of a server that is root, and of one that is an ordinary user.
//!
//! Each row says what counts as refused. Where what it tries is harmless and undone, the same code first runs as root in a
//! throw-away namespace outside of any session, and only when it succeeds there does its failure in a session say something.
//! What could do harm is only ever called with arguments that cannot take effect.

use crate::program::needs_root;
use crate::server::TestServer;

mod devices;
mod files;
mod floods;
mod kernel;
mod mounts;
mod namespaces;
mod network;
mod privileges;
mod processes;
mod procfs;
mod sockets;
mod stage;
mod table;

/// One attempt.
pub(crate) struct Probe {
    pub(crate) name: String,
    /// Python, run by `stage.py`.
    pub(crate) code: String,
    /// The only answers that count as refused.
    pub(crate) refusals: &'static [&'static str],
    pub(crate) control: Control,
}

/// What the same attempt must come to outside of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// It succeeds in a throw-away namespace.
    Succeeds,
    /// It succeeds on the host itself, where what it looks for is.
    SucceedsOnHost,
    /// The kernel answers it in a throw-away namespace, with whatever, but not with the refusal: the arguments cannot take effect.
    Reaches,
    /// There is none, for this reason.
    None(&'static str),
}

use Control::{None as Without, Reaches, Succeeds, SucceedsOnHost};

pub(crate) fn probe(
    name: impl Into<String>,
    code: impl Into<String>,
    refusals: &'static [&'static str],
    control: Control,
) -> Probe {
    Probe { name: name.into(), code: code.into(), refusals, control }
}

const EPERM: &[&str] = &["EPERM"];
const EACCES: &[&str] = &["EACCES"];
const ENOENT: &[&str] = &["ENOENT"];
const ENOSYS: &[&str] = &["ENOSYS"];
const ESRCH: &[&str] = &["ESRCH"];
const EROFS: &[&str] = &["EROFS"];
/// Refused by the mount or, before that is looked at, by the owner.
const SEALED: &[&str] = &["EROFS", "EACCES"];
/// Refused by capability or by owner.
const DENIED: &[&str] = &["EPERM", "EACCES"];
/// Not there, or not for this user: some kernels have it and some do not.
const SHUT: &[&str] = &["EACCES", "EPERM", "ENOENT"];
const NONE: &[&str] = &["none"];

/// All of them, by theme.
pub(crate) fn themes() -> Vec<(&'static str, Vec<Probe>)> {
    vec![
        ("Files", files::probes()),
        ("Mounts", mounts::probes()),
        ("Namespaces", namespaces::probes()),
        ("The kernel", kernel::probes()),
        ("What /proc shows", procfs::probes()),
        ("Processes", processes::probes()),
        ("Privileges", privileges::probes()),
        ("Devices", devices::probes()),
        ("Network", network::probes()),
        ("Sockets", sockets::probes()),
        ("Floods", floods::probes()),
    ]
}

#[test]
fn every_way_out_of_a_session_is_closed() {
    needs_root!();
    let themes = themes();
    let all: Vec<&Probe> = themes.iter().flat_map(|(_, probes)| probes).collect();
    let mut names: Vec<&str> = all.iter().map(|probe| probe.name.as_str()).collect();
    names.sort_unstable();
    let twice: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");

    let bait = stage::Bait::lay();
    let settings = [("sessions.network", "enabled")];
    let servers = [
        ("a session of root", TestServer::start(&settings)),
        ("a session of a user", TestServer::start_as_user(&settings)),
    ];
    let places: Vec<stage::Place<'_>> = servers.iter().map(|(who, server)| stage::Place::make(who, server)).collect();
    let control = stage::control(&bait, &places[0], &all);
    while bait.visited() {}
    let in_builds = ["Mounts", "Namespaces", "The kernel", "What /proc shows", "Processes", "Privileges", "Sockets"];
    let in_builds = themes.iter().filter(|(theme, _)| in_builds.contains(theme));
    let in_builds: Vec<&Probe> = in_builds.flat_map(|(_, probes)| probes).collect();
    let sessions = std::thread::scope(|scope| {
        let sessions: Vec<_> =
            places.iter().map(|place| (place.who, scope.spawn(|| place.session(&bait, &all)))).collect();
        let build = ("a build of root", scope.spawn(|| places[0].build(&bait, &in_builds)));
        let ended = sessions.into_iter().chain([build]).map(|(who, running)| (who, running.join().unwrap()));
        ended.collect::<Vec<_>>()
    });
    assert!(!bait.visited(), "a session reached the host's loopback");
    for place in &places {
        place.is_whole();
    }
    let table = table::table(&themes, &control, &sessions);
    println!("{table}");
    let wrong: Vec<String> = all.iter().flat_map(|probe| table::judge(probe, &control, &sessions)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    table::keep(&table);
}
