//! The logs of turns and builds, a segment file each.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use stead_domain::ports::{LogChunk, LogError, LogName, Logs, PortFuture};

use crate::segments::{self, SegmentReader, SegmentWriter};
use crate::trim::Trim;

/// What a build's log keeps.
const BUILD: Trim = Trim { head_bytes: 256 << 10, tail_bytes: 768 << 10 };

/// Logs in a local directory.
#[derive(Debug, Clone)]
pub struct LocalLogs {
    root: PathBuf,
}

fn trim(log: LogName) -> Trim {
    match log {
        LogName::Turn(_) => Trim::NONE,
        LogName::Build(..) => BUILD,
    }
}

/// A log that was never written is empty.
fn or_empty<T>(result: io::Result<T>, empty: T) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(empty),
        other => other,
    }
}

impl LocalLogs {
    /// Opens the directory, making it if it is not there; blocking.
    pub fn open(root: &Path) -> Result<Self, LogError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(root);
        made.map_err(|source| LogError { action: "make the directory of", source })?;
        Ok(Self { root: root.to_owned() })
    }

    fn path(&self, log: LogName) -> PathBuf {
        self.root.join(match log {
            LogName::Turn(turn) => format!("{}.output", turn.hex()),
            LogName::Build(project, number) => format!("{}-{number}.build", project.hex()),
        })
    }

    fn blocking<T: Send + 'static>(
        &self,
        log: LogName,
        action: &'static str,
        work: impl FnOnce(&Path, Trim) -> io::Result<T> + Send + 'static,
    ) -> PortFuture<'_, Result<T, LogError>> {
        let path = self.path(log);
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || work(&path, trim(log))).await;
            done.map_err(io::Error::other).and_then(|result| result).map_err(|source| LogError { action, source })
        })
    }
}

impl Logs for LocalLogs {
    fn append(&self, log: LogName, bytes: Vec<u8>) -> PortFuture<'_, Result<(), LogError>> {
        self.blocking(log, "append to", move |path, trim| SegmentWriter::open(path, trim)?.append(&bytes).map(|_| ()))
    }

    fn read(&self, log: LogName, from: u64, most: usize) -> PortFuture<'_, Result<LogChunk, LogError>> {
        self.blocking(log, "read", move |path, trim| {
            let read = SegmentReader::open(path, trim)
                .and_then(|reader| reader.read(from, most))
                .map(|chunk| LogChunk { offset: chunk.offset, bytes: chunk.bytes, omitted: chunk.omitted });
            or_empty(read, LogChunk { offset: from, bytes: Vec::new(), omitted: 0 })
        })
    }

    fn read_kept(&self, log: LogName) -> PortFuture<'_, Result<Vec<u8>, LogError>> {
        self.blocking(log, "read", |path, trim| {
            or_empty(SegmentReader::open(path, trim).and_then(|reader| reader.read_kept()), Vec::new())
        })
    }

    fn cut(&self, log: LogName, length: u64) -> PortFuture<'_, Result<(), LogError>> {
        self.blocking(log, "cut", move |path, _| match log {
            LogName::Turn(_) => or_empty(segments::cut(path, length), ()),
            LogName::Build(..) => Ok(()),
        })
    }

    fn sync(&self, log: LogName) -> PortFuture<'_, Result<(), LogError>> {
        self.blocking(log, "make durable", |path, trim| {
            or_empty(SegmentWriter::open(path, trim).and_then(|w| w.sync()), ())
        })
    }

    fn remove(&self, log: LogName) -> PortFuture<'_, Result<(), LogError>> {
        self.blocking(log, "remove", |path, _| or_empty(std::fs::remove_file(path), ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_is_kept_whole_and_a_build_at_its_ends() {
        let directory = tempfile::tempdir().unwrap();
        let logs = LocalLogs::open(directory.path()).unwrap();
        let turn = LogName::Turn("turn_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap());
        let build = LogName::Build("henv_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap(), 1);
        assert_eq!(logs.read(turn, 7, 10).await.unwrap(), LogChunk { offset: 7, bytes: vec![], omitted: 0 });
        logs.remove(turn).await.unwrap();
        for log in [turn, build] {
            for piece in 0..5_u8 {
                logs.append(log, vec![b'a' + piece; 512 << 10]).await.unwrap();
            }
            logs.sync(log).await.unwrap();
        }
        assert_eq!(logs.read_kept(turn).await.unwrap().len(), 5 * (512 << 10));
        for (length, left) in [(6 * (512 << 10), 5 * (512 << 10)), (5 * (512 << 10) - 3, 5 * (512 << 10) - 3)] {
            logs.cut(turn, length).await.unwrap();
            assert_eq!(logs.read_kept(turn).await.unwrap().len() as u64, left);
        }
        let unwritten = LogName::Turn("turn_018f3c2a7b4c7d3e9f6a5b4c3d2e1f01".parse().unwrap());
        logs.cut(unwritten, 0).await.unwrap();
        let kept = String::from_utf8(logs.read_kept(build).await.unwrap()).unwrap();
        assert!(kept.starts_with('a') && kept.ends_with('e') && kept.contains("left out"));
        let chunk = logs.read(build, 300 << 10, 10).await.unwrap();
        assert_eq!((chunk.offset, chunk.omitted), ((5 * 512 - 768) << 10, (5 * 512 - 768 - 300) << 10));
        logs.remove(build).await.unwrap();
        assert!(logs.read_kept(build).await.unwrap().is_empty());
    }
}
