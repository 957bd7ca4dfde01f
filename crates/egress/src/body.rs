//! Moving one message body from a reader to a writer.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::buffered::Buffered;
use crate::framing::{BadFraming, Framing};

/// Bytes moved at once.
pub(crate) const CHUNK: usize = 32 * 1024;

/// Which side ended the copy early.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// The sender failed, or stopped inside the body.
    Read(io::Error),
    /// The receiver failed.
    Write(io::Error),
    /// The sender broke the framing.
    Framing,
}

impl From<BadFraming> for CopyError {
    fn from(_: BadFraming) -> Self {
        Self::Framing
    }
}

impl From<CopyError> for io::Error {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Read(error) | CopyError::Write(error) => error,
            CopyError::Framing => io::ErrorKind::InvalidData.into(),
        }
    }
}

/// Copies up to the end of the body and leaves what follows it in the reader.
pub(crate) async fn copy<R, W>(reader: &mut Buffered<R>, writer: &mut W, mut framing: Framing) -> Result<(), CopyError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let progress = framing.advance(reader.peek())?;
        if progress.taken > 0 {
            writer.write_all(&reader.peek()[..progress.taken]).await.map_err(CopyError::Write)?;
            reader.take(progress.taken);
        }
        if progress.done {
            return writer.flush().await.map_err(CopyError::Write);
        }
        if reader.fill(CHUNK).await.map_err(CopyError::Read)? == 0 {
            return match framing {
                Framing::UntilClose => writer.flush().await.map_err(CopyError::Write),
                _ => Err(CopyError::Read(io::ErrorKind::UnexpectedEof.into())),
            };
        }
    }
}
