//! `stead key`.

use clap::{Args, Subcommand};
use stead_face_stead::wire;

use super::Context;
use crate::client::{Failure, segment};
use crate::console::{instant, note, printable, table};

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key and print its secret, which is shown this once
    Create {
        /// A label for people
        name: String,
        /// What it may do: read, run, write, admin, operator [default: read,run,write]; `stead run` needs read and run
        #[arg(long = "verb", value_name = "VERB", value_delimiter = ',', value_parser = ["read", "run", "write", "admin", "operator"])]
        verbs: Vec<String>,
        #[command(flatten)]
        of: OfWorkspace,
    },
    #[command(visible_alias = "ls")]
    /// List keys, revoked ones included
    List {
        #[command(flatten)]
        of: OfWorkspace,
    },
    /// Revoke a key: from then on it authenticates nobody
    Revoke {
        /// The key's id, or its name when no other key has it
        // Not `key`, which is what every command is called with.
        #[arg(value_name = "KEY")]
        wanted: String,
        #[command(flatten)]
        of: OfWorkspace,
    },
}

/// Whose keys are meant.
#[derive(Debug, Args)]
pub(crate) struct OfWorkspace {
    /// The workspace of the keys, by id or name, when it is not that of the key you call with; needs the verb `operator`
    #[arg(long)]
    workspace: Option<String>,
}

impl OfWorkspace {
    /// The end of a route's address.
    fn query(&self) -> String {
        self.workspace.as_deref().map(|wanted| format!("?workspace={}", segment(wanted))).unwrap_or_default()
    }

    fn list(&self) -> String {
        format!("/stead/v1/keys{}", self.query())
    }
}

pub(crate) async fn key(context: &Context, command: KeyCommand) -> Result<(), Failure> {
    let Context { client, console } = context;
    match command {
        KeyCommand::Create { name, verbs, of } => {
            let verbs = Some(verbs).filter(|verbs| !verbs.is_empty());
            let body = wire::KeyCreate { name, verbs, workspace: of.workspace };
            let made = client.post_json::<wire::KeyCreated>("/stead/v1/keys", &body).await?;
            if !console.json {
                let key = &made.value.key;
                note(&format!("{} may {}. This is its secret, shown this once:", key.id, key.verbs.join(", ")));
            }
            console.show(&made.json, || format!("{}\n", made.value.secret))
        }
        KeyCommand::List { of } => {
            let list = client.get::<wire::KeyList>(&of.list()).await?;
            console.show(&list.json, || {
                let row = |key: &wire::Key| {
                    let revoked = instant(key.revoked_at);
                    vec![key.id.clone(), key.name.clone(), key.verbs.join(","), instant(Some(key.created_at)), revoked]
                };
                table(&["ID", "NAME", "VERBS", "MADE", "REVOKED"], &list.value.keys.iter().map(row).collect::<Vec<_>>())
            })
        }
        KeyCommand::Revoke { wanted, of } => {
            let id = named(context, &wanted, &of).await?;
            let revoked = client.delete::<wire::Key>(&format!("/stead/v1/keys/{}{}", segment(&id), of.query())).await?;
            if !console.json {
                note(&format!("{} is revoked", revoked.value.id));
                return Ok(());
            }
            console.show(&revoked.json, String::new)
        }
    }
}

/// The id of the key of that id or name. Of keys that share a name, those revoked do not count.
async fn named(context: &Context, wanted: &str, of: &OfWorkspace) -> Result<String, Failure> {
    let keys = context.client.get::<wire::KeyList>(&of.list()).await?.value.keys;
    if keys.iter().any(|key| key.id == wanted) {
        return Ok(wanted.to_owned());
    }
    let (live, revoked): (Vec<&wire::Key>, Vec<&wire::Key>) =
        keys.iter().filter(|key| key.name == wanted).partition(|key| key.revoked_at.is_none());
    let wanted = printable(wanted);
    match (live.as_slice(), revoked.is_empty()) {
        ([key], _) => Ok(key.id.clone()),
        ([], false) => Err(Failure::new(format!("every key named `{wanted}` is revoked already"))),
        ([], true) => {
            Err(Failure::new(format!("there is no key `{wanted}`")).hint("`stead key list` shows what there is"))
        }
        (several, _) => {
            let ids: Vec<&str> = several.iter().map(|key| key.id.as_str()).collect();
            Err(Failure::new(format!("{} keys have the name `{wanted}`", several.len()))
                .hint(format!("name one by its id: {}", ids.join(", "))))
        }
    }
}
