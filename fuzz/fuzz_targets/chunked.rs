//! The chunked coding, in requests and responses.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_egress::fuzzing::chunked(data));
