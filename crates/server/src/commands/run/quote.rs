//! A command line as a bash script that runs exactly it.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

/// Words that begin a compound command when they stand first and bare. `time` is not among them: bash's own is the only one
/// that is always there.
const KEYWORDS: [&str; 16] = [
    "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in",
    "function", "coproc",
];

/// Quotes every word so that bash splits, expands and interprets nothing in it.
pub(super) fn command(words: &[OsString]) -> String {
    let mut script = String::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            script.push(' ');
        }
        script.push_str(&quoted(word, index == 0));
    }
    script
}

fn quoted(word: &OsStr, first: bool) -> String {
    let Some(text) = word.to_str() else { return bytes(word.as_bytes()) };
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+./:,@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(bare) && !(first && KEYWORDS.contains(&text)) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What is not UTF-8 cannot travel in JSON; bash makes the bytes again.
fn bytes(word: &[u8]) -> String {
    let mut text = "$'".to_owned();
    for &byte in word {
        if byte.is_ascii_alphanumeric() {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn bash_gives_the_program_exactly_the_words() {
        let mut words: Vec<OsString> = [
            "printf", "%s\\0", "", " ", "a b", "it's", "\"", "$HOME", "`id`", "$(id)", "a\nb", "*", "~", "\\", "!",
            "#x", "a=b", "-n", "ü", "&", ";", "|", "<", ">", "{a,b}", "[x]", "(", "--", "if", "\u{7}", "''",
        ]
        .iter()
        .map(OsString::from)
        .collect();
        words.push(OsString::from_vec(vec![b'f', 0xff, b'1', 0x80, b'\'', b'\\']));
        let output = Command::new("bash").arg("-c").arg(command(&words)).output().unwrap();
        let found: Vec<Vec<u8>> = output.stdout.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        let expected: Vec<Vec<u8>> =
            words[2..].iter().map(|word| word.as_bytes().to_vec()).chain([Vec::new()]).collect();
        assert_eq!(found, expected);
        assert_eq!(command(&["python3".into(), "/env/a/run.py".into()]), "python3 /env/a/run.py");
        assert_eq!(command(&["if".into(), "A=b".into()]), "'if' 'A=b'");
    }
}
