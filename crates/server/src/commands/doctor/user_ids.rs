//! The host's user ids that sessions get, and who else may have them.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stead_provider_native::UIDS_PER_SLOT;

use super::Finding;

/// Where the services of a machine note which ids they have.
const NOTES: &str = "/var/lib/stead-uids";

/// A note of another service.
#[derive(Debug, Deserialize)]
struct Note {
    first: u32,
    count: u32,
    data: PathBuf,
}

/// Somebody who has ids of the host.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    ids: Range<u32>,
    who: String,
}

pub(super) fn findings(is_root: bool, uid_base: Option<u32>, slots: u32) -> Vec<Finding> {
    if !is_root {
        return vec![account(rustix::process::geteuid().as_raw(), &read_passwd())];
    }
    let holders = accounts(Path::new("/etc"));
    vec![match uid_base {
        Some(base) => judge(base, slots, &holders),
        None => {
            Finding::good("user id range", "the server finds a range of ids that no account and no other server has")
        }
    }]
    .into_iter()
    .chain(services(Path::new(NOTES)))
    .collect()
}

fn read_passwd() -> String {
    fs::read_to_string("/etc/passwd").unwrap_or_default()
}

/// The one account that the server and all sessions have, when the server is an ordinary user.
fn account(uid: u32, passwd: &str) -> Finding {
    let entry = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.get(2).and_then(|id| id.parse().ok()) == Some(uid));
    let who = entry.as_ref().map_or_else(|| format!("user id {uid}"), |fields| format!("{} ({uid})", fields[0]));
    let shell = entry.as_ref().and_then(|fields| fields.get(6)).copied().unwrap_or("/usr/sbin/nologin");
    if shell.ends_with("/nologin") || shell.ends_with("/false") {
        return Finding::good("account", format!("{who}, in which nobody works"));
    }
    let text = format!(
        "{who} is somebody's: every program of theirs can read and end the sessions, and a session that left its namespaces \
         would have their rights"
    );
    let fix = "useradd --system --create-home --shell /usr/sbin/nologin stead, and run the server as that user";
    Finding::partial("account", text, Some(fix.to_owned()))
}

fn judge(base: u32, slots: u32, holders: &[Holder]) -> Finding {
    let name = "user id range";
    let ids = base..base.saturating_add(slots.saturating_mul(UIDS_PER_SLOT));
    let clash: Vec<&str> = holders
        .iter()
        .filter(|holder| holder.ids.start < ids.end && ids.start < holder.ids.end)
        .map(|holder| holder.who.as_str())
        .collect();
    let text = format!("{} to {}, {slots} sessions and build steps of {UIDS_PER_SLOT} each", ids.start, ids.end - 1);
    if clash.is_empty() {
        return Finding::good(name, text + "; no account of this machine has any of them");
    }
    let text = format!("{text}; also had by {}, whose files sessions could be given", clash.join(", "));
    Finding::missing(name, true, text, Some("leave native.uid_base unset, or choose another".to_owned()))
}

/// Accounts, groups and the ranges that users may map, by the host's files.
fn accounts(etc: &Path) -> Vec<Holder> {
    let read = |name: &str| fs::read_to_string(etc.join(name)).unwrap_or_default();
    let mut holders = Vec::new();
    for (file, what) in [("passwd", "account"), ("group", "group")] {
        holders.extend(read(file).lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let id: u32 = fields.nth(1)?.parse().ok()?;
            Some(Holder { ids: id..id.saturating_add(1), who: format!("the {what} {name}") })
        }));
    }
    for file in ["subuid", "subgid"] {
        holders.extend(read(file).lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let first: u32 = fields.next()?.trim().parse().ok()?;
            let count: u32 = fields.next()?.trim().parse().ok()?;
            Some(Holder { ids: first..first.saturating_add(count), who: format!("{name} in /etc/{file}") })
        }));
    }
    holders
}

/// Other servers of this machine, each with its ids.
fn services(notes: &Path) -> Option<Finding> {
    let notes: Vec<String> = fs::read_dir(notes)
        .ok()?
        .flatten()
        .filter_map(|entry| serde_json::from_slice::<Note>(&fs::read(entry.path()).ok()?).ok())
        .filter(|note| note.data.exists())
        .map(|note| {
            let last = note.first.saturating_add(note.count).saturating_sub(1);
            format!("{} has {} to {last}", note.data.display(), note.first)
        })
        .collect();
    (!notes.is_empty()).then(|| Finding::good("user ids in use", format!("by data directory: {}", notes.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::super::Standing;
    use super::*;

    #[test]
    fn a_range_that_an_account_lies_in_is_refused_by_name() {
        let etc = tempfile::tempdir().unwrap();
        fs::write(etc.path().join("passwd"), "root:x:0:0::/:/bin/sh\nann:x:700000:700000::/:/bin/sh\nbroken\n")
            .unwrap();
        fs::write(etc.path().join("subuid"), "bob:800000:65536\n").unwrap();
        let holders = accounts(etc.path());
        let found = judge(650_000, 4, &holders);
        assert_eq!(found.standing, Standing::Missing);
        assert!(found.explanation.contains("the account ann, bob in /etc/subuid"), "{found:?}");
        assert_eq!(judge(1_000_000, 4, &holders).standing, Standing::Good);
        assert_eq!(judge(400_000, 4, &holders).standing, Standing::Good, "the end is not part of it");
    }

    #[test]
    fn an_account_in_which_somebody_works_is_named() {
        let passwd =
            "root:x:0:0::/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/bash\nstead:x:990:990::/:/usr/sbin/nologin\n";
        let ann = account(1000, passwd);
        assert!(
            ann.standing == Standing::Partial && ann.explanation.starts_with("ann (1000) is somebody's"),
            "{ann:?}"
        );
        assert_eq!(account(990, passwd).standing, Standing::Good);
        assert_eq!(account(54_321, passwd).standing, Standing::Good);
    }

    #[test]
    fn notes_of_services_that_are_gone_say_nothing() {
        let notes = tempfile::tempdir().unwrap();
        let write = |name: &str, data: &Path| {
            let note = format!("{{\"first\":5,\"count\":10,\"data\":{:?},\"node\":\"n\"}}", data.display().to_string());
            fs::write(notes.path().join(name), note).unwrap();
        };
        write("5", Path::new("/nonexistent/data"));
        assert!(services(notes.path()).is_none());
        write("6", notes.path());
        assert!(services(notes.path()).unwrap().explanation.ends_with("has 5 to 14"));
    }
}
