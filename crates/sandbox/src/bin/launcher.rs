//! The launcher as a program of its own, so that this crate's tests can re-execute something.

fn main() {
    stead_sandbox::launcher_main();
}
