//! Uploads, cut by the network in different ways.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_face_uhp::fuzzing::multipart(data));
