//! The xz container, read block by block around the LZMA2 decoder.
//!
//! The decoder reserves a dictionary of the size that a block states, up to 4 GiB. Reading the container here is what
//! lets that size be judged before anything is reserved.

use std::io::{self, Read};

use flate2::Crc;
use lzma_rust2::Lzma2Reader;

/// The largest dictionary, in bytes; `xz -9` writes exactly this.
const DICTIONARY_MAX_BYTES: u32 = 64 * 1024 * 1024;
const MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];

/// Decompresses one xz stream; what follows it is left in the reader.
pub(super) struct XzReader<R> {
    check: u8,
    state: State<R>,
}

enum State<R> {
    Between(Counted<R>),
    Block { decoder: Box<Lzma2Reader<Counted<R>>>, digest: Digest },
    End(Counted<R>),
    Failed,
}

/// Counts bytes since the start of a block, because blocks are padded to four.
struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}

enum Digest {
    Crc32(Crc),
    Crc64(u64),
    /// None, or one that is not verified (SHA-256, which `xz` writes only when asked to).
    Unverified,
}

impl<R: Read> XzReader<R> {
    pub(super) fn new(mut inner: R) -> io::Result<Self> {
        let mut header = [0; 12];
        inner.read_exact(&mut header)?;
        if header[..6] != MAGIC || header[6] != 0 || crc32(&header[6..8]) != le32(&header[8..12]) {
            return Err(invalid("the xz header is damaged"));
        }
        Ok(Self { check: header[7] & 0x0f, state: State::Between(Counted { inner, count: 0 }) })
    }

    /// The reader, positioned behind the stream, if that was read to its end.
    pub(super) fn into_inner(self) -> Option<R> {
        match self.state {
            State::End(counted) => Some(counted.inner),
            _ => None,
        }
    }

    fn check_bytes(&self) -> usize {
        // The width of each check id, as the format fixes it for known and unknown ids alike.
        [0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64][usize::from(self.check)]
    }

    fn digest(&self) -> Digest {
        match self.check {
            1 => Digest::Crc32(Crc::new()),
            4 => Digest::Crc64(!0),
            _ => Digest::Unverified,
        }
    }

    /// Reads a block header, or the index and footer when no block is left.
    fn begin(&self, mut reader: Counted<R>) -> io::Result<State<R>> {
        reader.count = 0;
        let mut size = [0];
        reader.read_exact(&mut size)?;
        if size[0] == 0 {
            skip_index(&mut reader)?;
            return Ok(State::End(reader));
        }
        let mut header = vec![0; (usize::from(size[0]) + 1) * 4];
        header[0] = size[0];
        reader.read_exact(&mut header[1..])?;
        let (fields, stated) = header.split_at(header.len() - 4);
        if crc32(fields) != le32(stated) {
            return Err(invalid("an xz block header is damaged"));
        }
        let dictionary = dictionary_bytes(fields)?;
        Ok(State::Block {
            decoder: Box::new(Lzma2Reader::new(Counted { inner: reader.inner, count: 0 }, dictionary, None)),
            digest: self.digest(),
        })
    }

    fn end_block(&self, mut reader: Counted<R>, digest: &Digest) -> io::Result<Counted<R>> {
        // Headers are multiples of four bytes, so the compressed bytes alone say how much padding there is.
        let mut padding = [0; 4];
        let padded = ((4 - reader.count % 4) % 4) as usize;
        reader.read_exact(&mut padding[..padded])?;
        let mut stated = [0; 64];
        let stated = &mut stated[..self.check_bytes()];
        reader.read_exact(stated)?;
        let right = match digest {
            Digest::Crc32(crc) => stated == crc.sum().to_le_bytes(),
            Digest::Crc64(crc) => stated == (!crc).to_le_bytes(),
            Digest::Unverified => true,
        };
        if right { Ok(reader) } else { Err(invalid("an xz block has a wrong checksum")) }
    }
}

impl<R: Read> Read for XzReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::Failed) {
                State::Between(reader) => self.state = self.begin(reader)?,
                State::Block { mut decoder, mut digest } => {
                    let count = decoder.read(buffer)?;
                    if count > 0 {
                        digest.update(&buffer[..count]);
                        self.state = State::Block { decoder, digest };
                        return Ok(count);
                    }
                    self.state = State::Between(self.end_block(decoder.into_inner(), &digest)?);
                }
                State::End(reader) => {
                    self.state = State::End(reader);
                    return Ok(0);
                }
                State::Failed => return Err(invalid("the xz stream failed before")),
            }
        }
    }
}

impl Digest {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(crc) => crc.update(bytes),
            Self::Crc64(crc) => {
                *crc = bytes.iter().fold(*crc, |crc, byte| CRC64_TABLE[usize::from((crc as u8) ^ byte)] ^ (crc >> 8));
            }
            Self::Unverified => {}
        }
    }
}

/// The dictionary size from a block header without its checksum; any filter but LZMA2 alone is refused.
fn dictionary_bytes(header: &[u8]) -> io::Result<u32> {
    let damaged = || invalid("an xz block header is malformed");
    let flags = *header.get(1).ok_or_else(damaged)?;
    if flags & 0x3f != 0 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "an xz filter other than LZMA2"));
    }
    let mut rest = header.get(2..).ok_or_else(damaged)?;
    for present in [flags & 0x40, flags & 0x80] {
        if present != 0 {
            let length = rest.iter().take(9).position(|byte| byte & 0x80 == 0).ok_or_else(damaged)? + 1;
            rest = &rest[length..];
        }
    }
    match rest {
        [0x21, 1, bits, ..] if *bits <= 40 => {
            let bytes = if *bits == 40 { u32::MAX } else { (2 | u32::from(bits & 1)) << (u32::from(*bits) / 2 + 11) };
            if bytes > DICTIONARY_MAX_BYTES {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "an xz dictionary of more than 64 MiB"));
            }
            Ok(bytes)
        }
        [0x21, ..] => Err(damaged()),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "an xz filter other than LZMA2")),
    }
}

/// Reads past the index, whose first byte was consumed, and the footer.
fn skip_index<R: Read>(reader: &mut Counted<R>) -> io::Result<()> {
    let records = read_number(reader)?;
    for _ in 0..records {
        read_number(reader)?;
        read_number(reader)?;
    }
    let padding = ((4 - reader.count % 4) % 4) as usize;
    // Padding, the index's checksum, and a footer of twelve bytes.
    let mut rest = [0; 3 + 4 + 12];
    let rest = &mut rest[..padding + 16];
    reader.read_exact(rest)?;
    if rest.ends_with(b"YZ") { Ok(()) } else { Err(invalid("the xz footer is damaged")) }
}

fn read_number<R: Read>(reader: &mut R) -> io::Result<u64> {
    let mut value = 0;
    for shift in 0..9 {
        let mut byte = [0];
        reader.read_exact(&mut byte)?;
        value |= u64::from(byte[0] & 0x7f) << (shift * 7);
        if byte[0] & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(invalid("the xz index is malformed"))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn le32(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

static CRC64_TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u64;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xc96c_5795_d787_0f42 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};
