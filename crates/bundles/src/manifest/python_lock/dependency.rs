//! A dependency as `pyproject.toml` writes it: `name[extra] >=1 ; marker`, or `name @ address ; marker`.

/// A dependency, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dependency {
    /// In its normal form.
    pub(super) name: String,
    pub(super) extras: Vec<String>,
    /// As written, without parentheses; empty for any version.
    pub(super) specifier: String,
    /// Whether it names an address instead of a version.
    pub(super) has_address: bool,
    pub(super) marker: Option<String>,
}

impl Dependency {
    /// Takes a dependency apart. None when it does not look like one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let end =
            text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return None;
        }
        let mut rest = rest.trim_start();
        let mut extras = Vec::new();
        if let Some((inner, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            extras = inner.split(',').map(normal_name).filter(|extra| !extra.is_empty()).collect();
            rest = after.trim_start();
        }
        let has_address = rest.starts_with('@');
        // An address may hold a semicolon; one that ends it has a space before.
        let (specifier, marker) = match has_address {
            true => rest.split_once(" ;").map_or((rest, None), |(address, marker)| (address, Some(marker))),
            false => rest.split_once(';').map_or((rest, None), |(specifier, marker)| (specifier, Some(marker))),
        };
        let specifier = specifier.trim();
        let inner = specifier.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(specifier);
        Some(Self {
            name: normal_name(name),
            extras,
            specifier: if has_address { String::new() } else { inner.trim().to_owned() },
            has_address,
            marker: marker.map(|marker| marker.trim().to_owned()),
        })
    }
}

/// The name, in its normal form, of the package that a dependency or a project's `name` means.
pub fn dependency_name(text: &str) -> Option<String> {
    Dependency::parse(text).map(|dependency| dependency.name)
}

/// Names are equal when they are but for case and the kind and number of their separators.
pub(super) fn normal_name(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for character in name.trim().chars() {
        match character {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            other => normal.push(other.to_ascii_lowercase()),
        }
    }
    normal
}

/// The clauses of a specifier in a form that does not depend on how they were written. None where that cannot be told.
pub(super) fn clauses(specifier: &str) -> Option<std::collections::BTreeSet<String>> {
    let mut clauses = std::collections::BTreeSet::new();
    for clause in specifier.split(',').map(str::trim).filter(|clause| !clause.is_empty()) {
        let clause: String = clause.chars().filter(|c| !c.is_whitespace()).collect();
        let at = clause.find(|c: char| !"<>=!~".contains(c))?;
        let (operator, version) = clause.split_at(at);
        let mut numbers = Vec::new();
        for part in version.split('.') {
            numbers.push(if part == "*" { part.to_owned() } else { part.parse::<u64>().ok()?.to_string() });
        }
        clauses.insert(format!("{operator}{}", numbers.join(".")));
    }
    Some(clauses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_apart() {
        let parsed = |text: &str| {
            let one = Dependency::parse(text).unwrap();
            (one.name, one.extras.join("+"), one.specifier, one.has_address, one.marker.unwrap_or_default())
        };
        let of = |a: &str, b: &str, c: &str, d, e: &str| (a.into(), b.into(), c.into(), d, e.into());
        assert_eq!(
            parsed("Zope.Interface[X_y, z] (>=1, <2) ; a == 'b'"),
            of("zope-interface", "x-y+z", ">=1, <2", false, "a == 'b'")
        );
        assert_eq!(parsed("a @ https://h/x;y ; m == 'n'"), of("a", "", "", true, "m == 'n'"));
        assert_eq!(Dependency::parse("--index-url x"), None);
        assert_eq!(clauses(">= 1.01,<2"), clauses("<2, >=1.1"));
        assert_ne!(clauses(">=1"), clauses(">=1.0"));
        assert_eq!(clauses(">=1.0rc1"), None);
    }
}
