//! Entry point for a fuzzer: words that a client says and that mean something outside of this program. Any panic or hang is a
//! finding, and whatever an assertion here says.

use std::path::{Component, Path};

use crate::declared::{PackageManager, PackageSpec};
use crate::network::{AllowedHosts, BuildNetworkPolicy, NetworkPolicy};
use crate::{ProjectId, Slug, SourcePath};

/// Reads `data` as a path in a project's source and as a name that becomes a segment of a mount.
pub fn paths(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(path) = SourcePath::parse(&text) {
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        assert!(Path::new(path.as_str()).components().all(plain), "a path leaves its root: {path}");
        assert!(path.as_str().len() <= SourcePath::MAX);
        assert_eq!(SourcePath::parse(path.as_str()).ok().as_ref(), Some(&path), "an accepted path is refused again");
        assert!(path.ancestors().all(|above| path.is_beneath(&above)));
    }
    if let Ok(slug) = Slug::from_name(&text) {
        let text = slug.as_str();
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        assert!(text.bytes().all(allowed) && (1..=Slug::MAX).contains(&text.len()), "an odd segment: {text}");
        assert!(text.starts_with(|first: char| first.is_ascii_alphanumeric()), "an odd first character: {text}");
        assert!(!text.contains(".."), "a segment that goes up: {text}");
    }
}

/// Reads `data` as a package that an installer gets on its command line, as hosts of a network, and as an id.
pub fn words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for manager in PackageManager::ALL {
        if let Ok(spec) = PackageSpec::parse(manager, &text) {
            let shown = spec.as_str();
            assert!(!shown.starts_with('-') && !shown.chars().any(char::is_control), "an odd package: {shown:?}");
            assert!(!shown.contains(['$', '`', '\\', '&', ';', '\'', '"']), "a shell's character: {shown:?}");
            assert!(shown.starts_with(spec.name()) && shown.ends_with(spec.constraint()), "odd parts of {shown:?}");
            assert_eq!(PackageSpec::parse(manager, shown).ok().as_ref(), Some(&spec), "an accepted spec is refused");
        }
    }
    if let Ok(hosts) = AllowedHosts::parse(text.split(',')) {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        assert!(hosts.iter().all(|host| host.bytes().all(plain) && !host.ends_with('.')), "an odd host: {hosts:?}");
        assert!(AllowedHosts::parse(hosts.iter()).is_ok_and(|again| again == hosts), "accepted hosts are refused");
    }
    let _ = (text.parse::<NetworkPolicy>(), text.parse::<BuildNetworkPolicy>());
    if let Ok(id) = text.parse::<ProjectId>() {
        assert_eq!(id.to_string(), text, "an id has two spellings");
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn corpora_hold() {
        replay("paths", super::paths);
        replay("words", super::words);
    }
}
