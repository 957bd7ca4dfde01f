//! What a fresh server needs before anyone can use it.

use stead_domain::agent::Harness;
use stead_domain::changes::Changes;
use stead_domain::key::Verb;
use stead_domain::workspace::Workspace;
use stead_domain::{Result, WorkspaceId};

use crate::commit::store_failed;
use crate::engine::Engine;

/// What [`Engine::bootstrap`] found or made.
#[derive(Debug)]
pub struct Bootstrap {
    /// The first workspace.
    pub workspace: WorkspaceId,
    /// The secret of the first admin key, if it was made now.
    pub admin_secret: Option<String>,
}

impl Engine {
    /// Makes the first workspace, its admin key and a `shell` agent, unless a workspace exists.
    pub async fn bootstrap(&self) -> Result<Bootstrap> {
        self.decide(|| async {
            if let Some(workspace) = self.store.workspace_first().await.map_err(store_failed)? {
                return Ok((Changes::new(), Bootstrap { workspace: workspace.id, admin_secret: None }));
            }
            let at = self.now();
            let id = WorkspaceId::new(self.ids.as_ref());
            let workspace = Workspace { id, name: "default".to_owned(), created_at: at };
            let (key, secret) = self.new_key(id, "first admin key", Verb::ALL.to_vec());
            let changes = Changes::new().fact(workspace).insert(key).insert(self.new_agent(id, Harness::Shell));
            Ok((changes, Bootstrap { workspace: id, admin_secret: Some(secret) }))
        })
        .await
    }

    /// Makes another admin key of a workspace, for an operator who has lost the first.
    pub async fn admin_key(&self, workspace: WorkspaceId) -> Result<String> {
        let (key, secret) = self.new_key(workspace, "admin key", Verb::ALL.to_vec());
        self.decide(|| async { Ok((Changes::new().insert(key.clone()), ())) }).await?;
        Ok(secret)
    }
}
