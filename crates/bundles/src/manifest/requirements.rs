//! pip requirement files: which lines they have and which other files those lines make pip read.

use super::{
    requirements_line::{LineKind, classify},
    text::{TextError, decode},
};

/// One logical line of a requirements file: continuations joined, comment removed, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The physical line it starts on, counted from 1.
    pub line: usize,
    /// Its text, trimmed.
    pub text: String,
    /// What it asks for.
    pub kind: LineKind,
    /// Whether it carries `--hash`.
    pub hashed: bool,
}

/// A file or directory of the source that pip reads because of a line. It need not exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadPath {
    /// `-r`: another requirements file, to be parsed in turn.
    Requirements(String),
    /// `-c`: a constraints file, to be parsed in turn.
    Constraints(String),
    /// A wheel or source archive.
    File(String),
    /// `--find-links` with a directory, whose content counts.
    Directory(String),
}

/// A parsed requirements file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Its lines in order.
    pub lines: Vec<Requirement>,
    /// What else pip will read, relative to the source's root; sorted, without repetition.
    pub reads: Vec<ReadPath>,
    /// Whether nothing less than the whole source is safe to show pip: a local project, an editable install, a path
    /// that leaves the root, or a line that is not understood.
    pub needs_whole_source: bool,
}

impl Requirements {
    /// Parses the bytes of `file`, a path relative to the source's root such as `requirements.txt`.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, TextError> {
        let text = decode(bytes)?;
        let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
        let mut requirements = Self::default();
        for (line, text) in logical_lines(text) {
            let kind = classify(&text);
            requirements.follow(&kind, directory);
            let hashed = text.contains("--hash=") || text.contains("--hash ");
            requirements.lines.push(Requirement { line, text, kind, hashed });
        }
        requirements.reads.sort_unstable();
        requirements.reads.dedup();
        Ok(requirements)
    }

    /// Whether every requirement names one exact version, so that the same bytes mean the same packages.
    pub fn is_pinned(&self) -> bool {
        !self.needs_whole_source
            && self.lines.iter().all(|requirement| {
                !matches!(requirement.kind, LineKind::Named { .. } | LineKind::Url { .. }) || requirement.hashed
            })
    }

    /// Whether pip would refuse whatever has no hash because of this file: one line with a hash is enough.
    pub fn requires_hashes(&self) -> bool {
        self.lines.iter().any(|line| line.hashed || line.text.starts_with("--require-hashes"))
    }

    fn follow(&mut self, kind: &LineKind, directory: &str) {
        match kind {
            LineKind::Include { path } => self.read(directory, path, ReadPath::Requirements),
            LineKind::Constraint { path } => self.read(directory, path, ReadPath::Constraints),
            LineKind::FindLinks { path: Some(path) } => {
                // pip looks beside the requirements file first and in the working directory, which is the root, next.
                self.read(directory, path, ReadPath::Directory);
                if !directory.is_empty() {
                    self.read("", path, ReadPath::Directory);
                }
            }
            LineKind::LocalArchive { path } => self.read("", path, ReadPath::File),
            LineKind::LocalProject { .. } | LineKind::Editable { .. } | LineKind::Unknown => {
                self.needs_whole_source = true;
            }
            LineKind::Pinned { .. }
            | LineKind::Named { .. }
            | LineKind::Url { .. }
            | LineKind::FindLinks { path: None }
            | LineKind::Option => {}
        }
    }

    fn read(&mut self, directory: &str, path: &str, make: fn(String) -> ReadPath) {
        if path.contains("://") {
            return;
        }
        match join(directory, path) {
            Some(path) => self.reads.push(make(path)),
            None => self.needs_whole_source = true,
        }
    }
}

/// Joins and normalises. `None` when the path is absolute, leaves the root or expands a variable.
pub(super) fn join(directory: &str, path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains('\\') || path.contains("${") {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in directory.split('/').chain(path.split('/')) {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop()?;
            }
            _ => kept.push(segment),
        }
    }
    Some(kept.join("/"))
}

/// Joins lines that end in a backslash and removes comments, as pip does: a comment line ends a continuation.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut pending: Option<(usize, String)> = None;
    for (index, physical) in text.lines().enumerate() {
        let comment = physical.trim_start().starts_with('#');
        let continued = if comment { None } else { physical.strip_suffix('\\') };
        let (_, joined) = pending.get_or_insert_with(|| (index + 1, String::new()));
        if comment {
            joined.push(' ');
        }
        joined.push_str(continued.unwrap_or(physical));
        if continued.is_none() {
            lines.extend(pending.take());
        }
    }
    lines.extend(pending);
    lines
        .into_iter()
        .map(|(line, text)| (line, without_comment(&text).trim().to_owned()))
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

/// A `#` starts a comment at the beginning of a line and after white space; elsewhere it is part of a URL.
fn without_comment(line: &str) -> &str {
    let mut before_is_space = true;
    for (index, character) in line.char_indices() {
        if character == '#' && before_is_space {
            return &line[..index];
        }
        before_is_space = character.is_whitespace();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_stripped() {
        let text = "\u{feff}a==1 \\\r\n  --hash=sha256:00 # why\r\n\r\n# c\r\nb @ https://h/x#egg=b\nc \\";
        let requirements = Requirements::parse("requirements.txt", text.as_bytes()).unwrap();
        let lines: Vec<_> =
            requirements.lines.iter().map(|line| (line.line, line.text.as_str(), line.hashed)).collect();
        assert_eq!(lines, [(1, "a==1   --hash=sha256:00", true), (5, "b @ https://h/x#egg=b", false), (6, "c", false)]);
        assert!(!requirements.needs_whole_source);
    }

    #[test]
    fn other_files_are_found_relative_to_the_including_one() {
        let text = "-r base.txt\n--constraint=../c.txt\n-f vendor\n./vendor/x-1.0-py3-none-any.whl\n-r https://h/r.txt";
        let requirements = Requirements::parse("requirements/dev.txt", text.as_bytes()).unwrap();
        assert_eq!(
            requirements.reads,
            [
                ReadPath::Requirements("requirements/base.txt".into()),
                ReadPath::Constraints("c.txt".into()),
                ReadPath::File("vendor/x-1.0-py3-none-any.whl".into()),
                ReadPath::Directory("requirements/vendor".into()),
                ReadPath::Directory("vendor".into()),
            ]
        );
        assert!(!requirements.needs_whole_source);
        for text in ["-r ../../etc/passwd", "-c /abs.txt", "-e .", ".", "file:///x", "???", "-f file:vendor"] {
            assert!(Requirements::parse("r.txt", text.as_bytes()).unwrap().needs_whole_source, "{text}");
        }
    }

    #[test]
    fn only_exact_or_hashed_requirements_are_pinned() {
        for (text, pinned) in [("a==1.0\n-i https://h", true), ("a==1.*", false), ("a>=1", false), ("a", false)] {
            assert_eq!(Requirements::parse("r.txt", text.as_bytes()).unwrap().is_pinned(), pinned, "{text}");
        }
    }

    #[test]
    fn one_hash_asks_for_all_of_them() {
        for (text, requires) in [
            ("a>=1 --hash=sha256:00\nb", true),
            ("a==1 \\\n    --hash sha256:00", true),
            ("--require-hashes\na==1", true),
            ("a==1 # --hash=sha256:00\n--pre", false),
        ] {
            assert_eq!(Requirements::parse("r.txt", text.as_bytes()).unwrap().requires_hashes(), requires, "{text}");
        }
    }
}
