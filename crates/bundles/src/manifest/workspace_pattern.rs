//! The patterns by which a workspace names its packages: `packages/*`, `apps/**`, `tools/one`.

/// Whether a directory is one that the patterns name; none when a pattern uses more than stars, since managers differ in what they make of it.
pub fn names_member(patterns: &[String], directory: &str) -> Option<bool> {
    let plain = |pattern: &String| !pattern.contains(['!', '{', '[', '(', '?', '+', '@', '\\']);
    if !patterns.iter().all(plain) {
        return None;
    }
    let parts: Vec<&str> = directory.split('/').collect();
    Some(patterns.iter().any(|pattern| {
        let pattern: Vec<&str> = pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        matches(&pattern, &parts)
    }))
}

fn matches(pattern: &[&str], parts: &[&str]) -> bool {
    // A second run of `**` finds nothing that the first has not passed, so the search stays short.
    match (pattern, parts) {
        ([], []) => true,
        ([first, "**", ..], _) if *first == "**" => matches(&pattern[1..], parts),
        (["**", rest @ ..], _) => (0..=parts.len()).any(|taken| matches(rest, &parts[taken..])),
        ([first, rest @ ..], [part, left @ ..]) => matches_part(first, part) && matches(rest, left),
        _ => false,
    }
}

/// One level: what stands between the stars comes in order.
fn matches_part(pattern: &str, part: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == part };
    let Some(mut rest) = part.strip_prefix(head) else { return false };
    let mut middle: Vec<&str> = tail.split('*').collect();
    let last = middle.pop().unwrap_or_default();
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::names_member;

    #[test]
    fn stars_stand_for_names_and_double_ones_for_paths() {
        let named = |pattern: &str, directory: &str| names_member(&[pattern.to_owned()], directory);
        for (pattern, directory) in [
            ("packages/*", "packages/a"),
            ("./apps/", "apps"),
            ("**", "a/b"),
            ("a/**/c", "a/c"),
            ("a/**/c", "a/b/b/c"),
            ("p-*-*x", "p-a-bx"),
        ] {
            assert_eq!(named(pattern, directory), Some(true), "{pattern} {directory}");
        }
        for (pattern, directory) in
            [("packages/*", "packages/a/b"), ("packages/*", "other/a"), ("a/**/c", "a/b"), ("p-*x", "p-")]
        {
            assert_eq!(named(pattern, directory), Some(false), "{pattern} {directory}");
        }
        assert_eq!(named("packages/{a,b}", "packages/a"), None);
    }
}
