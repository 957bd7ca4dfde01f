//! Frames and messages between the server and a runtime.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_link::fuzzing::frames(data));
