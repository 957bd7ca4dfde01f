//! Archives that a client imports, byte for byte.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_bundles::fuzzing::fuzz_archive(data));
