//! The store beside a model of it: random puts, opens, flushes, collections, restarts and power cuts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use stead_domain::{
    BlobId, WorkspaceId,
    ports::{BlobError, BlobUsage, Blobs},
};

use crate::{local::LocalBlobs, packs};

/// Packs are full after a few of the blobs.
const FULL: u64 = 6_000;

#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    Open(u8),
    Sync,
    /// The blobs that stay named, as bits.
    Collect(u16),
    Restart,
    /// What becomes of bytes that were not flushed, and of indexes.
    Cut {
        kept: u8,
        zeroed: bool,
        indexes: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..16_u8).prop_map(Step::Put),
        3 => (0..16_u8).prop_map(Step::Open),
        2 => Just(Step::Sync),
        2 => any::<u16>().prop_map(Step::Collect),
        1 => Just(Step::Restart),
        2 => (any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(kept, zeroed, indexes)| Step::Cut { kept, zeroed, indexes }),
    ];
    proptest::collection::vec(step, 1..60)
}

fn content(index: u8) -> Vec<u8> {
    (0..usize::from(index) * 150).map(|place| (place as u8).wrapping_mul(index)).collect()
}

fn id(index: u8) -> BlobId {
    packs::hash(&content(index))
}

fn workspace() -> WorkspaceId {
    "ws_0192f000000070008000000000000001".parse().unwrap()
}

fn files(root: &Path, extension: &str) -> BTreeMap<PathBuf, u64> {
    let directory = root.join(workspace().to_string()).join("packs");
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().extension().is_some_and(|found| found == extension))
        .map(|entry| (entry.path(), entry.metadata().unwrap().len()))
        .collect()
}

#[derive(Default)]
struct Model {
    /// What has to be there.
    there: BTreeSet<u8>,
    /// What may be there or not: removed, but possibly brought back; or put, and hit by a power cut.
    unsure: BTreeSet<u8>,
    /// What of `there` is durable.
    durable: BTreeSet<u8>,
    /// What was collected or never put, and cannot have come back.
    marked: BTreeSet<u8>,
    /// How long each pack was when it was last flushed.
    flushed: BTreeMap<PathBuf, u64>,
}

impl Model {
    /// After a start, what was removed may be back.
    fn restart(&mut self, removed: &BTreeSet<u8>) {
        self.marked.clear();
        self.unsure.extend(removed.iter().filter(|index| !self.there.contains(index)));
    }
}

async fn run(steps: Vec<Step>) {
    let root = tempfile::tempdir().unwrap();
    let mut blobs = LocalBlobs::open_with(root.path(), FULL).unwrap();
    let mut model = Model::default();
    let mut removed = BTreeSet::new();
    for step in steps {
        match step {
            Step::Put(index) => {
                let stored = blobs.put(workspace(), content(index)).await.unwrap();
                assert_eq!((stored.id, stored.bytes), (id(index), content(index).len() as u64));
                model.there.insert(index);
                model.unsure.remove(&index);
                model.marked.remove(&index);
            }
            Step::Open(index) => {
                model.marked.remove(&index);
                match blobs.read(workspace(), id(index)).await {
                    Ok(bytes) => {
                        assert_eq!(bytes, content(index));
                        assert!(model.there.contains(&index) || model.unsure.contains(&index));
                    }
                    Err(BlobError::Missing(_)) => assert!(!model.there.contains(&index)),
                    Err(error) => assert!(model.unsure.contains(&index), "{error}"),
                }
            }
            Step::Sync => {
                blobs.sync().await.unwrap();
                model.durable.clone_from(&model.there);
                model.flushed = files(root.path(), "pack");
            }
            Step::Collect(named) => {
                let is_named = |index: u8| named & (1 << index) != 0;
                let by_id = |wanted: BlobId| (0..16).any(|index| is_named(index) && id(index) == wanted);
                let collected = blobs.collect_blocking(workspace(), &by_id, Duration::ZERO).unwrap();
                let gone: BTreeSet<u8> = model.marked.iter().copied().filter(|index| !is_named(*index)).collect();
                let sure = gone.iter().filter(|index| model.there.contains(index)).count() as u64;
                let most = sure + gone.iter().filter(|index| model.unsure.contains(index)).count() as u64;
                assert!((sure..=most).contains(&collected.removed.blobs), "{collected:?}, {sure} to {most}");
                for index in &gone {
                    model.there.remove(index);
                    model.durable.remove(index);
                    model.unsure.remove(index);
                    removed.insert(*index);
                }
                let candidates = model.there.iter().chain(&model.unsure).copied();
                model.marked = candidates.filter(|index| !is_named(*index)).collect();
                let packs = files(root.path(), "pack");
                if model.flushed.keys().any(|path| !packs.contains_key(path)) {
                    // A pack went; what was moved out of it was flushed before.
                    model.flushed = packs;
                }
            }
            Step::Restart => {
                drop(blobs);
                blobs = LocalBlobs::open_with(root.path(), FULL).unwrap();
                model.restart(&removed);
            }
            Step::Cut { kept, zeroed, indexes } => {
                drop(blobs);
                for (path, length) in files(root.path(), "pack") {
                    let flushed = model.flushed.get(&path).copied().unwrap_or(0).min(length);
                    let kept = flushed + (length - flushed) * u64::from(kept) / 256;
                    let file = OpenOptions::new().write(true).open(&path).unwrap();
                    if zeroed {
                        file.write_all_at(&vec![0; (length - kept) as usize / 2], kept).unwrap();
                    } else {
                        file.set_len(kept).unwrap();
                    }
                }
                if indexes {
                    for path in files(root.path(), "index").keys() {
                        fs::write(path, b"torn").unwrap();
                    }
                }
                blobs = LocalBlobs::open_with(root.path(), FULL).unwrap();
                let lost = model.there.difference(&model.durable).copied().collect::<BTreeSet<_>>();
                model.there.clone_from(&model.durable);
                model.unsure.extend(lost);
                model.restart(&removed);
                // What a power cut left is on disk; reading the workspace cuts what was torn.
                blobs.usage_blocking(workspace()).unwrap();
                model.flushed = files(root.path(), "pack");
            }
        }
        let BlobUsage { blobs: count, bytes } = blobs.usage_blocking(workspace()).unwrap();
        let sum = |indexes: &BTreeSet<u8>| indexes.iter().map(|index| content(*index).len() as u64).sum::<u64>();
        assert!((model.there.len()..=model.there.len() + model.unsure.len()).contains(&(count as usize)));
        assert!((sum(&model.there)..=sum(&model.there) + sum(&model.unsure)).contains(&bytes));
    }
    for index in &model.there {
        assert_eq!(blobs.read(workspace(), id(*index)).await.unwrap(), content(*index));
    }
}

#[tokio::test]
async fn a_commit_of_any_number_of_small_blobs_is_one_flush() {
    let root = tempfile::tempdir().unwrap();
    let blobs = LocalBlobs::open(root.path()).unwrap();
    blobs.sync().await.unwrap();
    assert_eq!(blobs.barrier().flushes(), (1, 0), "the first one covers what an earlier process left");
    for round in 1..4 {
        for index in 0..200_u32 {
            blobs.put_blocking(workspace(), &mut &[round, index].map(u32::to_le_bytes).concat()[..]).unwrap();
        }
        blobs.sync().await.unwrap();
        assert_eq!(blobs.barrier().flushes(), (1, u64::from(round)));
        blobs.put_blocking(workspace(), &mut &[round, 7].map(u32::to_le_bytes).concat()[..]).unwrap();
        blobs.sync().await.unwrap();
        assert_eq!(blobs.barrier().flushes(), (1, u64::from(round)), "nothing new was put");
    }
}

/// A put that finds what another put wrote and nobody flushed has it flushed.
#[tokio::test]
async fn a_put_that_finds_its_bytes_relies_on_their_flush() {
    let root = tempfile::tempdir().unwrap();
    let blobs = LocalBlobs::open(root.path()).unwrap();
    blobs.sync().await.unwrap();
    for _ in 0..2 {
        blobs.put(workspace(), content(3)).await.unwrap();
    }
    blobs.sync().await.unwrap();
    assert_eq!(blobs.barrier().flushes(), (1, 1));
}

/// A power cut spares the index of a full pack and not all the records that it names. A put does not rely on such a record,
/// though its bytes (none, here) are right: without the index no scan would find it.
#[tokio::test]
async fn a_put_relies_on_no_record_that_a_scan_would_miss() {
    let cut = |zeroed, indexes| Step::Cut { kept: 0, zeroed, indexes };
    let mut steps: Vec<Step> = [9, 10].map(Step::Put).into();
    steps.push(Step::Sync);
    steps.extend([5, 0, 15, 1].map(Step::Put));
    steps.extend([cut(true, false), Step::Put(0), Step::Sync, cut(false, true)]);
    run(steps).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_was_flushed_is_lost_and_nothing_wrong_is_served(steps in steps()) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(steps));
    }
}
