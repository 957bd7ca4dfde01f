//! The asynchronous client that the server dials a runtime with.
//!
//! One connection carries any number of streams. A task reads frames and hands them to the stream they belong to; it never
//! waits for a reader, because the credit of a stream bounds what it can hold. A second task writes. Both end when the last
//! [`Client`] and the last handle of a stream are gone, or when the runtime closes the connection, which every pending
//! stream sees as [`LinkError::Disconnected`].

mod connection;
mod error;
mod exec;
mod files;
mod pending;
mod stream;

use std::path::Path;
use std::sync::Arc;

pub use error::LinkError;
pub use exec::{Command, Exec, ExecEvent, ExecOutcome, ExecSpec};
pub use files::{FileRead, Files, Listing};

use crate::reply::Reply;
use crate::request::{Request, Token};
use connection::Connection;

/// A connection to a runtime; cheap to clone.
#[derive(Clone)]
pub struct Client {
    connection: Arc<Connection>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Dials the socket at `path` and proves the token. Gives up after 5 seconds.
    pub async fn connect(path: impl AsRef<Path>, token: &Token) -> Result<Self, LinkError> {
        let connection = connection::dial(path.as_ref(), token).await?;
        Ok(Self { connection })
    }

    /// The generation that was negotiated.
    pub fn generation(&self) -> u32 {
        self.connection.generation()
    }

    /// Whether the connection is gone for good.
    pub fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Begins a command. A refusal (no such program, say) comes from the first [`Exec::next`].
    pub async fn exec(&self, spec: ExecSpec) -> Result<Exec, LinkError> {
        exec::begin(&self.connection, spec).await
    }

    /// Takes a named command over, from whatever connection has it: its output comes from the byte `from` on, then its end.
    ///
    /// `None` when the runtime knows no command of that name, or is of generation 1 and knows no names at all. What lies before
    /// `from` counts as acknowledged. [`ErrorCode::OutOfRange`](crate::ErrorCode) when `from` lies before what was acknowledged or
    /// beyond what there is.
    pub async fn adopt(&self, name: &str, from: u64) -> Result<Option<Exec>, LinkError> {
        exec::adopt(&self.connection, name, from).await
    }

    /// The file operations.
    pub fn files(&self) -> Files {
        Files::new(Arc::clone(&self.connection))
    }

    /// Kills every process of the environment but the runtime; answers when they are gone.
    ///
    /// The number is of processes that the kernel would not let die within the runtime's patience (10 s); 0 is the rule.
    pub async fn kill_all(&self) -> Result<u32, LinkError> {
        match self.ask(Request::KillAll {}).await? {
            Reply::KilledAll { survivors } => Ok(survivors),
            other => Err(error::unexpected("kill_all", &other)),
        }
    }

    /// A round trip.
    pub async fn ping(&self) -> Result<(), LinkError> {
        match self.ask(Request::Ping {}).await? {
            Reply::Pong {} => Ok(()),
            other => Err(error::unexpected("ping", &other)),
        }
    }

    /// Kills everything and ends the runtime. The connection is closed afterwards.
    pub async fn shutdown(&self) -> Result<(), LinkError> {
        match self.ask(Request::Shutdown {}).await? {
            Reply::Bye {} => Ok(()),
            other => Err(error::unexpected("shutdown", &other)),
        }
    }

    async fn ask(&self, request: Request) -> Result<Reply, LinkError> {
        let mut stream = self.connection.open(&request, false)?;
        let reply = stream.reply().await?;
        stream.finish();
        Ok(reply)
    }
}
