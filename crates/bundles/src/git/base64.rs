//! How base64 spells bytes that stand in the middle of others.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Fewer characters than these say too little to be looked for.
const SHORTEST: usize = 4;

/// The characters that `secret` is spelt with wherever it begins among the three bytes of a group, and whatever stands around
/// it: those at its ends that depend on its neighbours are left out.
pub(super) fn fragments(secret: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for alphabet in [STANDARD, FOR_URLS] {
        for before in 0..3_usize {
            let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.iter().copied()).collect();
            // A character holds six bits: only those that lie within the secret altogether count.
            let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
            let fragment: String = (first..end).map(|at| char::from(alphabet[sextet(&bytes, at)])).collect();
            if fragment.len() >= SHORTEST && !found.contains(&fragment) {
                found.push(fragment);
            }
        }
    }
    found
}

/// Blanks every run of base64 that holds the fragment.
pub(super) fn blank(text: &str, fragment: &str) -> String {
    let in_run = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
    let mut blanked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(fragment) {
        let bytes = rest.as_bytes();
        let start = bytes[..at].iter().rposition(|byte| !in_run(*byte)).map_or(0, |before| before + 1);
        let after = at + fragment.len();
        let end = bytes[after..].iter().position(|byte| !in_run(*byte)).map_or(bytes.len(), |length| after + length);
        // A run is of ASCII, so both its ends lie between characters.
        blanked.push_str(&rest[..start]);
        blanked.push_str("***");
        rest = &rest[end..];
    }
    blanked + rest
}

fn sextet(bytes: &[u8], at: usize) -> usize {
    let bit = at * 6;
    let byte = |at: usize| usize::from(bytes.get(at).copied().unwrap_or(0));
    let pair = byte(bit / 8) << 8 | byte(bit / 8 + 1);
    pair >> (10 - bit % 8) & 0x3f
}
