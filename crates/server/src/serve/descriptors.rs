//! Open files of the server: as many as it may have.

use anyhow::bail;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;

/// With fewer a server does not get far: connections, databases and sandboxes take some each.
const LEAST: u64 = 256;

/// The bound that sandboxes need: process 1 of each leaves its commands half of what it has.
fn wanted(settings: &Settings) -> u64 {
    settings.native.limits.open_files.saturating_mul(2).max(LEAST)
}

/// Raises the bound to what the system lets this process have, and that to what sandboxes need where this process may. A server that
/// is an ordinary user needs that beyond its own files: the kernel lets nobody pass descriptors who has a lower bound than his user
/// has in flight, and sandboxes of such a server are its user.
///
/// # Errors
/// When it cannot serve with what it has.
pub(super) fn raise(settings: &Settings) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let set = |bound: Option<u64>| setrlimit(Resource::Nofile, Rlimit { current: bound, maximum: bound });
    let wanted = wanted(settings);
    if limit.maximum.is_some_and(|maximum| maximum < wanted) && set(Some(wanted)).is_ok() {
        return Ok(());
    }
    if let Err(error) = set(limit.maximum) {
        tracing::warn!(%error, "the bound on open files stays as it was");
    }
    match judge(limit.maximum, wanted) {
        Verdict::Enough => Ok(()),
        Verdict::Fewer(text) => {
            tracing::warn!("{text}");
            Ok(())
        }
        Verdict::TooFew(text) => bail!(text),
    }
}

/// What a bound means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Enough,
    /// Sandboxes have fewer than they should.
    Fewer(String),
    /// No server can run.
    TooFew(String),
}

/// What the bound of this process means for a server with these settings that is started with it.
pub(crate) fn verdict(settings: &Settings) -> Verdict {
    judge(getrlimit(Resource::Nofile).maximum, wanted(settings))
}

fn judge(maximum: Option<u64>, wanted: u64) -> Verdict {
    let Some(maximum) = maximum.filter(|maximum| *maximum < wanted) else { return Verdict::Enough };
    if maximum < LEAST {
        return Verdict::TooFew(format!(
            "this process may have no more than {maximum} open files (`ulimit -Hn`), and a server needs {LEAST} at least, {wanted} \
             for what `native.open_files` promises"
        ));
    }
    Verdict::Fewer(format!(
        "this process may have no more than {maximum} open files (`ulimit -Hn`), so sessions and builds have no more than {}, whatever \
         `native.open_files` says",
        maximum / 2
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_bound_is_told_and_one_that_is_too_low_refused() {
        assert_eq!(judge(None, 8192), Verdict::Enough);
        assert_eq!(judge(Some(8192), 8192), Verdict::Enough);
        assert!(matches!(judge(Some(1024), 8192), Verdict::Fewer(text) if text.contains("no more than 512,")));
        assert!(matches!(judge(Some(64), 8192), Verdict::TooFew(text) if text.contains("no more than 64 open files")));
    }
}
