//! Gives everything that is kept of a fuzz target to its function: what a run found (`corpus`), and what it began with
//! (`corpus-seed`). A crate's tests include this file, so that no finding comes back unseen.

use std::{fs, path::Path};

/// Calls `target` with every input that is kept under `name`; fails when there is none.
pub(crate) fn replay(name: &str, target: fn(&[u8])) {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let fuzz = above.find_map(|root| Some(root.join("fuzz")).filter(|fuzz| fuzz.join("replay.rs").exists()));
    let fuzz = fuzz.expect("a crate lies beneath the directory that has this file");
    let mut replayed = 0;
    for kept in ["corpus", "corpus-seed"] {
        for entry in fs::read_dir(fuzz.join(kept).join(name)).into_iter().flatten() {
            let path = entry.expect("the directory can be read").path();
            // Shown when the test fails: which input it was.
            println!("{}", path.display());
            target(&fs::read(&path).expect("an input can be read"));
            replayed += 1;
        }
    }
    assert!(replayed > 0, "nothing is kept of the target `{name}`");
}
