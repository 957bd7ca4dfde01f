//! What a sandbox wrote is measured, also where it shut the doors behind it.

use std::fs;
use std::path::Path;

use stead_sandbox::{Exit, disk};

use crate::fixture::{Bench, LAUNCHER, Mode};

#[test]
fn what_a_program_shut_is_measured_all_the_same() {
    let mut bench = Bench::new();
    let ran = bench.run(
        "mkdir -p a/b && head -c 3000000 /dev/urandom > a/b/file && chmod 0 a/b/file && chmod 0 a/b && chmod 0 a && \
         mkdir c && head -c 1000000 /dev/urandom > c/file",
    );
    assert_eq!(ran.exit, Exit::Code(0), "{}", ran.output);
    let workspace = bench.path("workspace");
    let launcher = Path::new(LAUNCHER);
    let found = disk::usage_as_owner(launcher, std::slice::from_ref(&workspace)).unwrap();
    assert!(found.bytes >= 4_000_000 && found.bytes < 5_000_000 && found.unvisited == 0, "{found:?}");
    assert_eq!(found.inodes, 6, "{found:?}");
    let twice = disk::usage_as_owner(launcher, &[workspace.clone(), workspace.clone()]).unwrap();
    assert_eq!((twice.bytes, twice.inodes), (2 * found.bytes, 2 * found.inodes));
    match bench.mode {
        Mode::Root => assert_eq!(disk::usage(&workspace).unwrap(), found),
        Mode::User => assert!(disk::usage(&workspace).is_err(), "an ordinary walk ends at the first shut door"),
    }
    let missing = disk::usage_as_owner(launcher, &[bench.path("missing")]).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound, "{missing}");
    // Scratch directories are removed by an ordinary walk.
    for shut in ["workspace/a", "workspace/a/b"] {
        fs::set_permissions(bench.path(shut), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
}
