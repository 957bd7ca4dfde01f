//! Workspaces: made and listed by operators; a tenant sees its own.

use serde_json::json;
use stead_domain::agent::Harness;
use stead_domain::changes::Changes;
use stead_domain::key::{Caller, Verb};
use stead_domain::workspace::Workspace;
use stead_domain::{Code, Error, Result, WorkspaceId};

use crate::commit::store_failed;
use crate::engine::Engine;

impl Engine {
    /// Makes a workspace with a `shell` agent, and no key: that is the operator's next step. A name that is taken is
    /// [`Code::WorkspaceExists`], so that one whose answer was lost is found and none is made twice.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn workspace_create(&self, caller: &Caller, name: &str) -> Result<Workspace> {
        caller.require(Verb::Operator)?;
        let workspace = self.new_workspace(name)?;
        self.decide(|| async {
            let all = self.store.workspaces_list().await.map_err(store_failed)?;
            if let Some(taken) = all.iter().find(|other| other.name == workspace.name) {
                let refused = Error::new(Code::WorkspaceExists, "another workspace has that name").at("name");
                return Err(refused.detail(json!({ "workspace": taken.id.to_string() })));
            }
            Ok((self.workspace_rows(&workspace), workspace.clone()))
        })
        .await
    }

    /// Every workspace for an operator, oldest first; the caller's own for everybody else.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn workspace_list(&self, caller: &Caller) -> Result<Vec<Workspace>> {
        let mut all = self.store.workspaces_list().await.map_err(store_failed)?;
        if !caller.is_operator() {
            all.retain(|workspace| workspace.id == caller.workspace_id);
        }
        Ok(all)
    }

    pub(crate) fn new_workspace(&self, name: &str) -> Result<Workspace> {
        Workspace::new(WorkspaceId::new(self.ids.as_ref()), name, self.now())
    }

    /// A workspace and what it has from its first moment: the harness that needs no model.
    pub(crate) fn workspace_rows(&self, workspace: &Workspace) -> Changes {
        Changes::new().fact(workspace.clone()).insert(self.new_agent(workspace.id, Harness::Shell))
    }
}
