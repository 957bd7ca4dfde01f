//! Manifests of a project: requirements, pyproject.toml, package.json and its lock, scripts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stead_bundles::fuzzing::fuzz_manifests(data));
