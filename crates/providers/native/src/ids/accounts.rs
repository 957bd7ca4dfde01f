//! Ids that the host's own files give away.

use std::ops::Range;
use std::path::Path;

/// Somebody who has ids of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdHolder {
    /// Which.
    pub ids: Range<u32>,
    /// Who, in words: `the account ann`, or a data directory.
    pub who: String,
}

/// Accounts, groups and the ranges that users may map, by the files of `/etc`. What cannot be read gives nothing away.
pub fn accounts(etc: &Path) -> Vec<IdHolder> {
    let read = |name: &str| std::fs::read_to_string(etc.join(name)).unwrap_or_default();
    let mut holders = Vec::new();
    for (file, what) in [("passwd", "account"), ("group", "group")] {
        holders.extend(read(file).lines().filter_map(|line| single(line, what)));
    }
    for file in ["subuid", "subgid"] {
        holders.extend(read(file).lines().filter_map(|line| several(line, file)));
    }
    holders
}

/// `name:password:id:…`
fn single(line: &str, what: &str) -> Option<IdHolder> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let id: u32 = fields.nth(1)?.parse().ok()?;
    Some(IdHolder { ids: id..id.saturating_add(1), who: format!("the {what} {name}") })
}

/// `name:first:count`
fn several(line: &str, file: &str) -> Option<IdHolder> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let first: u32 = fields.next()?.trim().parse().ok()?;
    let count: u32 = fields.next()?.trim().parse().ok()?;
    Some(IdHolder { ids: first..first.saturating_add(count), who: format!("{name} in /etc/{file}") })
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
        let found = accounts(etc.path());
        let ids: Vec<Range<u32>> = found.iter().map(|holder| holder.ids.clone()).collect();
        assert_eq!(ids, [0..1, u32::MAX..u32::MAX, 100_000..165_536]);
        assert_eq!((found[0].who.as_str(), found[2].who.as_str()), ("the account root", "one in /etc/subuid"));
    }
}
