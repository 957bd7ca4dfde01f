//! A classic `yarn.lock` read through another registry.
//!
//! Classic Yarn fetches an archive from the very address in the lock, whatever registry it is told to use; npm and pnpm ask
//! their registry. Where the archive has a hash, it is the same one wherever it comes from.

/// The text with the addresses of registries' archives replaced by those of `registry`; none when nothing changes. Archives
/// without a hash, and those at addresses that are none of a registry's, stay where they are.
pub fn through_registry(lock: &str, registry: &str) -> Option<String> {
    let registry = registry.trim_end_matches('/');
    let mut changed = false;
    let mut text = String::with_capacity(lock.len());
    for entry in lock.split_inclusive("\n\n") {
        let hashed = entry.lines().any(|line| line.starts_with("  integrity "));
        for line in entry.split_inclusive('\n') {
            match line.strip_prefix("  resolved ").filter(|_| hashed).and_then(archive_path) {
                Some(path) if !line.contains(&format!("\"{registry}/")) => {
                    changed = true;
                    text.extend(["  resolved \"", registry, "/", path, "\"\n"]);
                }
                _ => text.push_str(line),
            }
        }
    }
    changed.then_some(text)
}

/// `@s/a/-/a-1.0.0.tgz#hash` of an address that ends so.
fn archive_path(value: &str) -> Option<&str> {
    let address = value.trim().trim_matches('"');
    let (_, rest) = address.split_once("://")?;
    let separator = rest.rfind("/-/")?;
    let (before, file) = (&rest[..separator], &rest[separator + 3..]);
    let slash = before.rfind('/')?;
    let name = &before[slash + 1..];
    // A scope belongs to the name, and an archive is named by what follows it.
    let start = match before[..slash].rfind('/') {
        Some(scope) if before[scope + 1..].starts_with('@') => scope + 1,
        _ => slash + 1,
    };
    let is_archive = file.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')) && !file.contains(['/', '?']);
    (is_archive && !name.is_empty()).then(|| &rest[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_with_hashes_come_through_the_registry_and_others_stay() {
        let entry = |address: &str, hash: &str| format!("a@1:\n  version \"1\"\n  resolved \"{address}\"\n{hash}\n");
        let hash = "  integrity sha512-x\n";
        let text = [
            entry("https://one.example/@s/a/-/a-1.0.0.tgz#abc", hash),
            entry("https://one.example/npm/b/-/b-1.0.0.tgz#abc", hash),
        ]
        .concat();
        let read = through_registry(&text, "https://mirror.example/npm/").unwrap();
        let expected = [
            entry("https://mirror.example/npm/@s/a/-/a-1.0.0.tgz#abc", hash),
            entry("https://mirror.example/npm/b/-/b-1.0.0.tgz#abc", hash),
        ];
        assert_eq!(read, expected.concat());
        for same in [
            entry("https://one.example/b/-/b-1.0.0.tgz#abc", ""),
            entry("https://one.example/b/archive/b-1.0.0.tgz", hash),
            entry("https://one.example/b/-/other-1.0.0.tgz", hash),
            entry("file:./b.tgz", hash),
            expected[1].clone(),
        ] {
            assert_eq!(through_registry(&same, "https://mirror.example/npm"), None, "{same}");
        }
    }
}
