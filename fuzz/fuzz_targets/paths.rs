//! Names of archive members, paths in a project's source, names that become mount segments.
#![no_main]

use std::path::{Component, Path};

use stead_domain::{Slug, SourcePath};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    stead_bundles::fuzzing::fuzz_path(data);
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
});
