//! JSON bodies of requests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_face_uhp::fuzzing::bodies(data));
