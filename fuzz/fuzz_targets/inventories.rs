//! What a build's sandbox says that it installed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_projects::fuzzing::inventories(data));
