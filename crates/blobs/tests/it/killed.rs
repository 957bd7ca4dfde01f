//! The store in a process that is killed while it writes.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use stead_blobs::LocalBlobs;
use stead_domain::{WorkspaceId, ports::Blobs};

/// Names the directory to the process that is killed.
const DIRECTORY: &str = "STEAD_BLOBS_KILLED";

fn workspace() -> WorkspaceId {
    "ws_0192f000000070008000000000000001".parse().expect("the text is an id")
}

fn content(number: u64) -> Vec<u8> {
    // One in a while is a file of its own.
    let words = if number.is_multiple_of(97) { 9_000 } else { number % 500 };
    [number].iter().chain(&vec![number.wrapping_mul(31); words as usize]).flat_map(|word| word.to_le_bytes()).collect()
}

/// Puts, flushes and says how many blobs are durable, until it is killed. Does nothing in an ordinary run of the tests.
#[tokio::test]
async fn writing_until_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let blobs = LocalBlobs::open(Path::new(&directory)).unwrap();
    let from = blobs.usage_blocking(workspace()).unwrap().blobs;
    // Whatever becomes of who is to kill this, it ends.
    for number in from..from + 20_000 {
        blobs.put_blocking(workspace(), &mut &content(number)[..]).unwrap();
        if number % 50 == 0 {
            blobs.sync().await.unwrap();
            // The harness keeps what is printed the usual way.
            writeln!(std::io::stderr(), "durable {number}").unwrap();
        }
    }
}

#[tokio::test]
async fn what_was_flushed_is_there_after_a_kill() {
    let root = tempfile::tempdir().unwrap();
    let mut durable = 0;
    for round in 0..6_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::writing_until_killed", "--nocapture"])
            .env(DIRECTORY, root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            lines.filter_map(|line| line.strip_prefix("durable ")?.parse::<u64>().ok()).last()
        });
        std::thread::sleep(Duration::from_millis(150 + 37 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        durable = durable.max(reader.join().unwrap().unwrap_or(0));

        let blobs = LocalBlobs::open(root.path()).unwrap();
        let count = blobs.usage_blocking(workspace()).unwrap().blobs;
        assert!(count > durable, "{count} of {durable} blobs");
        for number in 0..count {
            let id = stead_domain::BlobId::from_bytes(*blake3::hash(&content(number)).as_bytes());
            assert_eq!(blobs.read(workspace(), id).await.unwrap(), content(number));
        }
    }
    assert!(durable > 100, "only {durable} were flushed");
}
