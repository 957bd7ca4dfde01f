//! Names of archive members, paths in a project's source, names that become mount segments.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    stead_bundles::fuzzing::fuzz_path(data);
    stead_domain::fuzzing::paths(data);
});
