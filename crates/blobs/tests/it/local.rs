use std::{
    fs,
    io::{self, Cursor, Read, Seek, SeekFrom},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use stead_blobs::LocalBlobs;
use stead_domain::{
    BlobId, WorkspaceId,
    ports::{BlobError, BlobUsage, Blobs, StoredBlob},
};

fn workspace(number: u8) -> WorkspaceId {
    format!("ws_0192f0000000700080000000000000{number:02x}").parse().expect("the text is an id")
}

fn path(root: &Path, workspace: WorkspaceId, id: BlobId) -> PathBuf {
    let text = id.to_string();
    root.join(workspace.to_string()).join(&text[..2]).join(&text[2..])
}

fn files_in(root: &Path) -> usize {
    fs::read_dir(root).map_or(0, |entries| {
        entries
            .map(|entry| entry.expect("the directory is readable").path())
            .map(|path| if path.is_dir() { files_in(&path) } else { 1 })
            .sum()
    })
}

#[tokio::test]
async fn bytes_are_stored_once_per_workspace_and_never_shared() {
    let root = tempfile::tempdir().unwrap();
    let blobs = LocalBlobs::open(root.path()).unwrap();
    let stored = blobs.put(workspace(1), b"hello".to_vec()).await.unwrap();
    assert_eq!(stored, StoredBlob { id: BlobId::from_bytes(*blake3::hash(b"hello").as_bytes()), bytes: 5 });
    assert_eq!(blobs.put_blocking(workspace(1), &mut &b"hello"[..]).unwrap(), stored);
    assert!(matches!(blobs.read(workspace(2), stored.id).await, Err(BlobError::Missing(id)) if id == stored.id));
    blobs.put(workspace(2), b"hello".to_vec()).await.unwrap();
    let (first, second) = (path(root.path(), workspace(1), stored.id), path(root.path(), workspace(2), stored.id));
    assert!(!first.exists() && !second.exists(), "small ones share files, of one workspace alone");
    assert_eq!(files_in(root.path()), 2);
    let large = vec![7; 100_000];
    let longer = blobs.put_blocking(workspace(2), &mut &vec![8; 3_000_000][..]).unwrap();
    assert_eq!(blobs.read(workspace(2), longer.id).await.unwrap(), vec![8; 3_000_000]);
    let stored_large = blobs.put(workspace(1), large.clone()).await.unwrap();
    assert_eq!(blobs.put_blocking(workspace(2), &mut large.as_slice()).unwrap(), stored_large);
    let [first, second] = [1, 2].map(|number| path(root.path(), workspace(number), stored_large.id));
    assert_ne!(fs::metadata(&first).unwrap().ino(), fs::metadata(second).unwrap().ino());
    assert_eq!(fs::metadata(first).unwrap().mode() & 0o777, 0o400);
    assert_eq!(blobs.usage(workspace(1)).await.unwrap(), BlobUsage { blobs: 2, bytes: 100_005 });
    assert_eq!(blobs.read(workspace(1), stored_large.id).await.unwrap(), large);
    blobs.sync().await.unwrap();
    let mut workspaces = blobs.workspaces_blocking().unwrap();
    workspaces.sort();
    assert_eq!(workspaces, [workspace(1), workspace(2)]);

    let mut reader = blobs.open_blocking(workspace(1), stored.id).unwrap();
    reader.seek(SeekFrom::Start(3)).unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "lo");
    let mut whole = String::new();
    blobs.open(workspace(1), stored.id).await.unwrap().read_to_string(&mut whole).unwrap();
    assert_eq!(whole, "hello");
    let empty = blobs.put(workspace(1), Vec::new()).await.unwrap();
    assert_eq!(blobs.read(workspace(1), empty.id).await.unwrap(), b"");
    assert_eq!(blobs.usage_blocking(workspace(1)).unwrap(), BlobUsage { blobs: 3, bytes: 100_005 });
    drop(blobs);
    let blobs = LocalBlobs::open(root.path()).unwrap();
    assert_eq!(blobs.usage_blocking(workspace(1)).unwrap(), BlobUsage { blobs: 3, bytes: 100_005 });
    assert_eq!(blobs.read(workspace(1), stored.id).await.unwrap(), b"hello");
}

/// Both before there were packs and now, large blobs are files of their own; before, small ones were, too.
#[tokio::test]
async fn what_a_power_cut_tore_is_never_served_and_repaired_by_the_next_put() {
    let root = tempfile::tempdir().unwrap();
    let large = vec![1; 100_000];
    let contents = [&b"whole bytes"[..], b"torn bytes", b"zeroed", &large];
    let ids = contents.map(|content| BlobId::from_bytes(*blake3::hash(content).as_bytes()));
    for (id, left) in ids.into_iter().zip([&b"whole bytes"[..], b"torn", b"\0\0\0\0\0\0", &large[1..]]) {
        let path = path(root.path(), workspace(1), id);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, left).unwrap();
    }
    fs::create_dir(root.path().join("incoming")).unwrap();
    fs::write(root.path().join("incoming/7"), b"half").unwrap();

    let blobs = LocalBlobs::open(root.path()).unwrap();
    assert!(!root.path().join("incoming/7").exists());
    assert_eq!(blobs.read(workspace(1), ids[0]).await.unwrap(), contents[0]);
    assert_eq!(blobs.usage_blocking(workspace(1)).unwrap().blobs, 4);
    for (id, content) in ids.into_iter().zip(contents).skip(1) {
        assert!(matches!(blobs.open_blocking(workspace(1), id), Err(BlobError::Damaged(_))));
        assert!(matches!(blobs.read(workspace(1), id).await, Err(BlobError::Damaged(_))));
        blobs.put(workspace(1), content.to_vec()).await.unwrap();
        assert_eq!(blobs.read(workspace(1), id).await.unwrap(), content);
    }
    blobs.put(workspace(1), contents[0].to_vec()).await.unwrap();
    let bytes = contents.iter().map(|content| content.len() as u64).sum();
    assert_eq!(blobs.usage_blocking(workspace(1)).unwrap(), BlobUsage { blobs: 4, bytes });
    assert_eq!(files_in(root.path()), 3, "the whole one is where it was, the small ones share a pack");
    // Truncated behind our back, after it was seen whole: its length gives it away.
    let path = path(root.path(), workspace(1), ids[3]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4).unwrap();
    assert!(matches!(blobs.open_blocking(workspace(1), ids[3]), Err(BlobError::Damaged(_))));
}

/// Changes one byte of the only file below `directory` that holds `content`.
fn damage(directory: &Path, content: &[u8]) {
    let mut found = 0;
    for entry in fs::read_dir(directory).expect("the test owns the directory") {
        let path = entry.expect("the test owns the directory").path();
        if path.is_dir() {
            damage(&path, content);
            continue;
        }
        let mut bytes = fs::read(&path).expect("the test owns the directory");
        if let Some(at) = bytes.windows(content.len()).position(|window| window == content) {
            bytes[at + content.len() / 2] ^= 1;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("the test owns the directory");
            fs::write(&path, bytes).expect("the test owns the directory");
            found += 1;
        }
    }
    assert!(found <= 1);
}

#[tokio::test]
async fn what_is_damaged_while_it_is_used_is_found_out_and_repaired_by_a_put() {
    let root = tempfile::tempdir().unwrap();
    let blobs = LocalBlobs::open(root.path()).unwrap();
    for content in [b"a small one".to_vec(), vec![5; 100_000], (0..3_000_000_u32).map(|at| at as u8).collect()] {
        let stored = blobs.put(workspace(1), content.clone()).await.unwrap();
        assert_eq!(blobs.read(workspace(1), stored.id).await.unwrap(), content);
        damage(root.path(), &content);
        assert!(
            matches!(blobs.open_blocking(workspace(1), stored.id), Err(BlobError::Damaged(_))),
            "{}",
            content.len()
        );
        blobs.put(workspace(1), content.clone()).await.unwrap();
        assert_eq!(blobs.read(workspace(1), stored.id).await.unwrap(), content);
        // A put alone finds it out, too.
        damage(root.path(), &content);
        blobs.put_blocking(workspace(1), &mut content.as_slice()).unwrap();
        assert_eq!(blobs.read(workspace(1), stored.id).await.unwrap(), content);
    }
    assert_eq!(blobs.usage_blocking(workspace(1)).unwrap(), BlobUsage { blobs: 3, bytes: 3_100_011 });
}

#[tokio::test]
async fn one_thing_that_cannot_be_read_costs_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let (small, large) = (b"small".to_vec(), vec![6; 100_000]);
    let blobs = LocalBlobs::open(root.path()).unwrap();
    let ids = [
        blobs.put(workspace(1), small.clone()).await.unwrap().id,
        blobs.put(workspace(1), large.clone()).await.unwrap().id,
    ];
    let packs = root.path().join(workspace(1).to_string()).join("packs");
    // A large one turns into a directory while the store is used.
    let place = path(root.path(), workspace(1), ids[1]);
    fs::remove_file(&place).unwrap();
    fs::create_dir_all(place.join("something")).unwrap();
    assert!(matches!(blobs.open_blocking(workspace(1), ids[1]), Err(BlobError::Missing(_))));
    assert_eq!(blobs.put(workspace(1), large.clone()).await.unwrap().id, ids[1]);
    assert_eq!(blobs.read(workspace(1), ids[1]).await.unwrap(), large);
    assert_eq!(blobs.usage_blocking(workspace(1)).unwrap(), BlobUsage { blobs: 2, bytes: 100_005 });
    drop(blobs);

    for name in ["00000007.pack", "00000000.index", "00000003.new", "00000005.index"] {
        fs::create_dir_all(packs.join(name).join("something")).unwrap();
    }
    for name in ["+2.pack", "ffffffff.pack", "2.pack", "0000000A.pack"] {
        fs::write(packs.join(name), "not a pack").unwrap();
    }
    fs::write(root.path().join(workspace(1).to_string()).join("zz"), "not a directory").unwrap();
    for round in 0..2 {
        let blobs = LocalBlobs::open(root.path()).unwrap();
        assert_eq!(blobs.read(workspace(1), ids[0]).await.unwrap(), small);
        let other = vec![round; 20];
        let stored = blobs.put(workspace(1), other.clone()).await.unwrap();
        blobs.sync().await.unwrap();
        assert_eq!(blobs.read(workspace(1), stored.id).await.unwrap(), other);
        assert_eq!(blobs.usage_blocking(workspace(1)).unwrap().blobs, 3 + u64::from(round));
        blobs.collect_blocking(workspace(1), &|_| true, std::time::Duration::ZERO).unwrap();
    }
    // The pack itself: its blobs are gone, and come back when they are put.
    let pack = packs.join("00000000.pack");
    fs::rename(&pack, root.path().join("elsewhere")).unwrap();
    fs::create_dir(&pack).unwrap();
    let blobs = LocalBlobs::open(root.path()).unwrap();
    assert!(matches!(blobs.open_blocking(workspace(1), ids[0]), Err(BlobError::Missing(_))));
    assert_eq!(blobs.read(workspace(1), ids[1]).await.unwrap(), large);
    blobs.put(workspace(1), small.clone()).await.unwrap();
    assert_eq!(blobs.read(workspace(1), ids[0]).await.unwrap(), small);
}

#[test]
fn a_failing_reader_leaves_nothing() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let root = tempfile::tempdir().unwrap();
    let blobs = LocalBlobs::open(root.path()).unwrap();
    assert!(blobs.put_blocking(workspace(1), &mut Cursor::new(b"start").chain(Failing)).is_err());
    assert!(blobs.put_blocking(workspace(1), &mut Cursor::new(vec![1; 2_000_000]).chain(Failing)).is_err());
    assert_eq!(files_in(root.path()), 0);
}

#[test]
fn finished_files_are_taken_over() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let blobs = LocalBlobs::open(root.path()).unwrap();
    let read = |id| {
        let mut bytes = Vec::new();
        blobs.open_blocking(workspace(1), id).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    let single = outside.path().join("single");
    for content in [vec![1; 100_000], b"small".to_vec()] {
        fs::write(&single, &content).unwrap();
        fs::set_permissions(&single, fs::Permissions::from_mode(0o4755)).unwrap();
        let stored = blobs.adopt_blocking(workspace(1), single.clone()).unwrap();
        assert!(!single.exists());
        assert_eq!((read(stored.id), stored.bytes), (content.clone(), content.len() as u64));
        let mode = fs::metadata(path(root.path(), workspace(1), stored.id)).map(|metadata| metadata.mode() & 0o7777);
        assert_eq!(mode.ok(), (content.len() > 5).then_some(0o400));

        // The same bytes again, and a file that somebody else has another name for.
        fs::write(&single, &content).unwrap();
        assert_eq!(blobs.adopt_blocking(workspace(1), single.clone()).unwrap(), stored);
        assert!(!single.exists());
        let (linked, other) = (outside.path().join("linked"), outside.path().join("other"));
        let content = [&content[..], b"linked"].concat();
        fs::write(&linked, &content).unwrap();
        fs::hard_link(&linked, &other).unwrap();
        let stored = blobs.adopt_blocking(workspace(1), linked).unwrap();
        fs::write(&other, b"changed").unwrap();
        assert_eq!(read(stored.id), content);
        fs::remove_file(other).unwrap();
    }

    let link = outside.path().join("link");
    std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
    assert!(blobs.adopt_blocking(workspace(1), link).is_err());
    assert!(blobs.adopt_blocking(workspace(1), outside.path().to_owned()).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_puts_of_the_same_and_of_other_bytes_all_succeed() {
    let root = tempfile::tempdir().unwrap();
    let blobs = Arc::new(LocalBlobs::open(root.path()).unwrap());
    let tasks: Vec<_> = (0..64_u8)
        .map(|index| {
            let blobs = Arc::clone(&blobs);
            tokio::spawn(async move {
                let content = vec![index % 4; if index % 8 < 4 { 50_000 } else { 70_000 }];
                let stored = blobs.put(workspace(1), content.clone()).await.unwrap();
                blobs.sync().await.unwrap();
                assert_eq!(blobs.read(workspace(1), stored.id).await.unwrap(), content);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(files_in(root.path()), 4 + 1);
    assert_eq!(blobs.usage(workspace(1)).await.unwrap(), BlobUsage { blobs: 8, bytes: 4 * 120_000 });
}
