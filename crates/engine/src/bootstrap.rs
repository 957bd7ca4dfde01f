//! What a fresh server needs before anyone can use it.

use stead_domain::changes::Changes;
use stead_domain::key::Verb;
use stead_domain::{Result, WorkspaceId};

use crate::commit::store_failed;
use crate::engine::Engine;

/// What the first workspace is called.
const NAME: &str = "default";

/// What [`Engine::bootstrap`] found or made.
#[derive(Debug)]
pub struct Bootstrap {
    /// The first workspace.
    pub workspace: WorkspaceId,
    /// The secret of the first admin key, if it was made now.
    pub admin_secret: Option<String>,
}

impl Engine {
    /// Makes the first workspace, a key with every verb and a `shell` agent, unless a workspace exists.
    pub async fn bootstrap(&self) -> Result<Bootstrap> {
        self.decide(|| async {
            if let Some(workspace) = self.store.workspace_first().await.map_err(store_failed)? {
                return Ok((Changes::new(), Bootstrap { workspace: workspace.id, admin_secret: None }));
            }
            // A name that another server has just taken makes this a conflict, and that server's workspace the first.
            let workspace = self.new_workspace(NAME)?;
            let (key, secret) = self.new_key(workspace.id, "first admin key", Verb::ALL.to_vec());
            let changes = self.workspace_rows(&workspace).insert(key);
            Ok((changes, Bootstrap { workspace: workspace.id, admin_secret: Some(secret) }))
        })
        .await
    }

    /// Makes another key with every verb in a workspace, for an operator who has lost the first.
    pub async fn admin_key(&self, workspace: WorkspaceId) -> Result<String> {
        let (key, secret) = self.new_key(workspace, "admin key", Verb::ALL.to_vec());
        self.decide(|| async { Ok((Changes::new().insert(key.clone()), ())) }).await?;
        Ok(secret)
    }
}
