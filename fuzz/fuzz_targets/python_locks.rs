//! Locks of uv, Poetry and Pipenv.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_bundles::fuzzing::fuzz_python_locks(data));
