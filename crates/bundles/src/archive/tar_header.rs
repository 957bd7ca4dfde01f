//! One 512-byte tar block: numbers, names and the checksum that tells a header from anything else.

use tar::Header;

use super::error::ArchiveError;

pub(crate) const BLOCK_BYTES: usize = 512;

/// Whether `head` begins with a tar header. Tars older than POSIX have no magic, so the checksum decides.
pub(crate) fn looks_like_header(head: &[u8]) -> bool {
    head.first_chunk::<BLOCK_BYTES>().is_some_and(checksum_is_right)
}

/// Sums the block as unsigned bytes or, as some old writers did, as signed ones.
pub(crate) fn checksum_is_right(block: &[u8; BLOCK_BYTES]) -> bool {
    let Some(stated) = number(&block[148..156]) else { return false };
    let without_field = block[..148].iter().chain(&[b' '; 8]).chain(&block[156..]);
    let (unsigned, signed) = without_field.fold((0_u64, 0_i64), |(unsigned, signed), byte| {
        (unsigned + u64::from(*byte), signed + i64::from(byte.cast_signed()))
    });
    // An all-zero block sums to the eight spaces of its checksum field and states nothing.
    stated != 0 && (stated == unsigned || i64::try_from(stated) == Ok(signed))
}

/// Reads an octal field, or a base-256 one when its top bit is set. `None` for negative, overlong and other text.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        let mut value = u64::from(field[0] & 0x7f);
        for byte in &field[1..] {
            value = value.checked_mul(256)?.checked_add(u64::from(*byte))?;
        }
        return Some(value);
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(|c| c == ' ' || c == '\0');
    let text = text.split(['\0', ' ']).next()?;
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

/// The fields of a header that matter here.
pub(crate) struct Fields {
    pub(crate) kind: u8,
    pub(crate) size: u64,
    pub(crate) executable: bool,
    pub(crate) name: Vec<u8>,
}

pub(crate) fn parse(block: &[u8; BLOCK_BYTES]) -> Result<Fields, ArchiveError> {
    if !checksum_is_right(block) {
        return Err(ArchiveError::corrupt("a tar header has a wrong checksum"));
    }
    let header = Header::from_byte_slice(block);
    let size = number(&block[124..136]).ok_or_else(|| ArchiveError::corrupt("a tar header has no readable size"))?;
    // An unreadable mode costs the executable bit, not the import.
    let executable = number(&block[100..108]).is_some_and(|mode| mode & 0o111 != 0);
    Ok(Fields { kind: block[156], size, executable, name: header.path_bytes().into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   17 \0\0"), Some(0o17));
        assert_eq!(number(&[0; 8]), Some(0));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 1, 2]), Some(258));
        assert_eq!(number(&[0xff; 12]), None);
        assert_eq!(number(b"9999999\0"), None);
    }

    #[test]
    fn zeros_and_text_are_no_header() {
        assert!(!looks_like_header(&[0; 512]));
        assert!(!looks_like_header(&[b'a'; 512]));
        assert!(!looks_like_header(b"short"));
    }
}
