//! One reader over every compression, with bounded memory.
//!
//! Compressors may write several members one after the other (pigz, pbzip2, pzstd); they are read as one stream.
//! Whatever follows the last member and is none is trailing garbage and left alone.

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::{error::ArchiveError, format::Format, xz::XzReader};

/// The largest zstd window, in bytes. `zstd --ultra` goes to 128 MiB; its default levels stay at 8 MiB.
const ZSTD_WINDOW_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The decompressed bytes of an input.
pub(super) struct Stream<R: BufRead> {
    state: State<R>,
}

enum State<R: BufRead> {
    Plain(R),
    Gzip(Box<GzDecoder<R>>),
    Bzip2(BzDecoder<R>),
    Xz(Box<XzReader<R>>),
    Zstd(Box<StreamingDecoder<R, FrameDecoder>>),
    /// The last member is over, or starting another one failed.
    Done,
}

impl<R: BufRead> Stream<R> {
    /// Starts reading `format`; a zip has no such stream and is read as it is.
    pub(super) fn new(format: Format, reader: R) -> Result<Self, ArchiveError> {
        let state = match format {
            Format::Zip | Format::Tar => State::Plain(reader),
            format => State::start(format, reader).map_err(ArchiveError::from_decoder)?,
        };
        Ok(Self { state })
    }
}

impl<R: BufRead> State<R> {
    fn start(format: Format, mut reader: R) -> io::Result<Self> {
        Ok(match format {
            Format::TarGzip => Self::Gzip(Box::new(GzDecoder::new(reader))),
            Format::TarBzip2 => Self::Bzip2(BzDecoder::new(reader)),
            Format::TarXz => Self::Xz(Box::new(XzReader::new(reader)?)),
            Format::TarZstd => {
                if !skip_to_zstd_frame(&mut reader)? {
                    return Ok(Self::Done);
                }
                check_zstd_window(&mut reader)?;
                let decoder = StreamingDecoder::new(reader)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("zstd frame: {error}")))?;
                Self::Zstd(Box::new(decoder))
            }
            Format::Zip | Format::Tar => Self::Plain(reader),
        })
    }

    fn into_reader(self) -> Option<R> {
        match self {
            Self::Plain(_) | Self::Done => None,
            Self::Gzip(decoder) => Some(decoder.into_inner()),
            Self::Bzip2(decoder) => Some(decoder.into_inner()),
            Self::Xz(decoder) => decoder.into_inner(),
            Self::Zstd(decoder) => Some(decoder.into_inner()),
        }
    }
}

impl<R: BufRead> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let count = match &mut self.state {
                State::Plain(reader) => return reader.read(buffer),
                State::Gzip(decoder) => decoder.read(buffer)?,
                State::Bzip2(decoder) => decoder.read(buffer)?,
                State::Xz(decoder) => decoder.read(buffer)?,
                State::Zstd(decoder) => decoder.read(buffer)?,
                State::Done => return Ok(0),
            };
            if count > 0 {
                return Ok(count);
            }
            let finished = std::mem::replace(&mut self.state, State::Done);
            let Some(mut reader) = finished.into_reader() else { return Ok(0) };
            if let Some(format) = Format::detect_compression(reader.fill_buf()?) {
                self.state = State::start(format, reader)?;
            }
        }
    }
}

/// Reads past skippable frames. `false` when no frame follows them.
fn skip_to_zstd_frame<R: BufRead>(reader: &mut R) -> io::Result<bool> {
    loop {
        match reader.fill_buf()? {
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                let mut header = [0; 8];
                reader.read_exact(&mut header)?;
                let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
                io::copy(&mut reader.by_ref().take(u64::from(length)), &mut io::sink())?;
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => return Ok(true),
            _ => return Ok(false),
        }
    }
}

/// Refuses a frame that wants more memory than we give, before the decoder reserves it.
fn check_zstd_window<R: BufRead>(reader: &mut R) -> io::Result<()> {
    let head = reader.fill_buf()?;
    let Some(descriptor) = head.get(4) else { return Ok(()) };
    let window = if descriptor & 0x20 == 0 {
        let Some(byte) = head.get(5) else { return Ok(()) };
        let base = 1_u64 << (10 + (byte >> 3));
        base + base / 8 * u64::from(byte & 7)
    } else {
        // A single-segment frame keeps its whole content, whose size follows the dictionary id.
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let width = [1, 2, 4, 8][usize::from(descriptor >> 6)];
        let Some(field) = head.get(5 + dictionary..5 + dictionary + width) else { return Ok(()) };
        field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    };
    if window > ZSTD_WINDOW_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a zstd window of more than 64 MiB"));
    }
    Ok(())
}
