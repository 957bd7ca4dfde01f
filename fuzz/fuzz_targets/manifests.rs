//! Manifests that people write: requirements, pyproject.toml, package.json, scripts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_bundles::fuzzing::fuzz_manifests(data));
