//! What registries list of a package.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_registries::fuzzing::listings(data));
