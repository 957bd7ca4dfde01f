//! Admit, resolve once, judge, connect to what was judged.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::deny::classify;
use crate::host_addresses::OwnNetworks;
use crate::{Denied, DenyReason, DialError, Host, HostAddresses, Policy, Resolver, SystemResolver, Turn};

/// Addresses of one name that are tried; a name server may list thousands.
const MAX_ADDRESSES: usize = 16;

/// How long each part of a dial may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// For the resolver's answer.
    pub resolve: Duration,
    /// For all attempts to connect, together.
    pub connect: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { resolve: Duration::from_secs(10), connect: Duration::from_secs(15) }
    }
}

/// The one dialer for addresses that users name.
pub struct Dialer {
    resolver: Arc<dyn Resolver>,
    own: HostAddresses,
    deadlines: Deadlines,
}

impl Dialer {
    /// A dialer from its parts.
    pub fn new(resolver: Arc<dyn Resolver>, own: HostAddresses, deadlines: Deadlines) -> Self {
        Self { resolver, own, deadlines }
    }

    /// The system's resolver and addresses; `added` are addresses of this machine that no interface shows.
    pub fn system(added: Vec<IpAddr>) -> Self {
        Self::new(Arc::new(SystemResolver::default()), HostAddresses::system(added), Deadlines::default())
    }

    /// Admits, resolves and judges; returns the addresses that may be connected to, in the resolver's order, at least
    /// one. A caller that connects by itself must use these and never resolve the name again.
    pub async fn judge(&self, host: &Host, port: u16, policy: &Policy) -> Result<Vec<SocketAddr>, DialError> {
        self.judge_in_turn(host, port, policy, Box::new(())).await
    }

    /// [`judge`](Self::judge) for a caller that bounds its questions: `turn` is dropped when the resolver is done with the name,
    /// which may be long after this has given up on it.
    pub async fn judge_in_turn(
        &self,
        host: &Host,
        port: u16,
        policy: &Policy,
        turn: Turn,
    ) -> Result<Vec<SocketAddr>, DialError> {
        policy.admit(host, port)?;
        let addresses = match host {
            Host::Literal(address) => vec![*address],
            Host::Name(name) => {
                let answer = timeout(self.deadlines.resolve, self.resolver.resolve_in_turn(name, turn)).await;
                let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                answer.map_err(|source| DialError::Resolve { host: host.clone(), source })?
            }
        };
        if addresses.is_empty() {
            let source = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            return Err(DialError::Resolve { host: host.clone(), source });
        }
        let own = self.own.snapshot().map_err(|source| DialError::OwnAddresses { source })?;
        let mut allowed = Vec::new();
        let mut denied = Vec::new();
        for address in addresses {
            let socket = SocketAddr::new(address.to_canonical(), port);
            match verdict(host, socket, policy, &own) {
                None if allowed.len() < MAX_ADDRESSES => allowed.push(socket),
                None => {}
                Some(reason) => denied.push(Denied { address: socket.ip(), reason }),
            }
        }
        if allowed.is_empty() {
            tracing::debug!(%host, port, ?denied, "every address is denied");
            return Err(DialError::AllDenied { host: host.clone(), denied });
        }
        if !denied.is_empty() {
            tracing::debug!(%host, port, ?denied, "dropped denied addresses");
        }
        Ok(allowed)
    }

    /// Connects to the first judged address that answers. Each attempt has an equal share of the time that is left.
    pub async fn connect(&self, host: &Host, port: u16, policy: &Policy) -> Result<TcpStream, DialError> {
        let addresses = self.judge(host, port, policy).await?;
        self.connect_judged(host, &addresses).await
    }

    /// The second half of [`connect`](Self::connect): connects to addresses that [`judge`](Self::judge) gave for this host, and
    /// to no others.
    pub async fn connect_judged(&self, host: &Host, addresses: &[SocketAddr]) -> Result<TcpStream, DialError> {
        let deadline = Instant::now() + self.deadlines.connect;
        let mut failure = io::Error::from(io::ErrorKind::TimedOut);
        for (index, address) in addresses.iter().enumerate() {
            let now = Instant::now();
            let share = deadline.saturating_duration_since(now) / (addresses.len() - index) as u32;
            match timeout_at(now + share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Only latency is lost when the option cannot be set.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(DialError::Connect { host: host.clone(), source: failure })
    }
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Dialer")
            .field("own", &self.own)
            .field("deadlines", &self.deadlines)
            .finish_non_exhaustive()
    }
}

/// The reason to deny the endpoint, after all exemptions.
fn verdict(host: &Host, socket: SocketAddr, policy: &Policy, own: &OwnNetworks) -> Option<DenyReason> {
    if policy.extra_allowed.contains(&socket) {
        return None;
    }
    let listed = classify(socket.ip());
    let reason = listed.or_else(|| own.contains(socket.ip()).then_some(DenyReason::Own))?;
    let exempt = reason.can_be_exempted() && policy.exempt_hosts.contains(host);
    (!exempt).then_some(reason)
}
