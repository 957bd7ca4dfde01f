//! The table of what was seen, and its judge.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::stage::Answers;
use super::{Control, Probe};

/// A kernel that lacks something says so by one of these: then nothing was proven, and nothing was there to be reached.
const LACKING: [&str; 5] = ["ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "ENODEV"];

/// What is wrong with a probe's answers.
pub(super) fn judge(probe: &Probe, control: &Answers, sessions: &[(&str, Answers)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let outside = control.get(&probe.name).map_or("", String::as_str);
    let proven = match probe.control {
        Control::Succeeds | Control::SucceedsOnHost => outside == "OK",
        Control::Reaches => !outside.is_empty() && !probe.refusals.contains(&outside),
        Control::None(_) => true,
    };
    if !proven {
        wrong.push(format!("{}: the control says {outside}", probe.name));
    }
    for (who, answers) in sessions {
        // A build has not been asked everything.
        let Some(answer) = answers.get(&probe.name) else { continue };
        if !probe.refusals.contains(&answer.as_str()) {
            wrong.push(format!("{}: {answer} in {who}, not one of {:?}", probe.name, probe.refusals));
        }
    }
    wrong
}

fn control_words(probe: &Probe, control: &Answers) -> String {
    let outside = control.get(&probe.name).map_or("", String::as_str);
    match probe.control {
        Control::Succeeds => "succeeds".to_owned(),
        Control::SucceedsOnHost => "succeeds on the host".to_owned(),
        Control::Reaches if LACKING.contains(&outside) => format!("not in this kernel: {outside}"),
        Control::Reaches => format!("answers {outside}"),
        Control::None(reason) => format!("none: {reason}"),
    }
}

/// The whole table.
pub(super) fn table(themes: &[(&str, Vec<Probe>)], control: &Answers, sessions: &[(&str, Answers)]) -> String {
    let mut text = String::from(
        "# Probes\n\n\
         What is tried to get out of a session, and what came of it. This file is made by the test `probes` of `crates/server`, which\n\
         writes it to `target/probes.md` and fails when the names here are not the names there. A control runs the same code outside of a\n\
         session, as root in namespaces that are thrown away. `none` in the columns of sessions means that nothing was found.\n",
    );
    for (theme, probes) in themes {
        let _ = write!(text, "\n## {theme}\n\n| probe | control |");
        for (who, _) in sessions {
            let _ = write!(text, " {who} |");
        }
        let _ = write!(text, "\n| --- | --- |{}\n", " --- |".repeat(sessions.len()));
        for probe in probes {
            let _ = write!(text, "| {} | {} |", probe.name, control_words(probe, control));
            for (_, answers) in sessions {
                let _ = write!(text, " {} |", answers.get(&probe.name).map_or("", String::as_str));
            }
            text.push('\n');
        }
    }
    text.push_str(ELSEWHERE);
    text
}

/// What ends the session that tries it, needs two of them, or is the service's own doing.
const ELSEWHERE: &str = "\n## Tried elsewhere\n\n\
    | attempt | tests |\n\
    | --- | --- |\n\
    | memory, processes, disk, open files, output and time without end, and what others notice of it | `limits` |\n\
    | what sessions and builds have of each other, and what one takes that another was to have | `apart` |\n\
    | a link, a rename or a device in the way of the service that collects files | `artifacts`, `isolation` |\n\
    | a project that the task did not name | `apart`, `isolation`, `tenants` |\n\
    | names, addresses and ports that the proxy must refuse, whatever a request says | those of `crates/egress` and `crates/outbound` |\n";

fn names(table: &str) -> BTreeSet<String> {
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.filter(|name| *name != "probe" && *name != "---").map(str::to_owned).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes the table and compares its names with those of the copy that is kept.
pub(super) fn keep(table: &str) {
    std::fs::write(repository().join("target/probes.md"), table).unwrap();
    let kept = std::fs::read_to_string(repository().join("docs/probes.md")).unwrap_or_default();
    let (made, kept) = (names(table), names(&kept));
    let differing: Vec<&String> = made.symmetric_difference(&kept).collect();
    assert!(differing.is_empty(), "docs/probes.md is old: copy target/probes.md over it. It differs in {differing:?}");
}
