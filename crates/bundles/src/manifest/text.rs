//! The text of a manifest, or what is wrong with its encoding.

/// The longest manifest that is read, in bytes. Locks of large projects reach several megabytes.
pub const MANIFEST_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Why a manifest's bytes are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// PowerShell's redirection writes this.
    #[error("the file has the encoding UTF-16; save it as UTF-8")]
    Utf16,
    /// UTF-32 or binary data.
    #[error("the file has an unknown encoding (it contains zero bytes); save it as UTF-8")]
    ZeroBytes,
    /// Latin-1 and its relatives.
    #[error("the file has an encoding other than UTF-8 (line {line}); save it as UTF-8")]
    NotUtf8 {
        /// The first line, counted from 1, that is not UTF-8.
        line: usize,
    },
    /// Larger than [`MANIFEST_MAX_BYTES`].
    #[error("the file is larger than {MANIFEST_MAX_BYTES} bytes")]
    TooLarge,
}

/// The text of a manifest's bytes, without a byte order mark.
pub fn decode(bytes: &[u8]) -> Result<&str, TextError> {
    if bytes.len() > MANIFEST_MAX_BYTES {
        return Err(TextError::TooLarge);
    }
    if let Some(problem) = wide(bytes) {
        return Err(problem);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes)
        .map_err(|error| TextError::NotUtf8 { line: bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count() })
}

/// Recognises encodings whose characters are wider than a byte, with or without a byte order mark.
pub(super) fn wide(bytes: &[u8]) -> Option<TextError> {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(TextError::Utf16),
        [0, second, ..] if *second != 0 => Some(TextError::Utf16),
        [first, 0, ..] if *first != 0 => Some(TextError::Utf16),
        _ if bytes.contains(&0) => Some(TextError::ZeroBytes),
        _ => None,
    }
}
