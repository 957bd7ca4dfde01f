//! Who needs a package of a `poetry.lock` older than format 2.1, which does not say so itself.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::dependency::{Dependency, normal_name};
use super::error::LockError;
use super::poetry::Package;
use super::reach::{Graph, Need};
use super::versions::{self, version_fits};

/// A package or one of its extras: the package's number, and the extra.
type Nodes = BTreeMap<(usize, String), usize>;

/// What one package asks of another.
#[derive(Clone)]
struct Edge {
    name: String,
    constraint: Option<String>,
    marker: Option<String>,
    extras: Vec<String>,
    optional: bool,
}

/// For every package, where the main dependencies need it.
pub(super) fn needed(packages: &[Package<'_>], manifest: &Table) -> Result<Vec<Need>, LockError> {
    let mut graph = Graph::default();
    let mut nodes = Nodes::new();
    for index in 0..packages.len() {
        nodes.insert((index, String::new()), graph.node());
    }
    for (index, package) in packages.iter().enumerate() {
        for (extra, _) in extras_of(package) {
            nodes.entry((index, normal_name(extra))).or_insert_with(|| graph.node());
        }
    }
    let root = graph.node();
    for edge in main_dependencies(manifest).into_iter().filter(|edge| !edge.optional) {
        connect(&mut graph, &nodes, packages, root, &edge)?;
    }
    for (index, package) in packages.iter().enumerate() {
        let edges: Vec<Edge> =
            table(package.table, "dependencies").flat_map(|(name, value)| read(name, value)).collect();
        for edge in edges.iter().filter(|edge| !edge.optional) {
            connect(&mut graph, &nodes, packages, index, edge)?;
        }
        for (extra, names) in extras_of(package) {
            let from = nodes[&(index, normal_name(extra))];
            let names: Vec<String> = names
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|name| Some(Dependency::parse(name.as_str()?)?.name))
                .collect();
            for edge in edges.iter().filter(|edge| edge.optional && names.contains(&edge.name)) {
                let marker = edge.marker.as_deref().and_then(|marker| without_extra(marker, extra));
                connect(&mut graph, &nodes, packages, from, &Edge { marker, ..edge.clone() })?;
            }
        }
    }
    let mut needed = graph.needed(&[root])?;
    needed.truncate(packages.len());
    Ok(needed)
}

fn table<'a>(above: &'a Table, key: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    above.get(key).and_then(Value::as_table).into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn extras_of<'a>(package: &Package<'a>) -> impl Iterator<Item = (&'a str, &'a Value)> {
    table(package.table, "extras")
}

fn connect(
    graph: &mut Graph,
    nodes: &Nodes,
    packages: &[Package<'_>],
    from: usize,
    edge: &Edge,
) -> Result<(), LockError> {
    let mut meant: Vec<usize> =
        (0..packages.len()).filter(|index| normal_name(packages[*index].name) == edge.name).collect();
    if meant.len() > 1 {
        // Several versions, for several machines: the constraint tells some of them apart.
        let fits = |index: &usize| {
            edge.constraint.as_deref().and_then(|constraint| version_fits(constraint, packages[*index].version))
        };
        meant.retain(|index| fits(index) != Some(false));
    }
    // Poetry leaves out what no machine that it locks for needs, so there may be none.
    for (to, marker) in by_python(&meant, packages).ok_or_else(|| {
        LockError::package(&edge.name, "the lock holds several versions and does not say who needs which")
    })? {
        let marker = both(edge.marker.clone(), marker);
        graph.edge(from, to, marker.clone());
        for extra in &edge.extras {
            if let Some(extra) = nodes.get(&(to, extra.clone())) {
                graph.edge(from, *extra, marker.clone());
            }
        }
    }
    Ok(())
}

/// Of several versions that would do, the newest that the machine's Python can run. None where that cannot be said in markers.
fn by_python(meant: &[usize], packages: &[Package<'_>]) -> Option<Vec<(usize, Option<String>)>> {
    if let [only] = meant {
        return Some(vec![(*only, None)]);
    }
    let mut meant = meant.to_vec();
    let mut is_plain = true;
    meant.sort_by(|one, other| {
        let order = versions::order(packages[*other].version, packages[*one].version);
        is_plain &= order.is_some_and(std::cmp::Ordering::is_ne);
        order.unwrap_or(std::cmp::Ordering::Equal)
    });
    let mut chosen = Vec::new();
    let mut no_newer = None;
    for index in meant {
        let pythons = packages[index].table.get("python-versions").and_then(Value::as_str)?;
        let clauses = python_clauses(pythons)?;
        chosen.push((index, both(joined(&clauses, " and "), no_newer.clone())));
        let others: Vec<String> = clauses.iter().map(|clause| opposite(clause)).collect::<Option<_>>()?;
        no_newer = both(no_newer, joined(&others, " or "));
    }
    is_plain.then_some(chosen)
}

/// The rest of a condition on an extra, once the extra is asked for. An installer that is given a plain list knows of no extra.
fn without_extra(marker: &str, extra: &str) -> Option<String> {
    let asked = [format!("extra == \"{extra}\""), format!("extra == '{extra}'")];
    if asked.iter().any(|asked| asked == marker.trim()) {
        return None;
    }
    Some(asked.iter().fold(marker.to_owned(), |marker, asked| marker.replace(asked, "python_version >= '0'")))
}

fn joined(clauses: &[String], word: &str) -> Option<String> {
    (!clauses.is_empty()).then(|| clauses.join(word))
}

/// Two conditions that must both hold; none is one that always does.
fn both(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("({one}) and ({other})")),
        (one, other) => one.or(other),
    }
}

/// Where a clause of a marker does not hold.
fn opposite(clause: &str) -> Option<String> {
    let pairs =
        [(" >= ", " < "), (" <= ", " > "), (" < ", " >= "), (" > ", " <= "), (" == ", " != "), (" != ", " == ")];
    pairs.iter().find(|(from, _)| clause.contains(from)).map(|(from, to)| clause.replace(from, to))
}

fn main_dependencies(manifest: &Table) -> Vec<Edge> {
    let empty = Table::new();
    let poetry = manifest.get("tool").and_then(|tool| tool.get("poetry")).and_then(Value::as_table).unwrap_or(&empty);
    let mut edges: Vec<Edge> = table(poetry, "dependencies")
        .filter(|(name, _)| *name != "python")
        .flat_map(|(name, value)| read(name, value))
        .collect();
    let project = manifest.get("project").and_then(|project| project.get("dependencies")).and_then(Value::as_array);
    for text in project.into_iter().flatten().filter_map(Value::as_str) {
        let Some(dependency) = Dependency::parse(text) else { continue };
        edges.push(Edge {
            name: dependency.name,
            constraint: Some(dependency.specifier).filter(|specifier| !specifier.is_empty()),
            marker: dependency.marker,
            extras: dependency.extras,
            optional: false,
        });
    }
    edges
}

/// A version, a table, or a list of either.
fn read(name: &str, value: &Value) -> Vec<Edge> {
    match value {
        Value::Array(list) => list.iter().flat_map(|value| read(name, value)).collect(),
        Value::Table(table) => {
            let text = |key: &str| table.get(key).and_then(Value::as_str);
            let extras = table.get("extras").and_then(Value::as_array).into_iter().flatten();
            let mut markers: Vec<String> = text("markers").map(str::to_owned).into_iter().collect();
            markers.extend(text("platform").map(|platform| format!("sys_platform == '{platform}'")));
            // One that markers cannot say is taken to hold.
            markers.extend(text("python").and_then(python_clauses).and_then(|clauses| joined(&clauses, " and ")));
            let marker = match markers.as_slice() {
                [] | [_] => markers.pop(),
                _ => Some(markers.iter().map(|marker| format!("({marker})")).collect::<Vec<_>>().join(" and ")),
            };
            vec![Edge {
                name: normal_name(name),
                constraint: text("version").map(str::to_owned),
                marker,
                extras: extras.filter_map(Value::as_str).map(normal_name).collect(),
                optional: table.get("optional").and_then(Value::as_bool) == Some(true),
            }]
        }
        value => vec![Edge {
            name: normal_name(name),
            constraint: value.as_str().map(str::to_owned),
            marker: None,
            extras: Vec::new(),
            optional: false,
        }],
    }
}

/// `>=3.8,<3.11` as the clauses of a marker that must all hold. None for a constraint that has no such form.
fn python_clauses(constraint: &str) -> Option<Vec<String>> {
    let mut clauses = Vec::new();
    let mut push = |operator: &str, version: &str| clauses.push(format!("python_full_version {operator} '{version}'"));
    for clause in constraint.split(',').map(str::trim).filter(|clause| !matches!(*clause, "" | "*")) {
        let at = clause.find(|c: char| c.is_ascii_digit())?;
        let (operator, version) = clause.split_at(at);
        let plain = version.strip_suffix(".*").unwrap_or(version);
        let parts: Vec<u64> = plain.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        // The first version that differs in the part at `index`.
        let next = |index: usize| {
            let mut parts = parts[..=index].to_vec();
            parts[index] += 1;
            parts.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
        };
        match (operator.trim(), plain == version) {
            (operator @ (">=" | "<=" | "<" | ">"), true) | (operator @ ("==" | "!="), _) => push(operator, version),
            ("", _) => push("==", version),
            ("^", true) => {
                push(">=", version);
                push("<", &next(0));
            }
            ("~", true) => {
                push(">=", version);
                push("<", &next((parts.len() - 1).min(1)));
            }
            ("~=", true) if parts.len() > 1 => {
                push(">=", version);
                push("<", &next(parts.len() - 2));
            }
            _ => return None,
        }
    }
    Some(clauses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::PoetryLock;

    #[test]
    fn extras_versions_and_conditions_are_followed() {
        let lock = "[[package]]\nname = 'A'\nversion = '1'\n[package.dependencies]\nb = {version = '>=1', optional = true, markers = \"extra == 'x_y' and os_name == 'nt'\"}\n\
            c = [{version = '>=1,<2', markers = \"python_version < '3.9'\"}, {version = '>=2', markers = \"python_version >= '3.9'\"}]\n\
            [package.extras]\nx_y = ['b (>=1)']\n\
            [[package]]\nname = 'b'\nversion = '1'\n[[package]]\nname = 'c'\nversion = '1.5'\n[[package]]\nname = 'c'\nversion = '2.5'\n\
            [[package]]\nname = 'd'\nversion = '1'\n[metadata]\nlock-version = '1.1'\n[metadata.files]\nb = [{file = 'f', hash = 'sha256:00'}]\n";
        let of = |dependency: &str| {
            let manifest = format!("[tool.poetry.dependencies]\npython = '^3.8'\n{dependency}\n");
            let lock = PoetryLock::parse(lock.as_bytes(), manifest.as_bytes())?.lock;
            Ok::<_, LockError>(lock.packages.iter().map(|one| one.line("/m")).collect::<Vec<_>>().join("\n"))
        };
        let c = "c==1.5 ; python_version < '3.9'\nc==2.5 ; python_version >= '3.9'";
        assert_eq!(of("a = '*'").unwrap(), format!("A==1\n{c}"));
        assert_eq!(
            of("a = {version = '*', extras = ['x-y']}").unwrap(),
            format!("A==1\nb==1 ; python_version >= '0' and os_name == 'nt' --hash=sha256:00\n{c}")
        );
        assert_eq!(of("d = {version = '1', python = '<3.9'}").unwrap(), "d==1 ; python_full_version < '3.9'");
        assert_eq!(of("d = {version = '1', optional = true}").unwrap(), "");
        // Only by who can run it, which this lock does not say.
        assert!(of("c = '*'").unwrap_err().to_string().contains("several versions"));
    }

    #[test]
    fn of_several_versions_the_newest_that_runs_is_meant() {
        let lock = "[[package]]\nname = 'c'\nversion = '2.9'\npython-versions = '>=3.7,<3.12'\n\
            [[package]]\nname = 'c'\nversion = '2.10'\npython-versions = '>=3.10'\n[metadata]\nlock-version = '2.0'\n";
        let manifest = "[tool.poetry.dependencies]\nc = {version = '*', markers = \"os_name == 'nt'\"}\n";
        let parsed = PoetryLock::parse(lock.as_bytes(), manifest.as_bytes()).unwrap().lock;
        let lines: Vec<String> = parsed.packages.iter().map(|one| one.line("/m")).collect();
        let older =
            "(python_full_version >= '3.7' and python_full_version < '3.12') and (python_full_version < '3.10')";
        assert_eq!(
            lines,
            [
                "c==2.10 ; (os_name == 'nt') and (python_full_version >= '3.10')".to_owned(),
                format!("c==2.9 ; (os_name == 'nt') and ({older})"),
            ]
        );
    }

    #[test]
    fn constraints_on_python_become_markers() {
        for (constraint, marker) in [
            (">=3.8, <3.11", Some("python_full_version >= '3.8' and python_full_version < '3.11'")),
            ("^3.8", Some("python_full_version >= '3.8' and python_full_version < '4'")),
            ("~3.8", Some("python_full_version >= '3.8' and python_full_version < '3.9'")),
            ("~=3.8.1", Some("python_full_version >= '3.8.1' and python_full_version < '3.9'")),
            ("3.8.*", Some("python_full_version == '3.8.*'")),
            ("*", Some("")),
            ("3.8 || 3.9", None),
        ] {
            assert_eq!(
                python_clauses(constraint).map(|clauses| clauses.join(" and ")).as_deref(),
                marker,
                "{constraint}"
            );
        }
    }
}
