//! Who needs a package of a `poetry.lock` older than format 2.1, which does not say so itself.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::dependency::{Dependency, normal_name};
use super::error::LockError;
use super::poetry::Package;
use super::reach::{Graph, Need};
use super::version_fits;

/// A package or one of its extras: the package's number, and the extra.
type Nodes = BTreeMap<(usize, String), usize>;

/// What one package asks of another.
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
                connect(&mut graph, &nodes, packages, from, edge)?;
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
        // Several versions, for several machines: the constraint must tell them apart.
        let fits = |index: &usize| {
            edge.constraint.as_deref().and_then(|constraint| version_fits(constraint, packages[*index].version))
        };
        meant.retain(|index| fits(index) != Some(false));
    }
    match meant.as_slice() {
        [] => Ok(()), // Poetry leaves out what no machine that it locks for needs.
        [to] => {
            graph.edge(from, *to, edge.marker.clone());
            for extra in &edge.extras {
                if let Some(extra) = nodes.get(&(*to, extra.clone())) {
                    graph.edge(from, *extra, edge.marker.clone());
                }
            }
            Ok(())
        }
        _ => Err(LockError::package(
            &edge.name,
            "the lock holds several versions and does not say who needs which; a lock of Poetry 2 does",
        )),
    }
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
            markers.extend(text("python").and_then(python_marker));
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

/// `>=3.8,<3.11` as a marker. None, which is everywhere, for a constraint in Poetry's own notation that a marker lacks.
fn python_marker(constraint: &str) -> Option<String> {
    let mut clauses = Vec::new();
    for clause in constraint.split(',').map(str::trim) {
        let at = clause.find(|c: char| c.is_ascii_digit())?;
        let (operator, version) = clause.split_at(at);
        let (operator, is_plain) = (operator.trim(), version.chars().all(|c| c.is_ascii_digit() || c == '.'));
        let (operator, version) = match (operator, version.split_once(".*")) {
            (">=" | "<=" | "<" | ">" | "==" | "!=" | "~=", None) if is_plain => (operator, version.to_owned()),
            ("" | "==", Some((_, ""))) => ("==", version.to_owned()),
            ("~", None) if is_plain && version.matches('.').count() == 1 => ("==", format!("{version}.*")),
            // Up to the next first part.
            ("^", None) if is_plain => ("~=", version.split('.').take(2).collect::<Vec<_>>().join(".")),
            _ => return None,
        };
        clauses.push(format!("python_full_version {operator} '{version}'"));
    }
    Some(clauses.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::PoetryLock;

    #[test]
    fn extras_versions_and_conditions_are_followed() {
        let lock = "[[package]]\nname = 'A'\nversion = '1'\n[package.dependencies]\nb = {version = '>=1', optional = true}\n\
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
        assert_eq!(of("a = {version = '*', extras = ['x-y']}").unwrap(), format!("A==1\nb==1 --hash=sha256:00\n{c}"));
        assert_eq!(of("d = {version = '1', python = '<3.9'}").unwrap(), "d==1 ; python_full_version < '3.9'");
        assert_eq!(of("d = {version = '1', optional = true}").unwrap(), "");
        assert!(of("c = '*'").unwrap_err().to_string().contains("several versions"));
    }

    #[test]
    fn constraints_on_python_become_markers() {
        for (constraint, marker) in [
            (">=3.8,<3.11", Some("python_full_version >= '3.8' and python_full_version < '3.11'")),
            ("^3.8", Some("python_full_version ~= '3.8'")),
            ("~3.8", Some("python_full_version == '3.8.*'")),
            ("3.8.*", Some("python_full_version == '3.8.*'")),
            ("3.8 || 3.9", None),
            ("*", None),
        ] {
            assert_eq!(python_marker(constraint).as_deref(), marker, "{constraint}");
        }
    }
}
