use std::{
    fs,
    io::Read,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use stead_blobs::LocalBlobs;
use stead_domain::{
    WorkspaceId,
    ports::{BlobError, BlobUsage, Blobs},
};

fn workspace(number: u8) -> WorkspaceId {
    format!("ws_0192f0000000700080000000000000{number:02x}").parse().expect("the text is an id")
}

fn bytes_on_disk(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).expect("the directory is readable");
    let metadata = |entry: fs::DirEntry| (entry.path(), entry.metadata().expect("the entry stays"));
    entries
        .map(|entry| metadata(entry.expect("the directory is readable")))
        .map(|(path, metadata)| if metadata.is_dir() { bytes_on_disk(&path) } else { metadata.len() })
        .sum()
}

#[tokio::test]
async fn what_is_not_named_goes_after_the_grace_unless_it_was_put_or_opened_since() {
    let root = tempfile::tempdir().unwrap();
    let blobs = LocalBlobs::open(root.path()).unwrap();
    let content = |index: usize| vec![index as u8; if index < 8 { 10_000 } else { 100_000 }];
    let ids: Vec<_> =
        (0..16).map(|index| blobs.put_blocking(workspace(1), &mut &content(index)[..]).unwrap().id).collect();
    let foreign = blobs.put(workspace(2), content(1)).await.unwrap().id;
    blobs.sync().await.unwrap();
    let named = [ids[0], ids[8]];
    let collect = |grace| blobs.collect_blocking(workspace(1), &|id| named.contains(&id), grace).unwrap();

    assert_eq!((collect(Duration::ZERO).removed, collect(Duration::from_mins(1)).marked), (BlobUsage::default(), 14));
    for index in [1, 9] {
        blobs.put(workspace(1), content(index)).await.unwrap();
    }
    blobs.open_blocking(workspace(1), ids[2]).unwrap();
    fs::write(root.path().join("adopted"), content(10)).unwrap();
    blobs.adopt_blocking(workspace(1), root.path().join("adopted")).unwrap();
    let mut open = [ids[3], ids[11]].map(|id| blobs.open_blocking(workspace(1), id).unwrap());
    // Opening took the marks of these two away; they are marked again and go with the next collection.
    let collected = collect(Duration::ZERO);
    assert_eq!(collected.removed, BlobUsage { blobs: 8, bytes: 4 * 10_000 + 4 * 100_000 });
    assert_eq!(collected.marked, 6);
    for index in [1, 2, 9, 10] {
        assert!(blobs.read(workspace(1), ids[index]).await.is_ok());
    }
    assert_eq!(collect(Duration::ZERO).removed, BlobUsage { blobs: 2, bytes: 110_000 });
    for (blob, index) in open.iter_mut().zip([3, 11]) {
        let mut bytes = Vec::new();
        blob.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, content(index), "who has a blob open reads on");
        assert!(matches!(blobs.read(workspace(1), ids[index]).await, Err(BlobError::Missing(_))));
    }
    assert_eq!(blobs.read(workspace(2), foreign).await.unwrap(), content(1));

    collect(Duration::ZERO);
    collect(Duration::ZERO);
    assert_eq!(blobs.usage_blocking(workspace(1)).unwrap(), BlobUsage { blobs: 2, bytes: 110_000 });
    let on_disk = bytes_on_disk(&root.path().join(workspace(1).to_string()));
    assert!(on_disk < 111_000, "{on_disk} bytes are still there");
    drop(blobs);
    let blobs = LocalBlobs::open(root.path()).unwrap();
    assert_eq!(blobs.usage_blocking(workspace(1)).unwrap(), BlobUsage { blobs: 2, bytes: 110_000 });
    for index in [0, 8] {
        assert_eq!(blobs.read(workspace(1), ids[index]).await.unwrap(), content(index));
    }
}

#[test]
fn what_was_put_outlives_collections_for_the_grace() {
    const GRACE: Duration = Duration::from_millis(40);
    let root = tempfile::tempdir().unwrap();
    let blobs = LocalBlobs::open(root.path()).unwrap();
    let done = AtomicBool::new(false);
    let removed = std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            let mut removed = 0;
            while !done.load(Ordering::Relaxed) {
                removed += blobs.collect_blocking(workspace(1), &|_| false, GRACE).unwrap().removed.blobs;
            }
            removed
        });
        let putters: Vec<_> = (0..3_usize)
            .map(|putter| {
                let blobs = &blobs;
                scope.spawn(move || {
                    let began = Instant::now();
                    for round in 0.. {
                        if began.elapsed() > Duration::from_millis(1500) {
                            break;
                        }
                        // Some are put by all, some rest for longer than the grace.
                        let content =
                            vec![((round * (1 + putter)) % 40) as u8; if round % 5 == 0 { 70_000 } else { 900 }];
                        let put = Instant::now();
                        let stored = blobs.put_blocking(workspace(1), &mut &content[..]).unwrap();
                        // As a commit would come some time after the put.
                        std::thread::sleep(GRACE / 4 * (round % 3) as u32);
                        match blobs.open_blocking(workspace(1), stored.id) {
                            Ok(mut blob) => {
                                let mut bytes = Vec::new();
                                blob.read_to_end(&mut bytes).unwrap();
                                assert_eq!(bytes, content);
                            }
                            Err(error) => assert!(put.elapsed() > GRACE, "{error}"),
                        }
                        std::thread::sleep(Duration::from_millis((round % 7) as u64));
                    }
                })
            })
            .collect();
        // The collector ends whatever becomes of these.
        let ended: Vec<_> = putters.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        let removed = collector.join().unwrap();
        ended.into_iter().for_each(|ended| ended.unwrap());
        removed
    });
    assert!(removed > 10, "{removed} were removed");
}
