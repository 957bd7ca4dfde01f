//! The hash that `poetry.lock` keeps of the `pyproject.toml` it was made from.
//!
//! Poetry hashes the dependencies as JSON. What it counts among them has grown: the forms of all its versions are made here, and
//! a lock fits when it holds one of them.

use toml::{Table, Value};

use super::canonical_json::{Spacing, sha256, written};

/// Those are written even when they are absent, but not beside a `[project]` or dependency groups.
const ALWAYS: [&str; 4] = ["dependencies", "dev-dependencies", "extras", "source"];
const OF_PROJECT: [&str; 3] = ["dependencies", "optional-dependencies", "requires-python"];

/// The hashes that a lock of this manifest may hold; none when the manifest holds what cannot be hashed alike.
pub(super) fn hashes(manifest: &Table) -> Vec<String> {
    let table = |key: &str| manifest.get(key).and_then(Value::as_table).cloned().unwrap_or_default();
    let mut project = table("project");
    project.retain(|key, _| OF_PROJECT.contains(&key));
    let groups = table("dependency-groups");
    let poetry = table("tool").get("poetry").and_then(Value::as_table).cloned().unwrap_or_default();
    let forms = [(&project, &groups), (&project, &Table::new()), (&Table::new(), &Table::new())]
        .map(|(project, groups)| form(project, groups, &poetry));
    match forms.into_iter().collect::<Option<Vec<String>>>() {
        Some(forms) => forms.iter().map(|text| sha256(text)).collect(),
        None => Vec::new(),
    }
}

fn form(project: &Table, groups: &Table, poetry: &Table) -> Option<String> {
    let is_old = project.is_empty() && groups.is_empty();
    let mut names: Vec<&str> = ALWAYS.into_iter().chain(["group"]).collect();
    names.sort_unstable();
    let mut parts = Vec::new();
    for name in names {
        let text = match poetry.get(name) {
            Some(value) => value_text(value)?,
            None if is_old && name != "group" => "null".to_owned(),
            None => continue,
        };
        parts.push(format!("\"{name}\": {text}"));
    }
    let poetry = format!("{{{}}}", parts.join(", "));
    if is_old {
        return Some(poetry);
    }
    let mut outer = Vec::new();
    for (name, table) in [("dependency-groups", groups), ("project", project)] {
        if !table.is_empty() {
            outer.push(format!("\"{name}\": {}", written(table, Spacing::Wide)?));
        }
    }
    outer.push(format!("\"tool\": {{\"poetry\": {poetry}}}"));
    Some(format!("{{{}}}", outer.join(", ")))
}

fn value_text(value: &Value) -> Option<String> {
    let mut table = Table::new();
    table.insert(String::new(), value.clone());
    let text = written(&table, Spacing::Wide)?;
    text.strip_prefix("{\"\": ").and_then(|text| text.strip_suffix('}')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use crate::manifest::PoetryLock;

    #[test]
    fn a_lock_fits_until_a_dependency_changes() {
        for (lock, manifest) in [
            (
                include_str!("../../../tests/locks/poetry.lock"),
                include_str!("../../../tests/locks/poetry.pyproject.toml"),
            ),
            (
                include_str!("../../../tests/locks/poetry-project.lock"),
                include_str!("../../../tests/locks/poetry-project.pyproject.toml"),
            ),
        ] {
            let fits = |manifest: &str| PoetryLock::parse(lock.as_bytes(), manifest.as_bytes()).unwrap().fits();
            assert_eq!(fits(manifest), Ok(()));
            assert_eq!(fits(&format!("{manifest}\n[tool.other]\nx = 1\n")), Ok(()));
            let error = fits(&manifest.replace("2.0.0", "2.1.0")).unwrap_err().to_string();
            assert!(error.contains("does not fit pyproject.toml") && error.contains("poetry lock"), "{error}");
        }
    }
}
