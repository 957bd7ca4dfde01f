//! Commands, one file per noun.

pub(crate) mod audit;
pub(crate) mod doctor;
pub(crate) mod keeping;
pub(crate) mod key;
pub(crate) mod network;
pub(crate) mod package;
pub(crate) mod project;
pub(crate) mod run;
pub(crate) mod save;
pub(crate) mod session;
pub(crate) mod workspace;

use crate::cli::Connection;
use crate::client::{Client, Failure, find_key};
use crate::console::Console;

/// What a client command works with.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) console: Console,
}

impl Context {
    pub(crate) fn new(connection: Connection) -> Result<Self, Failure> {
        let key = find_key(connection.key, connection.key_file.as_deref())?;
        let client = Client::new(&connection.url, key, connection.patience)?;
        Ok(Self { client, console: Console { json: connection.json } })
    }
}
