//! Removing what nothing names.
//!
//! A blob that is not named is marked; the mark goes when the blob is put or opened. A blob whose mark is older than the
//! grace is removed, in one step with looking at the mark. Then packs of which much is of no use are emptied into the one
//! that grows and removed, after what was moved is durable. A crash at any point leaves a record twice, or brings back
//! what was removed: both are found by the next collection.

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File},
    io,
    time::{Duration, Instant},
};

use stead_domain::{
    BlobId,
    ports::{BlobUsage, Collected},
};

use crate::{
    barrier::Barrier,
    singles,
    tenant::{State, Tenant},
};

/// How many blobs are judged while puts wait.
const AT_ONCE: usize = 256;

pub(crate) fn collect(
    barrier: &Barrier,
    tenant: &Tenant,
    is_named: &dyn Fn(BlobId) -> bool,
    grace: Duration,
) -> io::Result<Collected> {
    let _alone = tenant.collecting();
    let began = Instant::now();
    let mut all: HashSet<BlobId> = tenant.lock().packs.ids().into_iter().collect();
    all.extend(singles::list(&tenant.directory)?.iter().map(|single| single.id));
    let (named, unnamed): (Vec<_>, Vec<_>) = all.into_iter().partition(|id| is_named(*id));
    let mut removed = BlobUsage::default();
    for some in named.chunks(AT_ONCE) {
        let mut state = tenant.lock();
        for id in some {
            state.marks.remove(id);
        }
    }
    for some in unnamed.chunks(AT_ONCE) {
        let mut state = tenant.lock();
        for id in some {
            match state.marks.get(id) {
                Some(since) if began.saturating_duration_since(*since) >= grace && began > *since => {
                    removed.bytes += remove(tenant, &mut state, *id)?;
                    removed.blobs += 1;
                }
                Some(_) => {}
                None => {
                    state.marks.insert(*id, Instant::now());
                }
            }
        }
    }
    empty_packs(barrier, tenant)?;
    Ok(Collected { removed, marked: tenant.lock().marks.len() as u64 })
}

/// Removes a blob and says how long it was.
fn remove(tenant: &Tenant, state: &mut State, id: BlobId) -> io::Result<u64> {
    state.marks.remove(&id);
    let packed = state.packs.remove(id).map_or(0, u64::from);
    if !state.has_singles {
        return Ok(packed);
    }
    let path = singles::path(&tenant.directory, id);
    let bytes = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(packed),
        Ok(metadata) if !metadata.is_file() => return Ok(packed),
        metadata => metadata?.len(),
    };
    fs::remove_file(path)?;
    if let Some(singles) = &mut state.singles {
        singles.blobs -= 1;
        singles.bytes -= bytes;
    }
    Ok(packed + bytes)
}

fn empty_packs(barrier: &Barrier, tenant: &Tenant) -> io::Result<()> {
    let worthless = tenant.lock().packs.worthless();
    for (number, blobs) in worthless {
        let mut written = BTreeSet::new();
        for found in blobs {
            let mut state = tenant.lock();
            match state.packs.move_on(number, found.id) {
                Ok(None) => {}
                Ok(Some(pack)) => {
                    written.insert(pack.path.clone());
                    barrier.note_pack(pack);
                }
                // The pack stays, since somebody may want to save what can be saved.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!(blob.id = %found.id, error.message = %error, "a blob cannot be moved");
                }
                Err(error) => return Err(error),
            }
        }
        for path in &written {
            // Opened anew: an error is told to each open file once, and those who wait for the barrier want it, too.
            barrier.flush_pack(path, &File::open(path)?)?;
        }
        tenant.lock().packs.drop_empty(number)?;
    }
    Ok(())
}
