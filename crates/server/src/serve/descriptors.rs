//! Open files of the server: as many as it may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the bound to what the system lets this process have. A server that is an ordinary user needs that beyond its own
/// files: the kernel lets nobody pass descriptors who has a lower bound than his user has in flight, and sandboxes of such a
/// server are its user.
pub(super) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "the bound on open files stays as it was");
    }
}
