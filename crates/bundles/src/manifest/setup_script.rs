//! `setup.sh` as bash has to see it. The source keeps its own bytes; only the copy that runs is changed.

use std::borrow::Cow;

use super::text::{TextError, wide};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Removes a byte order mark and, from a script whose first line ends the Windows way, every carriage return before a
/// line feed. A script that starts with a plain line feed keeps its carriage returns: they are data there.
pub fn normalise_for_bash(bytes: &[u8]) -> Cow<'_, [u8]> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let first_line = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    if !first_line.ends_with(b"\r\n") {
        return Cow::Borrowed(bytes);
    }
    let mut text = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                text.extend_from_slice(line);
                text.push(b'\n');
            }
            None => text.extend_from_slice(line),
        }
    }
    Cow::Owned(text)
}

/// An encoding that bash cannot run, whatever is done about line ends; to be named instead of run.
pub fn encoding_problem(bytes: &[u8]) -> Option<TextError> {
    // Archives appended to scripts are binary, so only the beginning is judged.
    wide(&bytes[..bytes.len().min(4)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_endings_go_and_data_stays() {
        assert_eq!(normalise_for_bash(b"\xef\xbb\xbf#!/bin/sh\r\necho a\r\n\r"), &b"#!/bin/sh\necho a\n\r"[..]);
        assert_eq!(normalise_for_bash(b"\xef\xbb\xbfecho a"), &b"echo a"[..]);
        let unix = b"#!/bin/sh\nprintf 'a\r\n'\n";
        assert!(matches!(normalise_for_bash(unix), Cow::Borrowed(same) if same == unix));
        assert_eq!(normalise_for_bash(b""), &b""[..]);
        assert_eq!(encoding_problem(b"e\0c\0"), Some(TextError::Utf16));
        assert_eq!(encoding_problem(b"echo"), None);
    }
}
