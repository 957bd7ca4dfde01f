//! The launcher and the egress proxy as a program of its own, so that this crate's tests can re-execute something.

fn main() {
    if stead_provider_native::started_as_egress() {
        stead_provider_native::egress_main();
    }
    stead_sandbox::launcher_main();
}
