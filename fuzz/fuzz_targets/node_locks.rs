//! Locks and settings of npm, pnpm and Yarn.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_bundles::fuzzing::fuzz_node_locks(data));
