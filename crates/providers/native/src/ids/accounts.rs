//! Ids that the host's own files give away.

use std::ops::Range;
use std::path::Path;

/// Ids of accounts and groups, and ranges that users may map, by the files of `/etc`. What cannot be read gives nothing away.
pub(super) fn taken(etc: &Path) -> Vec<Range<u32>> {
    let read = |name: &str| std::fs::read_to_string(etc.join(name)).unwrap_or_default();
    let mut taken = Vec::new();
    for name in ["passwd", "group"] {
        taken.extend(read(name).lines().filter_map(single));
    }
    for name in ["subuid", "subgid"] {
        taken.extend(read(name).lines().filter_map(several));
    }
    taken
}

/// `name:password:id:…`
fn single(line: &str) -> Option<Range<u32>> {
    let id: u32 = line.split(':').nth(2)?.parse().ok()?;
    Some(id..id.saturating_add(1))
}

/// `name:first:count`
fn several(line: &str) -> Option<Range<u32>> {
    let mut fields = line.split(':').skip(1);
    let first: u32 = fields.next()?.trim().parse().ok()?;
    let count: u32 = fields.next()?.trim().parse().ok()?;
    Some(first..first.saturating_add(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_ranges_are_read() {
        let etc = tempfile::tempdir().unwrap();
        std::fs::write(etc.path().join("passwd"), "root:x:0:0::/:/bin/sh\nbroken\nbig:x:4294967295:1::/:/bin/sh\n")
            .unwrap();
        std::fs::write(etc.path().join("subuid"), "one:100000:65536\ntwo:x:1\n").unwrap();
        assert_eq!(taken(etc.path()), [0..1, u32::MAX..u32::MAX, 100_000..165_536]);
    }
}
