//! Entry point for a fuzzer: what a build's sandbox says that it installed. Any panic, hang or large allocation is a finding.

use crate::packages::{combine, parse_apt, parse_npm, parse_pip};

/// Reads `data` as the output of every installer's listing.
pub fn inventories(data: &[u8]) {
    let lists = [parse_pip(data), parse_npm(data), parse_apt(data)];
    let combined = combine(lists.iter().map(Vec::as_slice));
    assert!(combined.is_sorted(), "a version's packages are in order");
    for package in &combined {
        let text = [&package.name, &package.version];
        assert!(!text.iter().any(|text| text.is_empty() || text.contains('\n')), "an odd package: {package:?}");
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn corpora_hold() {
        super::replay::replay("inventories", super::inventories);
    }
}
