//! The operating system whose `/usr` sessions have, as it names itself (os-release(5)).

use std::path::Path;

/// Name and version of the system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperatingSystem {
    /// Such as `Debian GNU/Linux`; `Linux` for one that says nothing.
    pub name: String,
    /// Such as `12`; empty for one without versions.
    pub version: String,
}

impl OperatingSystem {
    /// Reads what this machine says of itself; blocking.
    pub fn detect() -> Self {
        let places = ["/etc/os-release", "/usr/lib/os-release"].map(Path::new);
        let said = places.into_iter().find_map(|place| std::fs::read_to_string(place).ok());
        Self::read(&said.unwrap_or_default())
    }

    fn read(text: &str) -> Self {
        let value = |name: &str| {
            // Of several assignments the last counts, as in the shell that the format is taken from.
            text.lines().rev().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('=')).map(unquoted)
        };
        let name = value("NAME").filter(|name| !name.is_empty()).unwrap_or_else(|| "Linux".to_owned());
        Self { name, version: value("VERSION_ID").unwrap_or_default() }
    }
}

/// The value of an assignment, without its quotes and escapes.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    if let Some(literal) = value.strip_prefix('\'') {
        return literal.trim_end_matches('\'').to_owned();
    }
    let inner = value.strip_prefix('"').map_or(value, |inner| inner.strip_suffix('"').unwrap_or(inner));
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_name_themselves() {
        for (text, name, version) in [
            ("PRETTY_NAME=\"Debian 12\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\n", "Debian GNU/Linux", "12"),
            ("NAME=Arch\n# NAME=x\nID=arch", "Arch", ""),
            ("NAME='A b'\nNAME=\"A \\\"q\\\" \\$c\"\nVERSION_ID=1.2", "A \"q\" $c", "1.2"),
            ("", "Linux", ""),
        ] {
            let expected = OperatingSystem { name: name.to_owned(), version: version.to_owned() };
            assert_eq!(OperatingSystem::read(text), expected);
        }
    }
}
