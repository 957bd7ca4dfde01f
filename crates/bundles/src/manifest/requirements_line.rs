//! What one line of a requirements file asks for.

/// The kind of a line. Anything doubtful is [`LineKind::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineKind {
    /// `name==version`, nothing else in the specifier.
    Pinned {
        /// As written.
        name: String,
        /// As written.
        version: String,
    },
    /// A name with any other specifier, or none.
    Named {
        /// As written.
        name: String,
    },
    /// A package from a remote address, version control included.
    Url {
        /// The name before `@`, if there is one.
        name: Option<String>,
    },
    /// A wheel or source archive in the source.
    LocalArchive {
        /// As written.
        path: String,
    },
    /// A directory or `file:` address that pip builds.
    LocalProject {
        /// As written.
        path: String,
    },
    /// `-e`, whatever it points to: pip may place it beside the source.
    Editable {
        /// As written.
        target: String,
    },
    /// `-r`.
    Include {
        /// As written.
        path: String,
    },
    /// `-c`.
    Constraint {
        /// As written.
        path: String,
    },
    /// `-f`; the path is absent for an address.
    FindLinks {
        /// As written.
        path: Option<String>,
    },
    /// Another option that reads no file.
    Option,
    /// Not understood.
    Unknown,
}

const ARCHIVE_SUFFIXES: [&str; 8] = [".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar", ".tbz"];
const OPTIONS: [&str; 14] = [
    "-i",
    "--index-url",
    "--pypi-url",
    "--extra-index-url",
    "--no-index",
    "--no-binary",
    "--only-binary",
    "--prefer-binary",
    "--require-hashes",
    "--pre",
    "--trusted-host",
    "--use-feature",
    "--process-dependency-links",
    "--always-unzip",
];

/// Classifies a trimmed, comment-free, non-empty line.
pub(super) fn classify(line: &str) -> LineKind {
    if line.starts_with('-') {
        return classify_option(line);
    }
    // Options of a single requirement follow it: hashes, build settings.
    let requirement = line.find(" --").map_or(line, |at| &line[..at]).trim_end();
    named(requirement).unwrap_or_else(|| unnamed(requirement))
}

fn classify_option(line: &str) -> LineKind {
    let (name, value) = split_option(line);
    let value = value.trim_matches(|c| c == '"' || c == '\'').to_owned();
    // A second option on the line may be one that reads files.
    if value.starts_with('-') || value.contains(" -") {
        return LineKind::Unknown;
    }
    match name {
        "-r" | "--requirement" if !value.is_empty() => LineKind::Include { path: value },
        "-c" | "--constraint" if !value.is_empty() => LineKind::Constraint { path: value },
        "-e" | "--editable" if !value.is_empty() => LineKind::Editable { target: value },
        "-f" | "--find-links" if !value.is_empty() => {
            if value.starts_with("file:") {
                LineKind::Unknown
            } else {
                LineKind::FindLinks { path: (!value.contains("://")).then_some(value) }
            }
        }
        "-i" | "--index-url" | "--pypi-url" | "--extra-index-url" if value.starts_with("file:") => LineKind::Unknown,
        _ if OPTIONS.contains(&name) => LineKind::Option,
        _ => LineKind::Unknown,
    }
}

/// Splits `--name=value`, `--name value`, `-n value` and `-nvalue`.
fn split_option(line: &str) -> (&str, &str) {
    let short = !line.starts_with("--");
    if short && line.is_char_boundary(2) && line.len() > 2 {
        let (name, value) = line.split_at(2);
        return (name, value.trim_start_matches(|c: char| c == '=' || c.is_whitespace()));
    }
    match line.find(|c: char| c == '=' || c.is_whitespace()) {
        Some(at) => (&line[..at], line[at..].trim_start_matches(|c: char| c == '=' || c.is_whitespace())),
        None => (line, ""),
    }
}

/// `name [extras] (specifier | @ address) ; marker`, or `None` when it does not look like that.
fn named(requirement: &str) -> Option<LineKind> {
    let name_end = requirement
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
        .unwrap_or(requirement.len());
    let (name, rest) = requirement.split_at(name_end);
    let is_name =
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    let lower = name.to_ascii_lowercase();
    if !is_name || ARCHIVE_SUFFIXES.iter().any(|suffix| lower.ends_with(suffix)) {
        return None;
    }
    let mut rest = rest.trim_start();
    if let Some(extras) = rest.strip_prefix('[') {
        rest = extras.split_once(']')?.1.trim_start();
    }
    if let Some(address) = rest.strip_prefix('@') {
        let address = address.trim();
        return Some(if is_remote(address) {
            LineKind::Url { name: Some(name.to_owned()) }
        } else {
            LineKind::LocalProject { path: address.to_owned() }
        });
    }
    let specifier = rest.split(';').next().unwrap_or_default().trim();
    let specifier = specifier.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(specifier);
    if !specifier.is_empty() && !specifier.starts_with(['<', '>', '=', '!', '~']) {
        return None;
    }
    if specifier.contains(['/', '\\']) {
        return None;
    }
    let version = specifier.strip_prefix("===").or_else(|| specifier.strip_prefix("==")).map(str::trim);
    Some(match version {
        Some(version) if !version.is_empty() && !version.contains([',', '*', ' ']) => {
            LineKind::Pinned { name: name.to_owned(), version: version.to_owned() }
        }
        _ => LineKind::Named { name: name.to_owned() },
    })
}

fn unnamed(requirement: &str) -> LineKind {
    let target = requirement.split(';').next().unwrap_or_default().trim();
    if is_remote(target) {
        return LineKind::Url { name: None };
    }
    if target.starts_with("file:") {
        return LineKind::LocalProject { path: target.to_owned() };
    }
    if target.contains("://") || target.contains(char::is_whitespace) {
        return LineKind::Unknown;
    }
    let path = target.split('[').next().unwrap_or_default();
    let lower = path.to_ascii_lowercase();
    if ARCHIVE_SUFFIXES.iter().any(|suffix| lower.ends_with(suffix)) {
        return LineKind::LocalArchive { path: path.to_owned() };
    }
    if path.starts_with('.') || path.contains('/') {
        return LineKind::LocalProject { path: path.to_owned() };
    }
    LineKind::Unknown
}

pub(super) fn is_remote(address: &str) -> bool {
    let Some((scheme, _)) = address.split_once("://") else { return false };
    let transport = scheme.rsplit('+').next().unwrap_or_default();
    matches!(transport, "http" | "https" | "ssh" | "git" | "svn" | "ftp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fall_into_their_kinds() {
        let named = |name: &str| LineKind::Named { name: name.into() };
        let table = [
            ("demo-pkg==1.0", LineKind::Pinned { name: "demo-pkg".into(), version: "1.0".into() }),
            ("a[x,y] == 2 ; python_version > '3'", LineKind::Pinned { name: "a".into(), version: "2".into() }),
            ("a==1.0 --hash=sha256:00", LineKind::Pinned { name: "a".into(), version: "1.0".into() }),
            ("a>=1,<2", named("a")),
            ("a (>=1)", named("a")),
            ("zope.interface", named("zope.interface")),
            ("a @ git+https://h/r", LineKind::Url { name: Some("a".into()) }),
            ("git+ssh://git@h/r#egg=a", LineKind::Url { name: None }),
            ("a @ file:///x", LineKind::LocalProject { path: "file:///x".into() }),
            (".[dev]", LineKind::LocalProject { path: ".".into() }),
            ("vendor/lib", LineKind::LocalProject { path: "vendor/lib".into() }),
            ("x-1.0.tar.gz", LineKind::LocalArchive { path: "x-1.0.tar.gz".into() }),
            ("-e .", LineKind::Editable { target: ".".into() }),
            ("-rbase.txt", LineKind::Include { path: "base.txt".into() }),
            ("--requirement=base.txt", LineKind::Include { path: "base.txt".into() }),
            ("-c 'c.txt'", LineKind::Constraint { path: "c.txt".into() }),
            ("--find-links https://h/", LineKind::FindLinks { path: None }),
            ("--find-links=vendor", LineKind::FindLinks { path: Some("vendor".into()) }),
            ("--no-index", LineKind::Option),
            ("--no-index --find-links vendor", LineKind::Unknown),
            ("--extra-index-url https://h/simple", LineKind::Option),
            ("--frobnicate", LineKind::Unknown),
            ("a b", LineKind::Unknown),
            ("a==", named("a")),
            ("git+file:///srv/x", LineKind::Unknown),
        ];
        for (line, expected) in table {
            assert_eq!(classify(line), expected, "{line}");
        }
    }
}
