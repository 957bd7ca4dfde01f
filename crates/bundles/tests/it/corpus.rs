//! Replays what fuzzers found, and the cases, cut and damaged in many places, through the fuzzing entry points.

use std::{fs, path::Path};

use proptest::prelude::*;
use stead_bundles::fuzzing::{
    fuzz_archive, fuzz_git, fuzz_manifests, fuzz_node_locks, fuzz_path, fuzz_python_locks, fuzz_tar, fuzz_zip,
};

use crate::replay::replay;

#[test]
fn corpora_hold() {
    replay("archive", fuzz_archive);
    replay("tar", fuzz_tar);
    replay("zip", fuzz_zip);
    replay("manifests", fuzz_manifests);
    replay("node_locks", fuzz_node_locks);
    replay("python_locks", fuzz_python_locks);
    replay("git", fuzz_git);
    replay("paths", fuzz_path);
}

#[test]
fn cut_and_damaged_cases_never_panic() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/field-cases");
    let mut replayed = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        if bytes.len() > 20_000 {
            continue;
        }
        let step = (bytes.len() / 150).max(1);
        for at in (0..bytes.len()).step_by(step) {
            fuzz_archive(&bytes[..at]);
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            fuzz_archive(&damaged);
            replayed += 1;
        }
        all_manifests(&bytes);
    }
    assert!(replayed > 1000, "{replayed}");
}

fn all_manifests(data: &[u8]) {
    fuzz_manifests(data);
    fuzz_node_locks(data);
    fuzz_python_locks(data);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(head in 0_usize..8, data in prop::collection::vec(any::<u8>(), 0..600)) {
        const MAGIC: [&[u8]; 8] = [
            b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"PK\x05\x06", b"\x50\x2a\x4d\x18",
        ];
        fuzz_archive(&[MAGIC[head], &data].concat());
        fuzz_tar(&data);
        fuzz_zip(&data);
        all_manifests(&data);
        fuzz_path(&data);
    }

    #[test]
    fn arbitrary_manifest_text_never_panics(text in "[-a-z=<>@;\\[\\]{}\"':.,/#\\\\ \r\n$é]{0,200}") {
        all_manifests(text.as_bytes());
    }

    #[test]
    fn arbitrary_words_of_git_never_panic(
        text in "((https?|ssh|git)?(:|://)?[-a-z0-9@:/.%]{0,20}|100(644|755) blob [a-f0-9]{40}  ?[0-9]{1,7}\t[a./]{1,5}\0){1,4}",
    ) {
        fuzz_git(text.as_bytes());
    }
}
