//! Files of an environment.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use stead_link::ErrorCode;

use crate::runtime::Runtime;

#[tokio::test]
async fn a_listing_has_regular_files_alone() {
    let runtime = Runtime::start();
    let folder = runtime.folder.path().join("w");
    std::fs::create_dir_all(folder.join("deep/er")).unwrap();
    for name in ["a", "deep/er/with \n line \u{20ac}", "deep/.hidden"] {
        std::fs::write(folder.join(name), name).unwrap();
    }
    std::fs::write(folder.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    std::fs::hard_link(folder.join("a"), folder.join("b")).unwrap();
    symlink("/etc/passwd", folder.join("link")).unwrap();
    symlink("/etc", folder.join("folder-link")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap();
    assert!(fifo.success());
    let client = runtime.client().await;
    let root = folder.to_str().unwrap();
    let (mut entries, incomplete) = client.files().list(root, 100).unwrap().collect().await.unwrap();
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let names: Vec<(&str, bool)> = entries.iter().map(|entry| (entry.path.as_str(), entry.lossy)).collect();
    assert_eq!(
        names,
        [
            ("a", false),
            ("b", false),
            ("bad\u{fffd}", true),
            ("deep/.hidden", false),
            ("deep/er/with \n line \u{20ac}", false),
        ]
    );
    assert!(!incomplete);
    let info = &entries[0].info;
    assert_eq!((info.size, info.nlink, info.executable), (1, 2, false));
    assert!(info.mtime_ns > 0 && info.ctime_ns >= info.mtime_ns && info.inode > 0);
    let (few, incomplete) = client.files().list(root, 2).unwrap().collect().await.unwrap();
    assert_eq!((few.len(), incomplete), (2, true));
}

#[tokio::test]
async fn a_long_listing_arrives_in_pages() {
    let runtime = Runtime::start();
    let folder = runtime.folder.path().join("many");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..5000 {
        std::fs::write(folder.join(format!("{number:0200}")), "").unwrap();
    }
    let client = runtime.client().await;
    let listing = client.files().list(folder.to_str().unwrap(), 1_000_000).unwrap();
    // Nobody reads it yet; something else is answered meanwhile.
    tokio::time::sleep(Duration::from_millis(200)).await;
    client.ping().await.unwrap();
    let (entries, incomplete) = listing.collect().await.unwrap();
    assert_eq!((entries.len(), incomplete), (5000, false));
}

#[tokio::test]
async fn reading_gives_the_part_that_was_asked_for() {
    let runtime = Runtime::start();
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|number| (number % 253) as u8).collect();
    std::fs::write(runtime.folder.path().join("big"), &bytes).unwrap();
    let client = runtime.client().await;
    let root = runtime.root();
    let read = client.files().read(&root, "big", 0, u64::MAX).await.unwrap();
    assert_eq!(read.info().size, 2_000_000);
    assert_eq!(read.collect().await.unwrap(), bytes);
    let part = client.files().read(&root, "big", 1_999_990, 5).await.unwrap();
    assert_eq!(part.collect().await.unwrap(), &bytes[1_999_990..1_999_995]);
    let beyond = client.files().read(&root, "big", 3_000_000, 5).await.unwrap();
    assert!(beyond.collect().await.unwrap().is_empty());
}

#[tokio::test]
async fn paths_do_not_escape() {
    let runtime = Runtime::start();
    let folder = runtime.folder.path();
    std::fs::create_dir(folder.join("w")).unwrap();
    std::fs::write(folder.join("outside"), "secret").unwrap();
    symlink("/etc/passwd", folder.join("w/link")).unwrap();
    symlink("..", folder.join("w/up")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(folder.join("w/pipe")).status().unwrap().success());
    symlink("w", folder.join("root-link")).unwrap();
    let client = runtime.client().await;
    let files = client.files();
    let root = format!("{}/w", runtime.root());
    for (path, code) in [
        ("../outside", ErrorCode::PathRefused),
        ("/etc/passwd", ErrorCode::PathRefused),
        ("link", ErrorCode::PathRefused),
        ("up/outside", ErrorCode::PathRefused),
        ("pipe", ErrorCode::NotAFile),
        (".", ErrorCode::NotAFile),
        ("missing", ErrorCode::NotFound),
    ] {
        let outcome = tokio::time::timeout(Duration::from_secs(2), files.read(&root, path, 0, 10)).await;
        let error = outcome.expect("a read hangs").err().unwrap_or_else(|| panic!("{path} was opened"));
        assert_eq!(error.code(), Some(code), "{path}: {error}");
    }
    let linked = files.read(&format!("{}/root-link", runtime.root()), "link", 0, 1).await.err().unwrap();
    assert_eq!(linked.code(), Some(ErrorCode::PathRefused));
    let proc = files.read("/", "proc/self/root/etc/passwd", 0, 1).await.err().unwrap();
    assert_eq!(proc.code(), Some(ErrorCode::PathRefused));
    for path in ["../new", "/tmp/new", "up/new", "a/../../new", "", "a//b", "link/x"] {
        let error = files.write(&root, path, b"x", false).await.unwrap_err();
        assert!(matches!(error.code(), Some(ErrorCode::PathRefused | ErrorCode::NotAFile)), "{path}: {error}");
    }
    assert!(!folder.join("new").exists());
}

#[tokio::test]
async fn writing_replaces_at_once_and_follows_nothing() {
    let runtime = Runtime::start();
    let folder = runtime.folder.path();
    let client = runtime.client().await;
    let (files, root) = (client.files(), runtime.root());
    let bytes = vec![7; 1_000_000];
    files.write(&root, "new/deep/tool", &bytes, true).await.unwrap();
    assert_eq!(std::fs::read(folder.join("new/deep/tool")).unwrap(), bytes);
    let mode = |path: &str| std::fs::metadata(folder.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("new/deep/tool"), 0o755);
    std::fs::write(folder.join("target"), "kept").unwrap();
    symlink("target", folder.join("name")).unwrap();
    files.write(&root, "name", b"", false).await.unwrap();
    assert_eq!(std::fs::read(folder.join("target")).unwrap(), b"kept");
    assert_eq!((std::fs::read(folder.join("name")).unwrap().len(), mode("name")), (0, 0o644));
    assert!(files.write(&root, "new", b"x", false).await.is_err(), "a folder is not replaced");
    let (entries, _) = files.list(&root, 100).unwrap().collect().await.unwrap();
    assert!(entries.iter().all(|entry| !entry.path.contains(".stead-")), "{entries:?}");
}
