//! `.gitmodules`: where a repository's submodules come from.

use std::collections::BTreeMap;

/// The URLs of submodules by their paths, as far as the file says. User information is left out of them: a repository's
/// authors may have left a token there.
pub fn submodule_urls(text: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(text);
    let mut found = BTreeMap::new();
    let (mut path, mut url) = (None, None);
    for line in text.lines().map(str::trim).chain(["["]) {
        if line.starts_with('[') {
            if let (Some(path), Some(url)) = (path.take(), url.take()) {
                found.insert(path, url);
            }
            (path, url) = (None, None);
        } else if let Some((name, value)) = line.split_once('=') {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                "path" => path = Some(value.to_owned()),
                "url" => url = Some(without_user(value)),
                _ => {}
            }
        }
    }
    found
}

fn without_user(url: &str) -> String {
    let shown: String = url.chars().filter(|character| !character.is_control()).take(500).collect();
    let Some((scheme, rest)) = shown.split_once("://") else { return shown };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_urls_without_users() {
        let text = b"[submodule \"a\"]\n\tpath = vendor/a\n\turl = https://u:t@host/a.git\n[submodule \"b\"]\n\tpath = b\n[submodule \"c\"]\n\turl=../c\n\tpath=c\n";
        let urls = submodule_urls(text);
        let found: Vec<_> = urls.iter().map(|(path, url)| (path.as_str(), url.as_str())).collect();
        assert_eq!(found, [("c", "../c"), ("vendor/a", "https://host/a.git")]);
    }
}
