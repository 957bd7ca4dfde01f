//! `stead doctor --leftovers`: everything on this machine that belongs to a data directory, and whose it is.

use std::fmt::Write as _;

use serde_json::json;
use stead_provider_native::{Leftover, LeftoverKind, Owner};

use crate::client::Failure;
use crate::config::Settings;
use crate::console::{Console, printable};
use crate::serve::left_over;

/// Prints it; nothing that is there is a fault by itself. With `json`, `{"leftovers": […]}` of
/// [`Leftover`]s.
pub(super) fn show(settings: &Settings, json: bool) -> Result<(), Failure> {
    let found = left_over(settings).map_err(|error| {
        Failure::new(format!("failed to look at what belongs to {}: {error}", settings.data_directory.display()))
    })?;
    Console { json }.show(&json!({ "leftovers": found }), || described(&found))
}

fn described(found: &[Leftover]) -> String {
    let mut text = String::new();
    for Leftover { kind, name, detail, owner } in found {
        let kind = match kind {
            LeftoverKind::Process => "process",
            LeftoverKind::Mount => "mount",
            LeftoverKind::ControlGroup => "control group",
            LeftoverKind::Slot => "slot",
            LeftoverKind::RunDirectory => "run directory",
            LeftoverKind::EnvironmentDirectory => "environment directory",
        };
        let owner = match owner {
            Owner::Environment { environment } => environment.to_string(),
            Owner::Build { directories } => {
                let first = directories.first().map(|directory| format!(" of {}", directory.display()));
                format!("a build step{}", first.unwrap_or_default())
            }
            Owner::Egress => "the egress proxy".to_owned(),
            Owner::Nobody => "nobody".to_owned(),
        };
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        let line = format!("{kind} {name}{detail}: {owner}");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", printable(&line));
    }
    if text.is_empty() {
        return "nothing\n".to_owned();
    }
    let nobodys = found.iter().filter(|one| one.owner == Owner::Nobody).count();
    let _ = match nobodys {
        0 => writeln!(text, "nothing of it is nobody's"),
        count => writeln!(text, "{count} of these {} nobody's", if count == 1 { "is" } else { "are" }),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_whether_anything_is_nobodys() {
        let one = |owner| {
            let (name, detail) = ("1".to_owned(), String::new());
            Leftover { kind: LeftoverKind::Slot, name, detail, owner }
        };
        let last = |found: &[Leftover]| described(found).lines().last().unwrap_or_default().to_owned();
        assert_eq!(last(&[]), "nothing");
        assert_eq!(last(&[one(Owner::Egress)]), "nothing of it is nobody's");
        assert_eq!(last(&[one(Owner::Egress), one(Owner::Nobody)]), "1 of these is nobody's");
        assert_eq!(last(&[one(Owner::Nobody), one(Owner::Nobody)]), "2 of these are nobody's");
    }
}
