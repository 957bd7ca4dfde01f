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
            let value = unquoted(value.trim());
            match name.trim() {
                "path" => path = Some(value),
                "url" => url = Some(without_user(&value)),
                _ => {}
            }
        }
    }
    found
}

/// A value as git reads it: quotes may stand around any part of it, and a backslash takes the next character as it is.
fn unquoted(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {}
            '\\' => plain.extend(characters.next()),
            _ => plain.push(character),
        }
    }
    plain
}

/// Without what stands before the last `@` of the part that names the host: all up to the first slash behind `//`, or of the
/// short form of ssh.
fn without_user(url: &str) -> String {
    let shown: String = url.chars().filter(|character| !character.is_control()).collect();
    let authority_at = shown.find("//").map_or(0, |slashes| slashes + 2);
    let (scheme, rest) = shown.split_at(authority_at);
    let is_path = authority_at == 0 && rest.starts_with(['/', '.']);
    let end = rest.find('/').unwrap_or(rest.len());
    let host_at = if is_path { 0 } else { rest[..end].rfind('@').map_or(0, |at| at + 1) };
    // A password may hold a slash that nobody encoded: what stands behind a colon is one unless it is a port.
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    let has_password = rest[host_at..end].split_once(':').is_some_and(|(_, port)| !is_port(port));
    let host_at = rest.rfind('@').filter(|_| has_password).map_or(host_at, |at| host_at.max(at + 1));
    format!("{scheme}{}", &rest[host_at..]).chars().take(500).collect()
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

    #[test]
    fn no_form_of_an_address_shows_a_user() {
        for (url, shown) in [
            ("user:s3cret@host:team/x.git", "host:team/x.git"),
            ("git@host:x", "host:x"),
            ("//tok:s3cret@host/x", "//host/x"),
            ("\"https://u:s3cret@ho\"st/x", "https://host/x"),
            ("https://\"u:s3cret\"@host/x", "https://host/x"),
            ("https://u@v:s3cret@host/x", "https://host/x"),
            ("https://u:s3c/ret@host/x", "https://host/x"),
            ("ext::https://u:s3cret@host/x", "ext::https://host/x"),
            ("https://u:s3cret@host:8443/x@v1", "https://host:8443/x@v1"),
            ("https://host/team/x@v1", "https://host/team/x@v1"),
            ("../a@b/c", "../a@b/c"),
        ] {
            let text = format!("[submodule \"x\"]\n\tpath = x\n\turl = {url}\n");
            assert_eq!(submodule_urls(text.as_bytes())["x"], shown, "{url}");
        }
    }
}
