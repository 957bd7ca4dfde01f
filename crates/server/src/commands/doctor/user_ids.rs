//! The host's user ids that sessions get, and who else may have them.

use std::fs;
use std::path::Path;

use stead_provider_native::{IdHolder, RANGES, UIDS_PER_SLOT, accounts, range_of};

use super::Finding;

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
    .chain(services(Path::new(RANGES)))
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

fn judge(base: u32, slots: u32, holders: &[IdHolder]) -> Finding {
    let name = "user id range";
    let ids = range_of(base, slots);
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

/// Other servers of this machine, each with its ids.
fn services(notes: &Path) -> Option<Finding> {
    let notes: Vec<String> = stead_provider_native::services(notes)
        .into_iter()
        .map(|service| format!("{} has {} to {}", service.who, service.ids.start, service.ids.end.saturating_sub(1)))
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
        // One counts when its data directory says the same.
        let data = notes.path().join("data");
        fs::create_dir_all(data.join("environments")).unwrap();
        let place = serde_json::json!({"data": data, "node": "n", "uid_base": 6});
        fs::write(data.join("environments/place.json"), place.to_string()).unwrap();
        write("6", &data);
        assert!(services(notes.path()).unwrap().explanation.ends_with("has 5 to 14"));
    }
}
