//! Member names of zips: whatever their writer's code page was, one valid path text.

use flate2::Crc;

const FLAG_UTF8: u16 = 1 << 11;
const UNICODE_PATH_FIELD: u16 = 0x7075;

/// The upper half of code page 437, in which zips without a flag are defined.
const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// Decodes a name: the Unicode path field if it belongs to this name, else UTF-8, else code page 437. Separators of
/// Windows tools become slashes; a zip has no other use for a backslash that could be told from this one.
pub(super) fn decode(raw: &[u8], flags: u16, extra: &[u8]) -> String {
    let text = match unicode_path(raw, extra) {
        Some(text) if flags & FLAG_UTF8 == 0 => text.to_owned(),
        _ => match std::str::from_utf8(raw) {
            Ok(text) => text.to_owned(),
            Err(_) => raw.iter().map(|byte| cp437(*byte)).collect(),
        },
    };
    if text.contains('\\') { text.replace('\\', "/") } else { text }
}

fn unicode_path<'a>(raw: &[u8], extra: &'a [u8]) -> Option<&'a str> {
    let field = extra_field(extra, UNICODE_PATH_FIELD)?;
    let (1, stated) = (*field.first()?, field.get(1..5)?) else { return None };
    let mut crc = Crc::new();
    crc.update(raw);
    if stated != crc.sum().to_le_bytes() {
        return None;
    }
    std::str::from_utf8(&field[5..]).ok().filter(|text| !text.is_empty())
}

fn cp437(byte: u8) -> char {
    match byte.checked_sub(0x80) {
        None => char::from(byte),
        Some(index) => CP437.chars().nth(usize::from(index)).unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

/// The data of the first extra field with this id.
pub(super) fn extra_field(mut extra: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some((head, rest)) = extra.split_first_chunk::<4>() {
        let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let data = rest.get(..length)?;
        if u16::from_le_bytes([head[0], head[1]]) == wanted {
            return Some(data);
        }
        extra = &rest[length..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character() {
        assert_eq!(CP437.chars().count(), 128);
        assert_eq!(decode(b"caf\x82.txt", 0, &[]), "café.txt");
        assert_eq!(decode("naïve.txt".as_bytes(), 0, &[]), "naïve.txt");
        assert_eq!(decode(b"a\\b", 0, &[]), "a/b");
    }

    #[test]
    fn a_unicode_path_counts_only_for_the_name_it_was_made_for() {
        let mut field = vec![0x75, 0x70, 0, 0, 1, 0, 0, 0, 0];
        field.extend_from_slice("ü".as_bytes());
        field[2] = (field.len() - 4) as u8;
        assert_eq!(decode(b"x", 0, &field), "x");
        let mut crc = Crc::new();
        crc.update(b"x");
        field[5..9].copy_from_slice(&crc.sum().to_le_bytes());
        assert_eq!(decode(b"x", 0, &field), "ü");
    }
}
