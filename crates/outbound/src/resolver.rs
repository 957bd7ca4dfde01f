//! From a name to addresses.

use std::any::Any;
use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::HostName;

/// The future of one resolution.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// A caller's leave to ask a question; it ends when this is dropped.
pub type Turn = Box<dyn Any + Send>;

/// Resolves names. A seam for tests (a name server that changes its answers) and for operators with a resolver of
/// their own.
pub trait Resolver: Send + Sync {
    /// All addresses of the name, in order of preference. An empty answer counts as "no address".
    fn resolve<'a>(&'a self, name: &'a HostName) -> Resolving<'a>;

    /// The same for a caller whose `turn` is over when the question is. A resolver that goes on after its future was dropped
    /// keeps the turn until it is done.
    fn resolve_in_turn<'a>(&'a self, name: &'a HostName, turn: Turn) -> Resolving<'a> {
        let answer = self.resolve(name);
        Box::pin(async move {
            let answer = answer.await;
            drop(turn);
            answer
        })
    }
}

/// Questions of the system resolver that may be under way at once. Each holds a thread until the C library gives up,
/// which no deadline of ours can shorten.
pub const CONCURRENT_QUESTIONS: usize = 128;

/// The C library's resolver: `/etc/hosts`, then the configured name servers.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    questions: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { questions: Arc::new(Semaphore::new(CONCURRENT_QUESTIONS)) }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Resolving<'a> {
        self.resolve_in_turn(name, Box::new(()))
    }

    fn resolve_in_turn<'a>(&'a self, name: &'a HostName, turn: Turn) -> Resolving<'a> {
        Box::pin(async move {
            let permit = Arc::clone(&self.questions).acquire_owned().await.map_err(io::Error::other)?;
            let name = name.as_str().to_owned();
            // Permit and turn go with the thread, not with the future: an abandoned question still occupies its thread.
            let answer = tokio::task::spawn_blocking(move || {
                let answer = (name.as_str(), 0).to_socket_addrs();
                drop((permit, turn));
                answer
            });
            let mut addresses: Vec<IpAddr> = Vec::new();
            for socket in answer.await.map_err(io::Error::other)?? {
                if !addresses.contains(&socket.ip()) {
                    addresses.push(socket.ip());
                }
            }
            Ok(addresses)
        })
    }
}
