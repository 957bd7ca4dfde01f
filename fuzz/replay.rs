//! Gives everything that is kept of a fuzz target to its function: what a run found (`corpus`), and what it began with
//! (`corpus-seed`). A crate's tests include this file, so that no finding comes back unseen.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, thread};

/// Names an input when its target fails.
struct Replaying(PathBuf);

impl Drop for Replaying {
    fn drop(&mut self) {
        if thread::panicking() {
            // Without it the input can still be found by hand.
            let _ = writeln!(std::io::stderr(), "it was {}", self.0.display());
        }
    }
}

/// Calls `target` with every input that is kept under `name`; fails when there is none.
pub(crate) fn replay(name: &str, target: fn(&[u8])) {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let fuzz = above.find_map(|root| Some(root.join("fuzz")).filter(|fuzz| fuzz.join("replay.rs").exists()));
    let fuzz = fuzz.expect("a crate lies beneath the directory that has this file");
    let mut replayed = 0;
    for kept in ["corpus", "corpus-seed"] {
        for entry in fs::read_dir(fuzz.join(kept).join(name)).into_iter().flatten() {
            let replaying = Replaying(entry.expect("the directory can be read").path());
            target(&fs::read(&replaying.0).expect("an input can be read"));
            replayed += 1;
        }
    }
    assert!(replayed > 0, "nothing is kept of the target `{name}`");
}
