//! The first admin key, written to a file that its owner alone can read.
//!
//! The secret exists only in memory when the key is committed, so a crash between the commit and the file would lose it. A
//! marker is laid down first; a start that finds it makes another admin key. An operator who removes `admin.key` later
//! leaves no marker, and gets no key that nobody asked for.

use std::fs;
use std::path::Path;

use anyhow::Context;
use stead_domain::WorkspaceId;
use stead_engine::Engine;

use super::data_directory::put;

const KEY: &str = "admin.key";
const MARKER: &str = "admin.key.pending";

/// Makes the first workspace with its admin key unless one exists, and says which it is.
pub(super) async fn ensure(engine: &Engine, data: &Path) -> anyhow::Result<WorkspaceId> {
    let (marker, key) = (data.join(MARKER), data.join(KEY));
    let interrupted = marker.exists();
    let fresh = !key.exists();
    if fresh {
        put(&marker, "").context("failed to prepare the first admin key")?;
    }
    let made = engine.bootstrap().await.context("failed to make the first workspace")?;
    let secret = match made.admin_secret {
        Some(secret) => Some(secret),
        None if interrupted && fresh => {
            Some(engine.admin_key(made.workspace).await.context("failed to make the first admin key again")?)
        }
        None => None,
    };
    if let Some(secret) = secret {
        put(&key, &format!("{secret}\n")).with_context(|| format!("failed to write {}", key.display()))?;
        tracing::info!("the first admin key is in {}", key.display());
    }
    match fs::remove_file(&marker) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context("failed to remove the key's marker")
        }
        _ => Ok(made.workspace),
    }
}
