//! `stead workspace`.

use clap::Subcommand;
use stead_face_stead::wire;

use super::Context;
use crate::client::Failure;
use crate::console::{instant, note, table};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Make a workspace and print its id; needs a key with the verb `operator`
    Create {
        /// What people call it; no two workspaces have one name
        name: String,
    },
    #[command(visible_alias = "ls")]
    /// List workspaces: all of them with the verb `operator`, else the key's own
    List,
}

pub(crate) async fn workspace(context: &Context, command: WorkspaceCommand) -> Result<(), Failure> {
    let Context { client, console } = context;
    match command {
        WorkspaceCommand::Create { name } => {
            let body = wire::WorkspaceCreate { name };
            let made = client.post_json::<wire::Workspace>("/stead/v1/workspaces", &body).await?;
            if !console.json {
                let id = &made.value.id;
                note(&format!("a key for it: `stead key create NAME --workspace {id}`"));
            }
            console.show(&made.json, || format!("{}\n", made.value.id))
        }
        WorkspaceCommand::List => {
            let list = client.get::<wire::WorkspaceList>("/stead/v1/workspaces").await?;
            console.show(&list.json, || {
                let row = |workspace: &wire::Workspace| {
                    let current = if workspace.current { "*" } else { "" };
                    let made = instant(Some(workspace.created_at));
                    vec![workspace.id.clone(), workspace.name.clone(), made, current.to_owned()]
                };
                let rows: Vec<_> = list.value.workspaces.iter().map(row).collect();
                table(&["ID", "NAME", "MADE", "CURRENT"], &rows)
            })
        }
    }
}
