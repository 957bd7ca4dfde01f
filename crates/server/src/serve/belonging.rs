//! Which database a data directory belongs to.
//!
//! What the database does not know is removed from the disk at every start, so a start on another database would remove every
//! session's files. The first workspace, which is never removed, tells databases apart: its id is noted in the data directory
//! when the first start has made it, and a start whose database does not have it is refused before it writes or removes
//! anything. A restored backup has it. A directory without the note, from an earlier version, adopts the database that it meets
//! unless that is an empty one and there is something to lose. A directory in which nothing ever was adopts an empty one alone.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use stead_domain::WorkspaceId;
use stead_store::DatabaseUrl;

use super::data_directory::{ENVIRONMENTS, has_environments, put};
use super::node;

/// The note's name.
const NAME: &str = "database";
/// What says that there was a database with something in it, beside environments: the first key.
const KEY: &str = "admin.key";

/// The workspace that is noted, if one is yet.
fn noted(data: &Path) -> anyhow::Result<Option<WorkspaceId>> {
    let path = data.join(NAME);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let id = text.trim().parse();
            Ok(Some(id.with_context(|| format!("{} does not hold the id of a workspace", path.display()))?))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

/// Refuses a database that cannot be opened, or is another one than the directory's. Changes nothing.
pub(super) async fn check(data: &Path, url: &DatabaseUrl) -> anyhow::Result<()> {
    let found = stead_store::check(url).await.with_context(|| format!("failed to open the database {url:?}"))?;
    let state = if found.is_empty() { "an empty database" } else { "the database of another data directory" };
    match noted(data)? {
        Some(workspace) if found.contains(&workspace) => Ok(()),
        Some(_) => bail!(
            "{url:?} is {state}: what lies in {} belongs to another one, and a start would remove its sessions' files. Set \
             `database.url` to its own database, or restore that. If all of it may go, remove {}",
            data.display(),
            lost(data).join(" and "),
        ),
        None if !found.is_empty() && is_new(data)? => {
            let first = found.iter().min().map(ToString::to_string).unwrap_or_default();
            bail!(
                "{url:?} is {state}: nothing was ever in {}, and what the database knows of would be taken for lost. `--data` names \
                 its own directory. If that is gone for good, write `{first}` into {} to go on without the files of its sessions",
                data.display(),
                data.join(NAME).display(),
            )
        }
        None if found.is_empty() => {
            let lost = lost(data);
            ensure!(
                lost.is_empty(),
                "{url:?} is {state}, but the data directory {} was used with another one, and a start would remove its \
                 sessions' files. Set `database.url` to its own database, or restore that. If all of it may go, remove {}",
                data.display(),
                lost.join(" and "),
            );
            Ok(())
        }
        None => Ok(()),
    }
}

/// Whether no server ever came as far on a directory as to have a database.
fn is_new(data: &Path) -> anyhow::Result<bool> {
    let name = node::known(data).with_context(|| format!("failed to read {}", data.join("node").display()))?;
    Ok(name.is_none() && lost(data).is_empty())
}

/// What would be lost, and says so by being there.
fn lost(data: &Path) -> Vec<String> {
    let (environments, used) = (data.join(ENVIRONMENTS), has_environments(data));
    let found =
        [(data.join(NAME), data.join(NAME).exists()), (data.join(KEY), data.join(KEY).exists()), (environments, used)];
    found.into_iter().filter(|(_, there)| *there).map(|(path, _)| path.display().to_string()).collect()
}

/// Notes the first workspace unless one is noted.
pub(super) fn note(data: &Path, workspace: WorkspaceId) -> anyhow::Result<()> {
    if noted(data)?.is_some() {
        return Ok(());
    }
    let path = data.join(NAME);
    put(&path, &format!("{workspace}\n")).with_context(|| format!("failed to write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stead_domain::changes::Changes;
    use stead_domain::ports::Store as _;
    use stead_store::{SqlStore, StoreConfig};
    use stead_testkit::Samples;

    use super::*;
    use crate::adapters::SystemClock;

    #[tokio::test]
    async fn a_database_that_is_another_is_refused_and_nothing_is_made() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path();
        let url = |name: &str| DatabaseUrl::Sqlite(data.join(name));
        for (name, workspace) in [("own.db", 1), ("other.db", 2)] {
            let store = SqlStore::open(&StoreConfig::new(url(name)), Arc::new(SystemClock)).await.unwrap();
            store.commit(Changes::new().fact(Samples::new(workspace).workspace())).await.unwrap();
            store.close().await;
        }
        let refused = async |name| check(data, &url(name)).await.unwrap_err().to_string();
        // Nothing is noted, and nothing can be lost here; but another directory is known.
        check(data, &url("none.db")).await.unwrap();
        let message = refused("own.db").await;
        let workspace = Samples::new(1).workspace_id;
        assert!(
            message.contains("nothing was ever in") && message.contains(&format!("write `{workspace}`")),
            "{message}"
        );
        // As an earlier version left it.
        std::fs::write(data.join("node"), "node-1\n").unwrap();
        for name in ["own.db", "none.db"] {
            check(data, &url(name)).await.unwrap();
        }
        std::fs::create_dir_all(data.join("environments/slots")).unwrap();
        std::fs::write(data.join("environments/place.json"), "{}").unwrap();
        check(data, &url("none.db")).await.unwrap();
        std::fs::create_dir(data.join("environments/e")).unwrap();
        assert!(refused("none.db").await.contains(&format!("remove {}/environments", data.display())));
        check(data, &url("other.db")).await.unwrap();
        note(data, Samples::new(1).workspace_id).unwrap();
        note(data, Samples::new(2).workspace_id).unwrap();
        check(data, &url("own.db")).await.unwrap();
        assert!(refused("other.db").await.contains("is the database of another data directory"));
        let empty = refused("none.db").await;
        assert!(empty.contains("is an empty database") && empty.contains("/database and "), "{empty}");
        assert!(!data.join("none.db").exists());
        std::fs::copy(data.join("own.db"), data.join("restored.db")).unwrap();
        check(data, &url("restored.db")).await.unwrap();
        std::fs::write(data.join(NAME), "x").unwrap();
        assert!(refused("own.db").await.contains("does not hold the id of a workspace"));
    }
}
