//! The pipes between process 1 and a command; process 1's ends never block.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use stead_link::Kind;

/// Standard output or standard error.
pub(super) struct OutputPipe {
    kind: Kind,
    pipe: Option<OwnedFd>,
    /// Bytes that were in the pipe when the main process had ended and that have not been read.
    must_read: u64,
}

impl OutputPipe {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, pipe: None, must_read: 0 }
    }

    pub(super) fn open(&mut self, pipe: OwnedFd) {
        self.pipe = Some(pipe);
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    pub(super) fn must_read(&self) -> u64 {
        self.must_read
    }

    /// The main process has ended: what is in the pipe now may be its own and must be delivered.
    pub(super) fn mark_end(&mut self) {
        self.must_read = self.pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok()).unwrap_or(0);
    }

    /// Reads what fits; 0 when there is nothing or the pipe has ended, which closes it.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let Some(pipe) = &self.pipe else {
            return 0;
        };
        match rustix::io::read(pipe, buffer) {
            Ok(0) => self.close(),
            Ok(read) => {
                self.must_read = self.must_read.saturating_sub(read as u64);
                return read;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.close(),
        }
        0
    }

    fn close(&mut self) {
        self.pipe = None;
        self.must_read = 0;
    }
}

/// Standard input.
#[derive(Default)]
pub(super) struct InputPipe {
    pipe: Option<OwnedFd>,
    /// Chunks, how much of each is written, and what each costs.
    queue: VecDeque<(Vec<u8>, usize, usize)>,
    ended: bool,
    closed: bool,
}

impl InputPipe {
    pub(super) fn open(&mut self, pipe: OwnedFd) {
        if !self.closed {
            self.pipe = Some(pipe);
            self.end_when_empty();
        }
    }

    /// The pipe, when there is something to write.
    pub(super) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        let pipe = self.pipe.as_ref()?;
        (!self.queue.is_empty()).then(|| pipe.as_fd())
    }

    pub(super) fn push(&mut self, bytes: &[u8], cost: usize) {
        if !self.ended {
            self.queue.push_back((bytes.to_vec(), 0, cost));
        }
    }

    /// No more will come: the command sees the end after what is queued.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.end_when_empty();
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.pipe = None;
        self.queue.clear();
    }

    fn end_when_empty(&mut self) {
        if self.ended && self.queue.is_empty() {
            self.pipe = None;
        }
    }

    /// Writes what the pipe takes; answers the cost of the chunks that are done with.
    pub(super) fn write(&mut self) -> usize {
        let mut done = 0;
        while let Some((bytes, written, cost)) = self.queue.front_mut() {
            let outcome = match &self.pipe {
                Some(pipe) => rustix::io::write(pipe, &bytes[*written..]),
                // The command has closed it, or there is none yet.
                None if self.closed => Ok(bytes.len() - *written),
                None => Err(Errno::AGAIN),
            };
            match outcome {
                Ok(count) => *written += count,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    // Nobody reads any more. What is still sent is swallowed, as with any closed pipe.
                    self.pipe = None;
                    self.closed = true;
                    continue;
                }
            }
            if *written == bytes.len() {
                done += *cost;
                self.queue.pop_front();
            }
        }
        self.end_when_empty();
        done
    }
}
