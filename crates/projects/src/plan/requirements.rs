//! What pip will read because of `requirements.txt`.

use std::collections::{BTreeMap, BTreeSet};

use stead_bundles::manifest::{LineKind, ReadPath, Requirements};
use stead_domain::source::SourceEntry;

use super::{PlanError, Planner};

/// The manifest's name.
pub(super) const REQUIREMENTS: &str = "requirements.txt";
/// A requirements file that includes this many others is not understood any more.
const MAX_INCLUDES: usize = 500;

/// What pip will read, and what that means.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) files: BTreeMap<String, SourceEntry>,
    /// Nothing less than the whole source is safe to show pip.
    pub(super) whole: bool,
    /// Every requirement names one exact version.
    pub(super) pinned: bool,
    /// A line installs something in place, which writes beside the source.
    pub(super) editable: bool,
    /// A line installs the project itself.
    pub(super) installs_root: bool,
    /// The directories, other than the root, that lines install; as they are written where that is no plain path.
    pub(super) local: BTreeSet<String>,
    /// A line has a hash, so nothing without one may be installed.
    pub(super) hashed: bool,
    /// A line names a package that is not the project's own.
    pub(super) names_others: bool,
}

impl Planner<'_> {
    /// Follows `-r` and `-c` through the source, beginning with `bytes` as the content of `manifest`.
    pub(super) fn follow_requirements(&self, manifest: &SourceEntry, bytes: &[u8]) -> Result<Reading, PlanError> {
        let mut reading = Reading { pinned: true, ..Reading::default() };
        let mut queue = vec![(manifest, true)];
        let mut seen = BTreeSet::new();
        while let Some((entry, installs)) = queue.pop() {
            let file = entry.path.as_str();
            if !seen.insert((file, installs)) {
                continue;
            }
            if seen.len() > MAX_INCLUDES {
                reading.whole = true;
                break;
            }
            reading.files.insert(file.to_owned(), entry.clone());
            let parsed = if entry.path == manifest.path {
                Requirements::parse(file, bytes)
            } else {
                Requirements::parse(file, &self.sources.read(entry)?)
            }
            .map_err(|source| PlanError::manifest(file, source))?;
            reading.whole |= parsed.needs_whole_source;
            // As pip has it, for constraints, too.
            reading.hashed |= parsed.requires_hashes();
            if installs {
                reading.pinned &= parsed.is_pinned();
                parsed.lines.iter().for_each(|line| reading.note(&line.kind));
            }
            for path in parsed.reads {
                match path {
                    ReadPath::Requirements(path) => {
                        queue.extend(self.sources.file(&path).map(|entry| (entry, installs)));
                    }
                    ReadPath::Constraints(path) => {
                        queue.extend(self.sources.file(&path).map(|entry| (entry, false)));
                    }
                    ReadPath::File(path) => {
                        reading.files.extend(self.sources.file(&path).map(|entry| (path, entry.clone())));
                    }
                    ReadPath::Directory(path) if path.is_empty() => reading.whole = true,
                    ReadPath::Directory(path) => {
                        let beneath = self.sources.beneath(&path);
                        reading.files.extend(beneath.map(|entry| (entry.path.to_string(), entry.clone())));
                    }
                }
            }
        }
        Ok(reading)
    }
}

impl Reading {
    fn note(&mut self, kind: &LineKind) {
        match kind {
            LineKind::Editable { target } => {
                self.editable = true;
                self.note_local(target);
            }
            LineKind::LocalProject { path } => self.note_local(path),
            LineKind::Pinned { .. }
            | LineKind::Named { .. }
            | LineKind::Url { .. }
            | LineKind::LocalArchive { .. }
            | LineKind::Include { .. } => self.names_others = true,
            LineKind::Constraint { .. } | LineKind::FindLinks { .. } | LineKind::Option | LineKind::Unknown => {}
        }
    }
}

impl Reading {
    fn note_local(&mut self, path: &str) {
        if is_root(path) {
            self.installs_root = true;
            return;
        }
        let path = path.split('[').next().unwrap_or_default();
        self.local.insert(path.trim_start_matches("./").trim_end_matches('/').to_owned());
    }
}

/// Whether a local path, possibly with extras, is the project's root.
fn is_root(path: &str) -> bool {
    let path = path.split('[').next().unwrap_or_default();
    !path.starts_with('/') && path.split('/').all(|segment| matches!(segment, "" | "."))
}

/// The manifest without the lines that install the project's own packages, joined and uncommented; none when there is no such
/// line.
pub(super) fn without_local(bytes: &[u8]) -> Option<Vec<u8>> {
    let parsed = Requirements::parse(REQUIREMENTS, bytes).ok()?;
    let is_local = |kind: &LineKind| matches!(kind, LineKind::Editable { .. } | LineKind::LocalProject { .. });
    let rest: Vec<&str> =
        parsed.lines.iter().filter(|line| !is_local(&line.kind)).map(|line| line.text.as_str()).collect();
    (rest.len() < parsed.lines.len()).then(|| format!("{}\n", rest.join("\n")).into_bytes())
}
