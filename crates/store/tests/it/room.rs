//! A disk without room, under SQLite's file.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stead_domain::changes::Changes;
use stead_domain::ports::{CommitError, Store as _};
use stead_store::{DatabaseUrl, Relief, SqlStore, StoreConfig};
use stead_testkit::{Samples, SystemClock};
use tempfile::TempDir;

/// A file system of two megabytes.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let directory = TempDir::with_prefix("stead-small-").unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "stead-small"]).arg(directory.path());
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self(directory));
        }
        assert!(std::env::var("STEAD_NO_SKIP").as_deref() != Ok("1"), "a small file system cannot be mounted");
        println!("skipped: a small file system cannot be mounted");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no more room than this, and says which file takes it.
    fn fill(&self, but: u64) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(but)).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// The text of an error with all its causes.
fn causes(error: &CommitError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Keeps a file on the disk until room is asked for.
#[derive(Debug)]
struct Reserve(PathBuf, AtomicBool);

impl Relief for Reserve {
    fn make_room(&self, is_full: bool) -> bool {
        self.1.fetch_or(is_full, Ordering::SeqCst);
        std::fs::remove_file(&self.0).is_ok()
    }
}

#[tokio::test]
async fn a_commit_for_which_room_is_made_is_carried_out_once() {
    let Some(disk) = SmallDisk::mount() else { return };
    let reserve = Arc::new(Reserve(disk.path().join("reserve"), AtomicBool::new(false)));
    let url = DatabaseUrl::Sqlite(disk.path().join("stead.db"));
    let config = StoreConfig::new(url).relieved(reserve.clone());
    let store = SqlStore::open(&config, Arc::new(SystemClock)).await.unwrap();
    let samples = Samples::new(1);
    store.commit(Changes::new().fact(samples.workspace())).await.unwrap();
    let agents: Vec<_> = (0..8).map(|_| samples.agent()).collect();
    for (alone, taken) in [(true, &agents[..4]), (false, &agents[4..])] {
        std::fs::write(&reserve.0, vec![7; 800 << 10]).unwrap();
        let filler = disk.fill(0);
        reserve.1.store(false, Ordering::SeqCst);
        // What room the database has of its own is used up first.
        let fits = || (0..64).fold(Changes::new(), |changes, _| changes.insert(samples.agent()));
        while reserve.0.exists() {
            store.commit(fits()).await.unwrap();
        }
        assert!(reserve.1.load(Ordering::SeqCst), "the database did not say why");
        let commits = taken.iter().map(|agent| store.commit(Changes::new().insert(agent.clone())));
        if alone {
            for commit in commits {
                commit.await.unwrap();
            }
        } else {
            assert!(futures_util::future::join_all(commits).await.iter().all(Result::is_ok));
        }
        std::fs::remove_file(filler).unwrap();
    }
    let found = store.agents_list(samples.workspace_id).await.unwrap();
    assert!(agents.iter().all(|agent| found.contains(agent)));
    // There is no more to be had.
    let _filler = disk.fill(0);
    let many = || (0..400).fold(Changes::new(), |changes, _| changes.insert(samples.agent()));
    while store.commit(many()).await.is_ok() {}
}

#[tokio::test]
async fn a_full_disk_refuses_commits_whole_until_there_is_room_again() {
    let Some(disk) = SmallDisk::mount() else { return };
    let url = DatabaseUrl::Sqlite(disk.path().join("stead.db"));
    let open = || async { SqlStore::open(&StoreConfig::new(url.clone()), Arc::new(SystemClock)).await };
    let store = open().await.unwrap();
    let samples = Samples::new(1);
    let ws = samples.workspace_id;
    store.commit(Changes::new().fact(samples.workspace())).await.unwrap();
    // Too much for what is left, in one commit and in several of one group.
    let many = || (0..400).fold(Changes::new(), |changes, _| changes.insert(samples.agent()));
    let filler = disk.fill(64 << 10);
    let mut kept = 0;
    let refused = store.commit(many()).await.unwrap_err();
    assert!(causes(&refused).contains("full"), "{}", causes(&refused));
    assert_eq!(store.agents_list(ws).await.unwrap(), []);
    loop {
        let agents: Vec<_> = (0..16).map(|_| samples.agent()).collect();
        let commits = agents.iter().map(|agent| store.commit(Changes::new().insert(agent.clone())));
        let outcomes = futures_util::future::join_all(commits).await;
        let found = store.agents_list(ws).await.unwrap();
        for (agent, outcome) in agents.iter().zip(&outcomes) {
            assert_eq!(found.contains(agent), outcome.is_ok(), "{outcome:?}");
        }
        kept += outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(found.len(), kept);
        if outcomes.iter().any(Result::is_err) {
            break;
        }
    }
    // It is the same for a server that starts now, as far as it starts.
    store.close().await;
    std::fs::File::options()
        .append(true)
        .open(&filler)
        .map(|mut file| while file.write_all(&[7; 512]).is_ok() {})
        .unwrap();
    if let Ok(store) = open().await {
        assert_eq!(store.agents_list(ws).await.unwrap().len(), kept);
        assert!(store.commit(many()).await.is_err());
        store.close().await;
    }

    std::fs::remove_file(filler).unwrap();
    let store = open().await.unwrap();
    assert_eq!(store.agents_list(ws).await.unwrap().len(), kept);
    store.commit(many()).await.unwrap();
    // A store that stays open finds the room by itself.
    let filler = disk.fill(8 << 10);
    while store.commit(many()).await.is_ok() {}
    std::fs::remove_file(filler).unwrap();
    let before = store.agents_list(ws).await.unwrap().len();
    store.commit(many()).await.unwrap();
    assert_eq!(store.agents_list(ws).await.unwrap().len(), before + 400);
}
