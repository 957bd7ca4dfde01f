//! Entry point for a fuzzer: bytes as a registry, or somebody in its place, answers them. Any panic, hang or large allocation is
//! a finding.

use stead_domain::declared::{PackageManager, PackageSpec};

use crate::apt::AptPackage;
use crate::fetch::Fetched;
use crate::node::NodePackage;
use crate::python::PythonPackage;

/// Reads `data` as every kind of listing, and holds a few specs against it. What stands before the first NUL is one of them.
pub fn listings(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0);
    let (spec, body) = end.map_or((&b""[..], data), |end| (&data[..end], &data[end + 1..]));
    let spec = String::from_utf8_lossy(spec);
    let specs = |manager, fixed: &[&str]| -> Vec<PackageSpec> {
        fixed.iter().copied().chain([&*spec]).filter_map(|text| PackageSpec::parse(manager, text).ok()).collect()
    };
    for media_type in ["text/html", "application/json"] {
        let fetched = Fetched { media_type: media_type.to_owned(), body: body.to_vec() };
        if let Ok(package) = PythonPackage::read("a", &fetched) {
            let latest = package.latest();
            for spec in specs(PackageManager::Pip, &["a", "a>=1,<2", "a==1.0"]) {
                let _ = package.find(&spec);
            }
            assert_eq!(package.latest(), latest, "asking changes the answer");
        }
    }
    if let Ok(Some(package)) = NodePackage::read(body) {
        let _ = package.latest();
        for spec in specs(PackageManager::Npm, &["a", "a@^1.0.0", "a@latest"]) {
            let _ = package.find(&spec);
        }
    }
    if let Some(package) = AptPackage::read(&String::from_utf8_lossy(body)) {
        let _ = (package.latest(), package.is_virtual());
        for spec in specs(PackageManager::Apt, &["a", "a=1"]) {
            let _ = package.find(&spec);
        }
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn corpora_hold() {
        super::replay::replay("listings", super::listings);
    }
}
