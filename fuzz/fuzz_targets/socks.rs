//! SOCKS messages that a sandbox sends to the egress proxy.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_egress::fuzzing::socks(data));
