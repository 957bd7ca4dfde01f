//! Tars with right checksums, plain and in gzip.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_bundles::fuzzing::fuzz_tar(data));
