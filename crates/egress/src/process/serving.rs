//! The proxy process's side.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{Resource, getrlimit};
use stead_outbound::Dialer;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::control::{Control, ControlError, Packet, read_policy};
use super::messages::{Order, Outcome, Report, What};
use crate::journal::{Journal, Record, Relay};
use crate::listening::Listening;
use crate::shares::Shares;
use crate::{Policy, Stats};

/// Threads that move bytes. Names are resolved on others.
const WORKERS: usize = 2;
/// Answers that wait for the service to read.
const ANSWERS: usize = 64;
/// Time between two looks at whether a connection is open, for a process that was let go.
const LOOK: Duration = Duration::from_millis(100);
/// Time for the last line, which says why the process ends.
const LAST_LINE: Duration = Duration::from_secs(1);

/// Serves sandboxes' sockets as the service orders on `control`, one end of a SEQPACKET socket pair whose other end a
/// [`Remote`](super::Remote) has. Blocks; makes threads of its own; returns as soon as the control socket closes, with an error
/// when it was used against its rules. The caller ends the process then: connections live until it does.
///
/// What a confined process needs for it: the network of the host; to read what the C library reads to resolve names, and
/// `/proc/net/fib_trie` and `/proc/net/if_inet6` for the machine's own addresses; threads; up to six descriptors for each
/// connection and two for each socket. How many there may be is read once, when this begins, and shared out among the groups of
/// sandboxes. With `LOCALDOMAIN` set to nothing in its environment, names are taken as they are and no
/// search list is added to them.
pub fn serve(control: OwnedFd, dialer: Arc<Dialer>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("egress")
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async { Serving::run(Control::new(control)?, dialer).await });
    // A name that is being resolved must not keep the process.
    runtime.shutdown_background();
    ended
}

struct Serving {
    control: Arc<Control>,
    dialer: Arc<Dialer>,
    shares: Arc<Shares>,
    journal: Journal,
    sockets: HashMap<u64, Listening>,
}

impl Serving {
    async fn run(control: Control, dialer: Arc<Dialer>) -> io::Result<()> {
        let control = Arc::new(control);
        let (journal, relay) = Journal::relayed();
        let (answers, waiting) = mpsc::channel(ANSWERS);
        let mut reporting = tokio::spawn(report(Arc::clone(&control), waiting, relay));
        let shares = Arc::new(Shares::new(getrlimit(Resource::Nofile).current));
        let mut serving = Self { control, dialer, shares, journal, sockets: HashMap::new() };
        loop {
            let received = tokio::select! {
                received = serving.control.receive::<Order>() => received,
                // Nothing can be answered any more.
                _ = &mut reporting => return Ok(()),
            };
            let packet = match received {
                Ok(Some(packet)) => packet,
                Ok(None) => return Ok(()),
                Err(error) => return Err(serving.give_up(error).await),
            };
            if let Order { number, what: What::LetGo { quiet, most }, .. } = packet.message {
                // Nothing that the other side does from here on matters.
                let _ = answers.send(Report::Answer { number, outcome: Outcome::Done(Stats::default()) }).await;
                serving.linger(quiet, most).await;
                return Ok(());
            }
            if let Err(error) = serving.carry_out(packet, &answers).await {
                return Err(serving.give_up(error).await);
            }
        }
    }

    /// Does what is ordered. An error is a broken rule; what merely fails is answered.
    async fn carry_out(&mut self, packet: Packet<Order>, answers: &mpsc::Sender<Report>) -> Result<(), ControlError> {
        let Packet { message: Order { number, socket, what }, descriptors, lost_descriptors } = packet;
        if descriptors.len() != what.descriptors() && !lost_descriptors {
            return Err(ControlError::Descriptors);
        }
        let outcome = match what {
            What::Open if self.sockets.contains_key(&socket) => return Err(ControlError::Contradiction),
            What::Open => match opened(descriptors) {
                Ok((listener, policy)) => {
                    let dialer = Arc::clone(&self.dialer);
                    let listening = Listening::start(listener, policy, dialer, &self.shares, self.journal.clone());
                    let stats = listening.stats();
                    self.sockets.insert(socket, listening);
                    Outcome::Done(stats)
                }
                Err(error) => Outcome::Refused(error.to_string()),
            },
            What::Stats => match self.sockets.get(&socket) {
                Some(listening) => Outcome::Done(listening.stats()),
                None => Outcome::Refused("no such socket".into()),
            },
            // Taken before it comes here.
            What::LetGo { .. } => return Err(ControlError::Contradiction),
            What::Close => match self.sockets.remove(&socket) {
                Some(listening) => {
                    let answers = answers.clone();
                    // Its connections end in their own time, and the next order need not wait for them.
                    tokio::spawn(async move {
                        let outcome = Outcome::Done(listening.close().await);
                        // The process ends when nobody takes answers.
                        let _ = answers.send(Report::Answer { number, outcome }).await;
                    });
                    return Ok(());
                }
                None => Outcome::Refused("no such socket".into()),
            },
        };
        // As above.
        let _ = answers.send(Report::Answer { number, outcome }).await;
        Ok(())
    }

    /// Serves on, for clients alone.
    async fn linger(&self, quiet: Duration, most: Duration) {
        let end = Instant::now() + most;
        let mut last_open = Instant::now();
        while Instant::now() < end && last_open.elapsed() < quiet {
            tokio::time::sleep(LOOK.min(quiet)).await;
            if self.sockets.values().any(|listening| listening.stats().active > 0) {
                last_open = Instant::now();
            }
        }
    }

    /// Says why the process ends, if it can still be said.
    async fn give_up(&self, error: ControlError) -> io::Error {
        let reason = std::error::Error::source(&error).map_or(error.to_string(), |source| format!("{error}: {source}"));
        let note = Report::Note(Record::warning("", "proxy_ends", &reason));
        // The socket may be the very thing that failed.
        let _ = tokio::time::timeout(LAST_LINE, self.control.send(&note, &[])).await;
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// The listener and the policy of an order to open.
fn opened(descriptors: Vec<OwnedFd>) -> io::Result<(UnixListener, Policy)> {
    let mut descriptors = descriptors.into_iter();
    let (Some(listener), Some(policy)) = (descriptors.next(), descriptors.next()) else {
        return Err(io::Error::other("the proxy has no descriptors left"));
    };
    let listens = sockopt::socket_domain(&listener)? == AddressFamily::UNIX
        && sockopt::socket_type(&listener)? == SocketType::STREAM
        && sockopt::socket_acceptconn(&listener)?;
    if !listens {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the descriptor is no listening unix socket"));
    }
    let policy = read_policy(policy)?;
    let listener = StdUnixListener::from(listener);
    listener.set_nonblocking(true)?;
    Ok((UnixListener::from_std(listener)?, policy))
}

/// Sends answers, and records when there is no answer to send. Ends when the socket fails.
async fn report(control: Arc<Control>, mut answers: mpsc::Receiver<Report>, mut relay: Relay) {
    loop {
        let report = tokio::select! {
            biased;
            Some(answer) = answers.recv() => answer,
            record = relay.next() => Report::Note(record),
        };
        if control.send(&report, &[]).await.is_err() {
            return;
        }
    }
}
