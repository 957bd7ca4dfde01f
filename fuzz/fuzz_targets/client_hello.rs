//! The first TLS record of a tunnel through the egress proxy.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_egress::fuzzing::client_hello(data));
