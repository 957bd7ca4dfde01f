//! Response heads that the egress proxy gets from the network.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_egress::fuzzing::response(data));
