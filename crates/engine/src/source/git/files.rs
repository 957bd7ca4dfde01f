//! A commit's files, from the object database of the sandbox into blobs.

use std::fmt::Write as _;

use stead_bundles::archive::Limit;
use stead_bundles::git::{BlobReadError, BlobReader, GitFile, GitTree};
use stead_domain::ports::{ExecEvent, OutputStream};
use stead_domain::{Code, Error, Result, WorkspaceId};
use tokio::sync::mpsc;

use super::super::landing::{Landed, limit_reached, not_stored};
use super::commands::{Commands, keep_tail};
use super::refusal::{lost, tree};
use crate::engine::Engine;

/// The most that the list of a commit's files may be, in bytes.
const LISTING_BYTES: u64 = 64 << 20;
/// What git says before and after each file, at most, in bytes.
const FRAME: u64 = 128;
/// Pieces on their way to the thread that stores them.
const ON_THE_WAY: usize = 16;

/// The list of what is wanted comes whole before the first byte goes out: neither side waits for the other.
const READ: &str = "cat >/import/wanted && exec git cat-file --batch --buffer </import/wanted";

fn refused(error: BlobReadError) -> Error {
    match error {
        BlobReadError::Malformed => Error::new(Code::ProjectInvalid, error.to_string()),
        BlobReadError::Sink(error) => not_stored(error),
    }
}

impl Engine {
    /// Which files the commit has, under the limits of an import.
    pub(super) async fn git_tree(&self, commands: &Commands<'_>, commit: &str) -> Result<GitTree> {
        let limits = self.import_limits();
        let arguments = ["ls-tree", "-r", "-t", "-z", "-l", "--full-tree", commit];
        let mut listed = commands.local(&arguments, LISTING_BYTES).await?;
        if listed.took_too_long {
            return Err(Error::new(Code::ProjectInvalid, "the tree of the commit takes too long to list"));
        }
        if listed.said_too_much {
            // A limit on what is listed says more than one on the list.
            let whole = listed.stdout.iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1);
            listed.stdout.truncate(whole);
            self.blocking(move || GitTree::parse(&listed.stdout, &limits).map_err(tree)).await?;
            let message = format!("the repository exceeds the limit on {} ({LISTING_BYTES})", Limit::PathBytes);
            return Err(limit_reached(Limit::PathBytes, LISTING_BYTES, message));
        }
        if let Some(failure) = listed.failure {
            return Err(self.git_refused(commands.import, failure));
        }
        self.blocking(move || GitTree::parse(&listed.stdout, &limits).map_err(tree)).await
    }

    /// Stores the files' bytes.
    pub(super) async fn git_files(
        &self,
        commands: &Commands<'_>,
        workspace: WorkspaceId,
        files: Vec<GitFile>,
    ) -> Result<Landed> {
        let mut wanted = String::new();
        for file in &files {
            // Writing to a string does not fail.
            let _ = writeln!(wanted, "{}", file.id);
        }
        let most = files.iter().map(|file| file.size + FRAME).sum();
        let mut landing = self.landing(workspace);
        let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(ON_THE_WAY);
        let storing = self.blocking(move || {
            let mut reader = BlobReader::new(files);
            while let Some(piece) = pieces.blocking_recv() {
                reader.feed(&piece, &mut landing).map_err(refused)?;
            }
            reader.finish().map_err(refused)?;
            landing.finish()
        });
        let reading = async {
            let mut exec = commands.script(READ, most).await?;
            exec.write(wanted.as_bytes()).await.map_err(lost)?;
            exec.close_stdin().await.map_err(lost)?;
            let mut said = Vec::new();
            loop {
                match exec.next().await.map_err(lost)? {
                    ExecEvent::Output(OutputStream::Stdout, bytes) => {
                        if sender.send(bytes).await.is_err() {
                            // Who stores knows why, and is asked first.
                            return Ok(());
                        }
                    }
                    ExecEvent::Output(OutputStream::Stderr, bytes) => keep_tail(&mut said, &bytes),
                    ExecEvent::Exited(exit) if exit.code == Some(0) => {
                        drop(sender);
                        return Ok(());
                    }
                    ExecEvent::Exited(_) => {
                        return Err(self.git_refused(commands.import, commands.failure(&said)));
                    }
                }
            }
        };
        // A failed reading takes the sender with it, which ends the storing; its reason is the one that counts.
        let (read, stored) = tokio::join!(reading, storing);
        read.and(stored)
    }
}
