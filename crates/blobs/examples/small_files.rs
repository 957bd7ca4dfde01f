//! Times the store on many small blobs: `cargo run --release -p stead-blobs --example small_files -- DIRECTORY [FILES [BYTES]]`.
#![expect(clippy::print_stdout, reason = "this prints figures")]

use std::error::Error;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use stead_blobs::LocalBlobs;
use stead_domain::ports::Blobs as _;
use stead_domain::{BlobId, WorkspaceId};

/// Bytes of a file, 0.5 to 4 KiB unless told otherwise, that repeat in no other file.
fn content(seed: u64, index: u64, length: Option<usize>) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index + 1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let length = length.unwrap_or(512 + (next() % 3584) as usize);
    (0..length.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(length).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("name a directory")?);
    let files: u64 = arguments.next().unwrap_or_else(|| "20000".to_owned()).parse()?;
    let length = arguments.next().map(|length| length.parse()).transpose()?;
    let workspace: WorkspaceId = "ws_0192f000000070008000000000000001".parse()?;
    // Each run's bytes are new ones.
    let seed = u64::from(std::process::id());
    let blobs = LocalBlobs::open(&directory)?;
    blobs.put(workspace, b"the first flush covers everything".to_vec()).await?;
    blobs.sync().await?;
    let contents: Vec<Vec<u8>> = (0..files).map(|index| content(seed, index, length)).collect();
    let mut ids: Vec<BlobId> = Vec::new();
    for name in ["put", "put again, unchanged"] {
        let began = Instant::now();
        ids.clear();
        for bytes in &contents {
            ids.push(blobs.put_blocking(workspace, &mut bytes.as_slice())?.id);
        }
        let put = began.elapsed();
        blobs.sync().await?;
        println!("{name}: {put:?}, flushed after {:?}", began.elapsed());
    }
    drop(blobs);
    let began = Instant::now();
    let blobs = LocalBlobs::open(&directory)?;
    let usage = blobs.usage_blocking(workspace)?;
    println!("opened and counted {} blobs: {:?}", usage.blobs, began.elapsed());
    let began = Instant::now();
    let mut bytes = 0;
    for id in &ids {
        bytes += std::io::copy(&mut blobs.open_blocking(workspace, *id)?.take(u64::MAX), &mut std::io::sink())?;
    }
    println!("read {bytes} bytes: {:?}", began.elapsed());
    let began = Instant::now();
    blobs.collect_blocking(workspace, &|_| false, Duration::ZERO)?;
    println!("marked all: {:?}", began.elapsed());
    let began = Instant::now();
    let collected = blobs.collect_blocking(workspace, &|id| id.as_bytes()[0] < 128, Duration::ZERO)?;
    println!("collected {} blobs: {:?}", collected.removed.blobs, began.elapsed());
    Ok(())
}
