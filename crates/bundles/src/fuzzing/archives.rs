//! Archives whose sums are right, so that what a fuzzer changes is read instead of refused at once.

use std::io::Write;

use flate2::{Compression, Crc, write::GzEncoder};

use super::fuzz_archive;
use crate::archive::tar_header::{self, BLOCK_BYTES};

/// Reads `data` as a tar after setting the checksum of every header and the mark at its end. The first byte says in what it is
/// wrapped: nothing or gzip.
pub fn fuzz_tar(data: &[u8]) {
    let Some((wrapping, data)) = data.split_first() else { return };
    let mut tar = data.to_vec();
    let mut at = 0;
    while let Some(block) = tar.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<BLOCK_BYTES>()) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        // Six digits hold the sum of any block.
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = tar_header::number(&block[124..136]).unwrap_or_default();
        let blocks = usize::try_from(size.div_ceil(BLOCK_BYTES as u64)).unwrap_or(usize::MAX);
        at = at.saturating_add(BLOCK_BYTES).saturating_add(blocks.saturating_mul(BLOCK_BYTES));
    }
    tar.resize(tar.len().next_multiple_of(BLOCK_BYTES) + 2 * BLOCK_BYTES, 0);
    fuzz_archive(&if wrapping % 2 == 0 { tar } else { gzip(&tar) });
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// Reads `data` as an order for a zip of stored members, each with the right checksum and place in the directory:
///
/// ```text
/// member = flags  name length  name  extra length  extra  body length  body
/// ```
///
/// The flags say which of the fields lie: 1 its size, 2 its checksum, 4 its place, 8 its attributes are those of Unix (the extra
/// field's first byte is the kind), 16 it is marked as encrypted, 32 its name is UTF-8, 64 the sizes stand in a zip64 field.
pub fn fuzz_zip(data: &[u8]) {
    let mut order = Order(data);
    let (mut zip, mut directory, mut members) = (Vec::new(), Vec::new(), 0_u16);
    while let Some(flags) = order.byte() {
        let (name, extra, body) = (order.piece(), order.piece(), order.piece());
        let lies = |bit: u8| u32::from(flags & bit != 0);
        let mut crc = Crc::new();
        crc.update(body);
        let place = zip.len() as u32 + lies(4);
        let size = body.len() as u32 + lies(1);
        let wide = flags & 64 != 0;
        let mut fields = extra.to_vec();
        if wide {
            let sizes = [u64::from(size).to_le_bytes(), (body.len() as u64).to_le_bytes()].concat();
            fields.splice(0..0, [&[1, 0, 16, 0], sizes.as_slice()].concat());
        }
        let (stated, packed) = if wide { (u32::MAX, u32::MAX) } else { (size, body.len() as u32) };
        let bits = u16::from(flags & 16 != 0) | u16::from(flags & 32 != 0) << 11;
        let mode =
            if flags & 8 != 0 { u32::from(extra.first().copied().unwrap_or(0o100)) << 25 | 0o755 << 16 } else { 0 };
        // Both headers share their middle: flags, method, time, checksum, sizes, lengths.
        let mut middle = Vec::new();
        middle.extend(bits.to_le_bytes());
        middle.extend([0; 6]);
        for number in [crc.sum() ^ lies(2), packed, stated] {
            middle.extend(number.to_le_bytes());
        }
        middle.extend((name.len() as u16).to_le_bytes());
        middle.extend((fields.len() as u16).to_le_bytes());
        zip.extend([b"PK\x03\x04\x14\0", middle.as_slice(), name, &fields, body].concat());
        let system = if flags & 8 != 0 { 3 } else { 0 };
        directory
            .extend([b"PK\x01\x02\x14", [system, 20, 0].as_slice(), &middle, &[0; 8], &mode.to_le_bytes()].concat());
        directory.extend([&place.to_le_bytes(), name, &fields].concat());
        members = members.wrapping_add(1);
    }
    let (start, length) = (zip.len() as u32, directory.len() as u32);
    zip.extend(directory);
    zip.extend(b"PK\x05\x06\0\0\0\0");
    zip.extend([members.to_le_bytes(), members.to_le_bytes()].concat());
    zip.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
    zip.extend([0; 2]);
    fuzz_archive(&zip);
}

/// What is left of an order.
struct Order<'a>(&'a [u8]);

impl<'a> Order<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A length and so many bytes, or what there is.
    fn piece(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte().unwrap_or_default()).min(self.0.len());
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        piece
    }
}
