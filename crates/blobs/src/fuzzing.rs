//! Entry point for a fuzzer: bytes as a crash or a failing disk may leave them. Any panic, hang or large allocation is a
//! finding.

/// Reads `data` as a pack of small blobs and as the index beside one.
pub fn packs(data: &[u8]) {
    crate::packs::parse(data);
}
