//! Pages in HTML (PEP 503): each file is an anchor. Read as generously as browsers do, since indexes write them by hand.

use percent_encoding::percent_decode_str;

use super::File;

/// The files of a page, in order.
pub(super) fn files(page: &str) -> impl Iterator<Item = File> + '_ {
    anchors(page).filter_map(|attributes| {
        let get = |name: &str| attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let address = get("href")?;
        let path = address.split(['#', '?']).next()?;
        let name = percent_decode_str(path.rsplit('/').next()?).decode_utf8().ok()?.into_owned();
        (!name.is_empty()).then(|| File { name, yanked: get("data-yanked").is_some() })
    })
}

type Attributes = Vec<(String, String)>;

/// The attributes of each anchor.
fn anchors(page: &str) -> impl Iterator<Item = Attributes> + '_ {
    let mut rest = page;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find('<')?;
            rest = &rest[start + 1..];
            if let Some(comment) = rest.strip_prefix("!--") {
                rest = comment.split_once("-->").map_or("", |(_, after)| after);
                continue;
            }
            let mut characters = rest.chars();
            let anchor = matches!(characters.next(), Some('a' | 'A'));
            if anchor && characters.next().is_some_and(|next| next.is_ascii_whitespace()) {
                let (attributes, after) = attributes(&rest[1..]);
                rest = after;
                return Some(attributes);
            }
        }
    })
}

/// The attributes up to the end of a tag, and what comes after.
fn attributes(mut rest: &str) -> (Attributes, &str) {
    let mut found = Attributes::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        let Some(first) = rest.chars().next() else { return (found, "") };
        if first == '>' {
            return (found, &rest[1..]);
        }
        // A stray `=` begins a name, so that each turn takes at least one character.
        let skip = first.len_utf8();
        let end = rest[skip..].find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/'));
        let end = end.map_or(rest.len(), |end| end + skip);
        let name = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start();
        let Some(value) = rest.strip_prefix('=').map(str::trim_start) else {
            found.push((name, String::new()));
            continue;
        };
        let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
        let (value, after) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value.split_at(value.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(value.len())),
        };
        found.push((name, unescaped(value)));
        rest = after;
    }
}

/// The references that occur in addresses.
fn unescaped(text: &str) -> String {
    let replaced = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#43;", "+");
    replaced.replace("&#x2B;", "+").replace("&#39;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_files() {
        let page = r#"<!DOCTYPE html><html><body><!-- <a href="no-1.tar.gz">no</a> --><h1>Links</h1>
            <a href="../../packages/aa/a-1.0.tar.gz#sha256=0" data-requires-python="&gt;=3.8">a-1.0.tar.gz</a><br/>
            <A class=x HREF='https://files.test/a-2.0%2Bcpu-py3-none-any.whl?x=/y' data-yanked="">a</A>
            <a data-yanked href=a-3.tar.gz>a</a><abbr href="b"></abbr><a name="top">x</a><a href="dir/">d</a><a href="a-4.zip"#;
        let found: Vec<_> = files(page).map(|file| (file.name, file.yanked)).collect();
        let expected =
            [("a-1.0.tar.gz", false), ("a-2.0+cpu-py3-none-any.whl", true), ("a-3.tar.gz", true), ("a-4.zip", false)];
        assert_eq!(found, expected.map(|(name, yanked)| (name.to_owned(), yanked)));
        assert_eq!(files("<a =x= <a <<a href").count(), 0);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "(<a |<!--|-->|href=|[a =\"'/>&#;\u{e9}\\s]){0,60}") {
            assert!(files(&text).count() <= text.matches('<').count());
        }
    }
}
