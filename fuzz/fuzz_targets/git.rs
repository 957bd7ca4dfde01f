//! Addresses and refs of repositories, and what git prints about them and of their files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_bundles::fuzzing::fuzz_git(data));
