//! Packages by name, hosts of a network, ids.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_domain::fuzzing::words(data));
