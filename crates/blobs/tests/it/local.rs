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
    ports::{BlobError, Blobs, StoredBlob},
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
    assert_ne!(fs::metadata(&first).unwrap().ino(), fs::metadata(second).unwrap().ino());
    assert_eq!(fs::metadata(first).unwrap().mode() & 0o777, 0o400);
    assert_eq!(files_in(root.path()), 2);
    blobs.sync().await.unwrap();

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
}

#[tokio::test]
async fn what_a_power_cut_tore_is_never_served_and_repaired_by_the_next_put() {
    let root = tempfile::tempdir().unwrap();
    let (torn, zeroed) = {
        let blobs = LocalBlobs::open(root.path()).unwrap();
        let torn = blobs.put(workspace(1), b"torn bytes".to_vec()).await.unwrap().id;
        (torn, blobs.put(workspace(1), b"zeroed".to_vec()).await.unwrap().id)
    };
    for (id, content) in [(torn, &b"torn"[..]), (zeroed, b"\0\0\0\0\0\0")] {
        let path = path(root.path(), workspace(1), id);
        fs::remove_file(&path).unwrap();
        fs::write(&path, content).unwrap();
    }
    fs::write(root.path().join("incoming/7"), b"half").unwrap();

    let blobs = LocalBlobs::open(root.path()).unwrap();
    assert!(!root.path().join("incoming/7").exists());
    for (id, content) in [(torn, &b"torn bytes"[..]), (zeroed, b"zeroed")] {
        assert!(matches!(blobs.open_blocking(workspace(1), id), Err(BlobError::Damaged(_))));
        assert!(matches!(blobs.read(workspace(1), id).await, Err(BlobError::Damaged(_))));
        blobs.put(workspace(1), content.to_vec()).await.unwrap();
        assert_eq!(blobs.read(workspace(1), id).await.unwrap(), content);
    }
    // Truncated behind our back, after it was seen whole: its length gives it away.
    let path = path(root.path(), workspace(1), torn);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4).unwrap();
    assert!(matches!(blobs.open_blocking(workspace(1), torn), Err(BlobError::Damaged(_))));
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
    fs::write(&single, b"single").unwrap();
    fs::set_permissions(&single, fs::Permissions::from_mode(0o4755)).unwrap();
    let stored = blobs.adopt_blocking(workspace(1), single.clone()).unwrap();
    assert!(!single.exists());
    assert_eq!((read(stored.id), stored.bytes), (b"single".to_vec(), 6));
    assert_eq!(fs::metadata(path(root.path(), workspace(1), stored.id)).unwrap().mode() & 0o7777, 0o400);

    // The same bytes again, and a file that somebody else has another name for.
    fs::write(&single, b"single").unwrap();
    assert_eq!(blobs.adopt_blocking(workspace(1), single.clone()).unwrap(), stored);
    assert!(!single.exists());
    let (linked, other) = (outside.path().join("linked"), outside.path().join("other"));
    fs::write(&linked, b"linked").unwrap();
    fs::hard_link(&linked, &other).unwrap();
    let stored = blobs.adopt_blocking(workspace(1), linked).unwrap();
    fs::write(&other, b"changed").unwrap();
    assert_eq!(read(stored.id), b"linked");

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
                let content = vec![index % 4; 50_000];
                let stored = blobs.put(workspace(1), content.clone()).await.unwrap();
                blobs.sync().await.unwrap();
                assert_eq!(blobs.read(workspace(1), stored.id).await.unwrap(), content);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(files_in(root.path()), 4);
}
