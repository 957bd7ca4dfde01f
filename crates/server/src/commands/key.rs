//! `stead key`.

use clap::Subcommand;
use stead_face_stead::wire;

use super::Context;
use crate::client::{Failure, segment};
use crate::console::{instant, note, table};

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key and print its secret, which is shown this once
    Create {
        /// A label for people
        name: String,
        /// What it may do: read, run, write, admin [default: read,run,write]
        #[arg(long = "verb", value_name = "VERB", value_delimiter = ',', value_parser = ["read", "run", "write", "admin"])]
        verbs: Vec<String>,
    },
    /// List keys, revoked ones included
    List,
    /// Revoke a key: from then on it authenticates nobody
    Revoke {
        /// The key's id, not its secret
        id: String,
    },
}

pub(crate) async fn key(context: &Context, command: KeyCommand) -> Result<(), Failure> {
    let Context { client, console } = context;
    match command {
        KeyCommand::Create { name, verbs } => {
            let body = wire::KeyCreate { name, verbs: Some(verbs).filter(|verbs| !verbs.is_empty()) };
            let made = client.post_json::<wire::KeyCreated>("/stead/v1/keys", &body).await?;
            if !console.json {
                let key = &made.value.key;
                note(&format!("{} may {}. This is its secret, shown this once:", key.id, key.verbs.join(", ")));
            }
            console.show(&made.json, || format!("{}\n", made.value.secret))
        }
        KeyCommand::List => {
            let list = client.get::<wire::KeyList>("/stead/v1/keys").await?;
            console.show(&list.json, || {
                let row = |key: &wire::Key| {
                    let revoked = instant(key.revoked_at);
                    vec![key.id.clone(), key.name.clone(), key.verbs.join(","), instant(Some(key.created_at)), revoked]
                };
                table(&["ID", "NAME", "VERBS", "MADE", "REVOKED"], &list.value.keys.iter().map(row).collect::<Vec<_>>())
            })
        }
        KeyCommand::Revoke { id } => {
            let revoked = client.delete::<wire::Key>(&format!("/stead/v1/keys/{}", segment(&id))).await?;
            if !console.json {
                note(&format!("{} is revoked", revoked.value.id));
                return Ok(());
            }
            console.show(&revoked.json, String::new)
        }
    }
}
