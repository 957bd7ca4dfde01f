//! The proxy's process, from its first instruction: it gives everything up that it does not need, and then serves.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stead_outbound::Dialer;
use stead_sandbox::{Confinement, confine};

use crate::fault::chain;

/// The name under which our binary must call [`egress_main`] instead of being itself.
pub const EGRESS_NAME: &str = "stead-egress";

/// In place of a user: that of the service.
pub(super) const OWN_USER: &str = "own";

/// Each connection takes up to six. More than these would be more than its memory can serve.
const OPEN_FILES: u64 = 65_536;

/// What resolving names takes: the configuration, which is read again when it changes, the libraries that it names, and the
/// addresses of this machine.
const READABLE: [&str; 7] = ["/etc", "/run/systemd/resolve", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/proc/net"];

/// Whether this process was started to be the proxy.
pub fn started_as_egress() -> bool {
    std::env::args_os().next().is_some_and(|name| name == OsStr::new(EGRESS_NAME))
}

/// Confines the process and serves the orders on standard input until nobody gives any. Must be called before any thread is started.
#[expect(clippy::exit, reason = "the process is this function and nothing else")]
pub fn egress_main() -> ! {
    let code = match run() {
        Ok(()) => 0,
        Err(reason) => {
            // The service reads it when the process has ended.
            let _ = writeln!(std::io::stderr(), "{reason}");
            1
        }
    };
    std::process::exit(code)
}

fn run() -> Result<(), String> {
    let user = std::env::args().nth(1).unwrap_or_default();
    let user = match user.as_str() {
        OWN_USER => None,
        number => Some(number.parse().map_err(|_| "the first argument is no user".to_owned())?),
    };
    let control = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| chain(&error))?;
    // The configuration is often a link to where a service of the machine writes it, and writes it anew.
    let resolver = std::fs::canonicalize("/etc/resolv.conf").ok();
    let resolver = resolver.as_deref().and_then(Path::parent).filter(|directory| directory.parent().is_some());
    let readable = READABLE.iter().map(Path::new).filter(|path| path.exists()).chain(resolver);
    let readable: Vec<&Path> = readable.collect();
    raise_open_files();
    confine(&Confinement { user, readable: &readable, open_files: OPEN_FILES })
        .map_err(|failure| format!("could not be confined at {:?}: {}", failure.step, failure.message))?;
    let dialer = Dialer::system(Vec::new());
    stead_egress::process::serve(control, Arc::new(dialer)).map_err(|error| chain(&error))
}

/// Raises the hard bound to [`OPEN_FILES`] where that is lower: the service's own may be for what it does itself. Confinement sets the
/// other to the hard one, and only an ordinary user is left with fewer, which are shared out just the same.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < OPEN_FILES) {
        let _ = setrlimit(Resource::Nofile, Rlimit { maximum: Some(OPEN_FILES), ..limit });
    }
}
