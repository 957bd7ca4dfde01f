//! Source snapshots: the serialised tree that a build builds, and the identity of a tree.
//!
//! The form is text, one entry a line, sorted by path, so that equal trees give equal bytes:
//!
//! ```text
//! stead-snapshot 1
//! d - - <modified, µs> <path>
//! f <size> <blob> <modified, µs> <path>          x instead of f when executable
//! ```
//!
//! A [`SourcePath`] holds no control character, so a line feed ends an entry and nothing needs escaping.

use std::fmt::Write as _;

use stead_domain::source::{EntryKind, SourceEntry};
use stead_domain::{BlobId, SourcePath, Timestamp};

const HEADER: &str = "stead-snapshot 1";

/// Directories that a build never takes from the source, at any depth: what installers and tools made on another machine
/// (UHP Environments §1: dependency directories that arrive with the files are not what a session gets).
pub const EXCLUDED_DIRECTORIES: [&str; 6] = [".venv", "venv", "node_modules", "__pycache__", ".pnpm-store", ".cache"];

/// Bytes that are not a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot is damaged at line {line}")]
pub struct SnapshotError {
    /// The line, counted from 1.
    pub line: usize,
}

/// Serialises a tree. The order of `entries` does not matter.
pub fn encode(entries: &[SourceEntry]) -> Vec<u8> {
    let mut text = String::with_capacity(64 + entries.len() * 140);
    text.push_str(HEADER);
    text.push('\n');
    for entry in sorted(entries) {
        write_kind(&mut text, &entry.kind);
        // Writing to a string cannot fail.
        let _ = writeln!(text, " {} {}", entry.modified_at.as_micros(), entry.path);
    }
    text.into_bytes()
}

/// Reads what [`encode`] wrote.
pub fn decode(bytes: &[u8]) -> Result<Vec<SourceEntry>, SnapshotError> {
    let text = std::str::from_utf8(bytes).map_err(|_| SnapshotError { line: 1 })?;
    let mut lines = text.split_terminator('\n').enumerate();
    if lines.next().map(|(_, header)| header) != Some(HEADER) {
        return Err(SnapshotError { line: 1 });
    }
    lines.map(|(index, line)| decode_line(line).ok_or(SnapshotError { line: index + 1 })).collect()
}

fn decode_line(line: &str) -> Option<SourceEntry> {
    let mut fields = line.splitn(5, ' ');
    let (kind, size, blob) = (fields.next()?, fields.next()?, fields.next()?);
    let modified_at = Timestamp::from_micros(fields.next()?.parse().ok()?);
    let path = SourcePath::recorded(fields.next()?).ok()?;
    let kind = match kind {
        "d" => EntryKind::Directory,
        "f" | "x" => EntryKind::File { executable: kind == "x", size: size.parse().ok()?, blob: blob.parse().ok()? },
        _ => return None,
    };
    Some(SourceEntry { path, kind, modified_at })
}

/// The identity of a tree: its paths, kinds, modes and bytes, whatever the modification times.
pub fn digest(entries: &[SourceEntry]) -> BlobId {
    let mut hasher = blake3::Hasher::new();
    let mut line = String::new();
    for entry in sorted(entries) {
        line.clear();
        write_kind(&mut line, &entry.kind);
        let _ = writeln!(line, " {}", entry.path);
        hasher.update(line.as_bytes());
    }
    BlobId::from_bytes(*hasher.finalize().as_bytes())
}

/// The entries that a build sees: everything but [`EXCLUDED_DIRECTORIES`] with what they hold, sorted by path. An entry
/// named `.venv` or `node_modules` is left out of the root whatever it is, since the installed layers are mounted there.
pub fn for_build(entries: &[SourceEntry]) -> Vec<SourceEntry> {
    sorted(entries).into_iter().filter(|entry| !is_excluded(entry)).cloned().collect()
}

fn is_excluded(entry: &SourceEntry) -> bool {
    let path = entry.path.as_str();
    if matches!(path, ".venv" | "node_modules") {
        return true;
    }
    let directories = if entry.is_directory() { path } else { path.rsplit_once('/').map_or("", |(above, _)| above) };
    directories.split('/').any(|segment| EXCLUDED_DIRECTORIES.contains(&segment))
}

fn sorted(entries: &[SourceEntry]) -> Vec<&SourceEntry> {
    let mut sorted: Vec<&SourceEntry> = entries.iter().collect();
    sorted.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    sorted
}

fn write_kind(text: &mut String, kind: &EntryKind) {
    let _ = match kind {
        EntryKind::Directory => write!(text, "d - -"),
        EntryKind::File { executable, size, blob } => {
            write!(text, "{} {size} {blob}", if *executable { 'x' } else { 'f' })
        }
    };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(path: &str, seed: u8, at: i64) -> SourceEntry {
        let kind = match seed % 3 {
            0 => EntryKind::Directory,
            rest => {
                EntryKind::File { executable: rest == 1, size: u64::from(seed), blob: BlobId::from_bytes([seed; 32]) }
            }
        };
        SourceEntry { path: SourcePath::parse(path).unwrap(), kind, modified_at: Timestamp::from_micros(at) }
    }

    #[test]
    fn dependency_directories_stay_out_at_any_depth() {
        let kept = ["a", "a/venv.py", "src/.cache.json", "venv"];
        let mut entries: Vec<_> = kept.iter().map(|path| entry(path, 1, 0)).collect();
        for gone in
            ["venv2/.venv/x", "a/node_modules/b/c.js", "__pycache__/a.pyc", ".venv", "node_modules", "d/.cache/x"]
        {
            entries.push(entry(gone, 2, 0));
        }
        entries.push(entry("e/.pnpm-store", 3, 0));
        let paths: Vec<_> = for_build(&entries).into_iter().map(|entry| entry.path.to_string()).collect();
        assert_eq!(paths, kept);
    }

    #[test]
    fn damage_is_found_and_named() {
        let good = encode(&[entry("a", 1, 0), entry("b c", 3, 5)]);
        for bad in [
            &b""[..],
            b"other 1\n",
            b"stead-snapshot 1\nf 1 00 0 a\n",
            b"stead-snapshot 1\nd - - 0 ../a\n",
            &good[..good.len() - 5],
        ] {
            assert!(decode(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        assert_eq!(decode(b"stead-snapshot 1\nd - - 0 a\nq - - 0 b\n"), Err(SnapshotError { line: 3 }));
    }

    proptest! {
        #[test]
        fn trees_round_trip_and_order_and_times_do_not_matter(
            seeds in prop::collection::btree_map("[a-c ]{1,3}(/[a-c é]{1,3}){0,2}", (any::<u8>(), any::<i64>()), 0..20),
        ) {
            let seeds: Vec<_> = seeds.into_iter().filter(|(path, _)| SourcePath::parse(path).is_ok()).collect();
            let tree: Vec<_> = seeds.iter().map(|(path, (seed, at))| entry(path, *seed, *at)).collect();
            let mut mixed: Vec<_> = seeds.iter().map(|(path, (seed, at))| entry(path, *seed, at.wrapping_add(1))).collect();
            mixed.reverse();
            prop_assert_eq!(decode(&encode(&tree)).unwrap(), for_reading(&tree));
            prop_assert_eq!(digest(&tree), digest(&mixed));
            if let Some(last) = mixed.last_mut() {
                last.kind = EntryKind::File { executable: true, size: 1000, blob: BlobId::from_bytes([7; 32]) };
                prop_assert_ne!(digest(&tree), digest(&mixed));
            }
        }
    }

    fn for_reading(tree: &[SourceEntry]) -> Vec<SourceEntry> {
        sorted(tree).into_iter().cloned().collect()
    }
}
