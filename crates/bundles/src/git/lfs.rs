//! Files that stand for others which a large-file store keeps.

/// A pointer is smaller than this many bytes.
pub const POINTER_MAX_BYTES: usize = 1024;

const VERSION: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";

/// Whether a whole file is such a pointer.
pub fn is_lfs_pointer(bytes: &[u8]) -> bool {
    bytes.len() < POINTER_MAX_BYTES
        && bytes.starts_with(VERSION)
        && bytes.windows(12).any(|part| part == b"\noid sha256:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_small_and_names_an_object() {
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
        assert!(is_lfs_pointer(pointer.as_bytes()));
        assert!(!is_lfs_pointer(b"version https://git-lfs.github.com/spec/v1\nis what a pointer begins with\n"));
        assert!(!is_lfs_pointer(format!("{pointer}{}", "x".repeat(1024)).as_bytes()));
    }
}
