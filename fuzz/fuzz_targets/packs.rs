//! Packs of small blobs and their indexes, as a crash or a failing disk leaves them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_blobs::fuzzing::packs(data));
