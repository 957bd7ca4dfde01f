//! The bytes of files, as `git cat-file --batch` writes them one after the other.

use std::io;

use super::tree::GitFile;
use crate::archive::Sink;

/// A head is an id, a word and a number.
const HEAD_MAX_BYTES: usize = 128;

/// Passes the files of a commit on to a sink while their bytes arrive in pieces of any size.
#[derive(Debug)]
pub struct BlobReader {
    files: std::vec::IntoIter<GitFile>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Between files: the part of a head that has arrived.
    Head(Vec<u8>),
    /// So many bytes of a file are missing.
    Bytes(u64),
    /// The line end after a file is missing.
    End,
}

/// Why the bytes cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum BlobReadError {
    /// Not what was asked for, or not all of it.
    #[error("the repository's files did not come as its tree lists them")]
    Malformed,
    /// The sink refused a file.
    #[error("failed to store a file of the repository")]
    Sink(#[source] io::Error),
}

impl BlobReader {
    /// Expects these files, asked for in this order.
    pub fn new(files: Vec<GitFile>) -> Self {
        Self { files: files.into_iter(), state: State::Head(Vec::new()) }
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8], sink: &mut dyn Sink) -> Result<(), BlobReadError> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Head(head) => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    head.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
                    if head.len() > HEAD_MAX_BYTES {
                        return Err(BlobReadError::Malformed);
                    }
                    let Some(end) = end else { return Ok(()) };
                    bytes = &bytes[end + 1..];
                    let file = self.files.next().ok_or(BlobReadError::Malformed)?;
                    if *head != format!("{} blob {}", file.id, file.size).into_bytes() {
                        return Err(BlobReadError::Malformed);
                    }
                    sink.file(&file.path, file.executable, file.size).map_err(BlobReadError::Sink)?;
                    self.state = if file.size == 0 { State::End } else { State::Bytes(file.size) };
                }
                State::Bytes(left) => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    let (own, rest) = bytes.split_at(count);
                    sink.chunk(own).map_err(BlobReadError::Sink)?;
                    bytes = rest;
                    *left -= count as u64;
                    if *left == 0 {
                        self.state = State::End;
                    }
                }
                State::End => {
                    if bytes[0] != b'\n' {
                        return Err(BlobReadError::Malformed);
                    }
                    bytes = &bytes[1..];
                    sink.file_end().map_err(BlobReadError::Sink)?;
                    self.state = State::Head(Vec::new());
                }
            }
        }
        Ok(())
    }

    /// The bytes are over; refuses when files are missing.
    pub fn finish(self) -> Result<(), BlobReadError> {
        let between = matches!(&self.state, State::Head(head) if head.is_empty());
        if between && self.files.len() == 0 { Ok(()) } else { Err(BlobReadError::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::BundlePath;

    #[derive(Default)]
    struct Kept(Vec<(String, Vec<u8>)>, usize);

    impl Sink for Kept {
        fn directory(&mut self, _: &BundlePath) -> io::Result<()> {
            Ok(())
        }
        fn file(&mut self, path: &BundlePath, _: bool, _: u64) -> io::Result<()> {
            self.0.push((path.to_string(), Vec::new()));
            Ok(())
        }
        fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.last_mut().unwrap().1.extend_from_slice(bytes);
            Ok(())
        }
        fn file_end(&mut self) -> io::Result<()> {
            self.1 += 1;
            Ok(())
        }
    }

    fn file(name: &str, size: u64) -> GitFile {
        GitFile { path: BundlePath::parse(name).unwrap(), executable: false, size, id: "b".repeat(40) }
    }

    #[test]
    fn files_arrive_in_pieces_of_any_size() {
        let id = "b".repeat(40);
        let stream = format!("{id} blob 3\na\nb\n{id} blob 0\n\n");
        for size in 1..stream.len() {
            let mut reader = BlobReader::new(vec![file("x", 3), file("y", 0)]);
            let mut kept = Kept::default();
            for piece in stream.as_bytes().chunks(size) {
                reader.feed(piece, &mut kept).unwrap();
            }
            reader.finish().unwrap();
            assert_eq!(kept.0, [("x".to_owned(), b"a\nb".to_vec()), ("y".to_owned(), Vec::new())], "{size}");
            assert_eq!(kept.1, 2);
        }
    }

    #[test]
    fn what_was_not_asked_for_is_refused() {
        let id = "b".repeat(40);
        for stream in [
            format!("{id} missing\n"),
            format!("{id} blob 4\nabcd\n"),
            format!("{id} tree 3\nabc\n"),
            format!("{id} blob 3\nabcX"),
            format!("{id} blob 3\nabc\n{id} blob 3\nabc\n"),
            "x".repeat(200),
        ] {
            let mut reader = BlobReader::new(vec![file("x", 3)]);
            assert!(reader.feed(stream.as_bytes(), &mut Kept::default()).is_err(), "{stream}");
        }
        let mut reader = BlobReader::new(vec![file("x", 3)]);
        reader.feed(format!("{id} blob 3\nab").as_bytes(), &mut Kept::default()).unwrap();
        assert!(reader.finish().is_err());
    }
}
