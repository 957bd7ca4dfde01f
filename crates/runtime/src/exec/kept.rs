//! What makes a named command outlive its stream: its spool, its exit report, and whose it is.
//!
//! Ordering on a stream: `Adopted` (when it was taken over), `Started`, output, `Exited`, and `Forgotten` after the acknowledgement of
//! the end. A command that was told to nobody until its end keeps its report until somebody takes it over or all is killed.

use stead_link::{ExitReport, Reply};

use super::spool::{OutOfRange, Spool};
use super::{Exec, Owner};
use crate::connection::Connection;

pub(super) struct Kept {
    name: String,
    pub(super) spool: Spool,
    /// How it ended, once that is known.
    pub(super) report: Option<ExitReport>,
    /// The report was sent on the stream that has the command now.
    reported: bool,
    /// Everything was killed since: there is nothing to take over, and the end is told to its stream alone.
    pub(super) unwanted: bool,
    /// It was taken over, so its input is closed to the stream that has it.
    adopted: bool,
}

impl Kept {
    pub(super) fn new(name: String) -> Self {
        Self { name, spool: Spool::new(), report: None, reported: false, unwanted: false, adopted: false }
    }
}

impl Exec {
    /// Its name, while it is not forgotten.
    pub(crate) fn name(&self) -> Option<&str> {
        self.kept.as_ref().map(|kept| kept.name.as_str())
    }

    pub(super) fn is_adopted(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.adopted)
    }

    /// Changes how many bytes of output may wait for an acknowledgement.
    pub(crate) fn resize_spool(&mut self, capacity: usize) {
        if let Some(kept) = &mut self.kept {
            kept.spool.resize(capacity);
        }
    }

    /// Gives memory back that holds nothing.
    pub(crate) fn rest(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.spool.rest();
        }
    }

    /// Whether it can be taken over from this byte of its output on.
    pub(crate) fn check(&self, from: u64) -> Result<(), OutOfRange> {
        self.kept.as_ref().map_or(Ok(()), |kept| kept.spool.check(from))
    }

    /// Gives it to another stream, which has had the output before this byte.
    pub(crate) fn adopt(&mut self, owner: Owner, from: u64, connection: &mut Connection) -> Result<(), OutOfRange> {
        let Some(kept) = &mut self.kept else {
            return Ok(());
        };
        kept.spool.rewind(from)?;
        kept.spool.acknowledge(from)?;
        kept.reported = false;
        kept.adopted = true;
        self.owner = Some(owner);
        connection.send(owner.stream, &Reply::Adopted { output_bytes: kept.spool.written() });
        if let Some(pid) = self.pid {
            connection.send(owner.stream, &Reply::Started { pid });
        }
        Ok(())
    }

    /// Sends what there is room for on its stream. Answers whether that was anything.
    pub(crate) fn deliver(&mut self, connection: &mut Connection) -> bool {
        let (Some(kept), Some(Owner { stream, .. })) = (&mut self.kept, self.owner) else {
            return false;
        };
        let mut any = false;
        while let Some((kind, parts)) = connection.allowance(stream).and_then(|most| kept.spool.send(most)) {
            connection.send_parts(kind, stream, parts);
            any = true;
        }
        if let Some(report) = kept.report.as_ref().filter(|_| kept.spool.is_sent() && !kept.reported) {
            connection.send(stream, &Reply::Exited(report.clone()));
            kept.reported = true;
            any = true;
        }
        if kept.reported && kept.unwanted {
            self.forget(connection);
        }
        any
    }

    /// What somebody keeps elsewhere: the output before this byte, and with `end` the report, too.
    pub(crate) fn acknowledge(&mut self, bytes: u64, end: bool, connection: &mut Connection) -> Result<(), OutOfRange> {
        let Some(kept) = &mut self.kept else {
            return Ok(());
        };
        kept.spool.acknowledge(bytes)?;
        if end && kept.reported && kept.spool.is_acknowledged() {
            self.forget(connection);
        }
        Ok(())
    }

    fn forget(&mut self, connection: &mut Connection) {
        if let Some(Owner { stream, .. }) = self.owner {
            connection.end(stream, &Reply::Forgotten {});
        }
        self.abandon();
    }

    /// Its stream is gone. One that has not started can no longer, one whose end was to be told to that stream alone has told it, and
    /// any other named one waits for somebody to take it over.
    pub(crate) fn detach(&mut self) {
        self.owner = None;
        let waits = self.supervisor.is_some() || self.ended.is_some();
        if !waits || self.kept.as_ref().is_some_and(|kept| kept.unwanted) {
            self.abandon();
        }
    }
}
