//! Headers of conditional requests and ranges.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_face_uhp::fuzzing::headers(data));
