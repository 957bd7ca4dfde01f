//! The `stead` program; see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all, before any thread or runtime exists: this process may have been started to make a sandbox, or to be the
    // egress proxy.
    if stead_sandbox::started_as_launcher() {
        stead_sandbox::launcher_main();
    }
    if stead_provider_native::started_as_egress() {
        stead_provider_native::egress_main();
    }
    stead_server::main()
}
