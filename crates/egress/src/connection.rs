//! One connection of a sandbox: requests one after the other, each decided anew, until a tunnel or the end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use stead_outbound::{Dialer, Host, NameRule};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::buffered::Buffered;
use crate::counters::{Counted, Counters, Traffic};
use crate::journal::{Journal, Record};
use crate::lines::{Line, Lines};
use crate::refusal::{Dialect, Failure, Refusal};
use crate::request::Request;
use crate::shares::{GroupShare, Holding, Shares};
use crate::target::Target;
use crate::{Policy, RefusalCode, forward, request, socks, tunnel};

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
/// Time for a client to take a refusal and to hang up.
const PARTING: Duration = Duration::from_secs(1);
/// What a sandbox may leave unread of a wide connection, in bytes; the default keeps a bulk download waiting for its reader.
const SEND_BUFFER: usize = 1024 * 1024;
/// What is kept of a host that a narrow connection does not read from, in bytes; the kernel itself would keep megabytes.
const NARROW_BUFFER: usize = 64 * 1024;
/// Questions of one sandbox to the resolver at once.
const QUESTIONS: usize = 12;
/// Time to wait for a turn to ask the resolver.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lines of one sandbox in the log, each minute.
const REFUSAL_LINES: u32 = 100;
const TRANSFER_LINES: u32 = 600;

pub(crate) type ClientReader = Buffered<Counted<OwnedReadHalf>>;
pub(crate) type ClientWriter = Counted<OwnedWriteHalf>;

/// What all connections of one sandbox share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) policy: Policy,
    pub(crate) dial_policy: stead_outbound::Policy,
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) counters: Arc<Counters>,
    journal: Journal,
    refusals: Lines,
    transfers: Lines,
    /// Turns to ask the resolver, which all sandboxes share: names that never answer must not take it away from the others.
    questions: Arc<Semaphore>,
    /// What it may have together with the others of its group.
    pub(crate) share: GroupShare,
}

impl Shared {
    pub(crate) fn new(policy: Policy, dialer: Arc<Dialer>, shares: &Arc<Shares>, journal: Journal) -> Self {
        let dial_policy = policy.dial_policy();
        let (refusals, transfers) = (Lines::a_minute(REFUSAL_LINES), Lines::a_minute(TRANSFER_LINES));
        let (questions, share) = (Arc::new(Semaphore::new(QUESTIONS)), shares.of_group(&policy.group));
        Self { policy, dial_policy, dialer, counters: Arc::default(), journal, refusals, transfers, questions, share }
    }

    pub(crate) async fn dial(&self, target: &Target, traffic: &Traffic) -> Result<TcpStream, Failure> {
        let (host, port) = (&target.host, target.port);
        match self.dial_policy.admit(host, port) {
            Err(_) if matches!(self.policy.names, NameRule::Hosts(_)) => return Err(RefusalCode::AnotherHost.into()),
            admitted => admitted?,
        }
        let addresses = match host {
            Host::Name(_) => {
                // The sandbox's own turn first: of its group's it gets no more than the others then.
                let turns = async {
                    let own = Arc::clone(&self.questions).acquire_owned().await.map_err(io::Error::other)?;
                    Ok::<_, io::Error>((own, self.share.question().await))
                };
                let Ok(turns) = timeout(PATIENCE, turns).await else {
                    return Err(RefusalCode::TooManyConnections.into());
                };
                self.dialer.judge_in_turn(host, port, &self.dial_policy, Box::new(turns?)).await?
            }
            Host::Literal(_) => self.dialer.judge(host, port, &self.dial_policy).await?,
        };
        let upstream = self.dialer.connect_judged(host, &addresses).await?;
        if !traffic.is_wide() {
            set_socket_recv_buffer_size(&upstream, NARROW_BUFFER).map_err(io::Error::from)?;
        }
        Ok(upstream)
    }

    /// Counts and logs a refusal; the target is absent when the request could not be understood.
    pub(crate) fn note(&self, code: RefusalCode, target: Option<&Target>) {
        let counter = if code.is_failure() { &self.counters.failed } else { &self.counters.refused };
        counter.fetch_add(1, Relaxed);
        match (code, target) {
            (RefusalCode::PortNotAllowed, Some(target)) => {
                self.counters.refuse(format!("{}:{}", target.host, target.port));
            }
            (
                RefusalCode::NameNotAllowed
                | RefusalCode::AddressLiteral
                | RefusalCode::AnotherHost
                | RefusalCode::AddressDenied,
                Some(target),
            ) => self.counters.refuse(target.host.to_string()),
            _ => {}
        }
        self.write_refusal(self.record(target, code.as_str()));
    }

    /// Writes the line of a refusal or of a fault, unless there have been too many.
    pub(crate) fn write_refusal(&self, record: Record) {
        self.write(&self.refusals, record);
    }

    /// Writes the line of a request or a tunnel that was let through, unless there have been too many.
    pub(crate) fn write_transfer(&self, record: Record) {
        self.write(&self.transfers, record);
    }

    /// A line about a request of this sandbox.
    pub(crate) fn record(&self, target: Option<&Target>, decision: &'static str) -> Record {
        let (host, port) = target.map(|target| (target.host.to_string(), target.port)).unzip();
        Record { host, port, ..Record::new(&self.policy.label, decision) }
    }

    fn write(&self, lines: &Lines, record: Record) {
        match lines.take() {
            Line::Write => {}
            Line::WriteLast => self.journal.write(Record::new(&self.policy.label, "more_is_counted_only")),
            Line::Leave => return,
        }
        self.journal.write(record);
    }
}

/// Serves a connection to its end, and keeps its room until then.
pub(crate) async fn serve(stream: UnixStream, shared: Arc<Shared>, is_wide: bool, _room: Holding) {
    let traffic = Traffic::new(Arc::clone(&shared.counters), shared.policy.limits.total_bytes, is_wide);
    let traffic = Arc::new(traffic);
    if is_wide {
        // Only speed is lost where the kernel grants less.
        let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER);
    }
    let (reader, writer) = stream.into_split();
    let mut reader = Buffered::new(Counted::new(reader, Arc::clone(&traffic)));
    let mut writer = Counted::new(writer, Arc::clone(&traffic));
    if traffic.is_exhausted() {
        return turn_away(&mut reader, &mut writer, &shared).await;
    }
    // Only who has asked something may be silent for long.
    let limits = &shared.policy.limits;
    match timeout(limits.head.min(limits.idle), reader.fill(limits.head_bytes)).await {
        Ok(Ok(1..)) => {}
        // Nothing was asked.
        _ => return,
    }
    if reader.peek().first() == Some(&socks::VERSION) {
        return socks::serve(reader, writer, &shared, &traffic).await;
    }
    loop {
        // What was read ahead belongs to the next request, so it does not count as taken.
        let taken = traffic.up() - reader.peek().len() as u64;
        let request = match read_request(&mut reader, &shared, &traffic).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(failure) => return part(failure, None, Dialect::Http, &mut reader, &mut writer, &shared).await,
        };
        match request {
            Request::Connect(target) => {
                let opened = tunnel::open(&target, &mut writer, &shared, &traffic, ESTABLISHED).await;
                return match opened {
                    Ok(upstream) => tunnel::run(&target, upstream, reader, writer, &shared, &traffic).await,
                    Err(failure) => {
                        part(failure, Some(&target), Dialect::Http, &mut reader, &mut writer, &shared).await;
                    }
                };
            }
            Request::Forward(request) => {
                let target = request.target.clone();
                match forward::run(request, taken, &mut reader, &mut writer, &shared, &traffic).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(failure) => {
                        return part(failure, Some(&target), Dialect::Http, &mut reader, &mut writer, &shared).await;
                    }
                }
            }
        }
    }
}

/// Reads one head. `None` when the client hung up, or was silent for too long, between two requests.
async fn read_request(
    reader: &mut ClientReader,
    shared: &Shared,
    traffic: &Traffic,
) -> Result<Option<Request>, Failure> {
    let limits = &shared.policy.limits;
    if traffic.is_exhausted() {
        return Err(RefusalCode::ByteLimit.into());
    }
    if reader.peek().is_empty() {
        match timeout(limits.idle, reader.fill(limits.head_bytes)).await {
            Ok(Ok(1..)) => {}
            Ok(Ok(0)) | Err(_) => return Ok(None),
            Ok(Err(error)) => return Err(error.into()),
        }
    }
    // One deadline for the whole head, so that a byte now and then does not keep it alive.
    let deadline = Instant::now() + limits.head;
    let mut seen = 0;
    loop {
        // A head ends with a line, so nothing has to be parsed again before the next line end.
        let bytes = reader.peek();
        if bytes[seen..].contains(&b'\n') || bytes.len() >= limits.head_bytes || seen == 0 {
            match request::parse(bytes)? {
                Some((_, length)) if length > limits.head_bytes => return Err(RefusalCode::HeadTooLarge.into()),
                Some((request, length)) => {
                    reader.take(length);
                    return Ok(Some(request));
                }
                None if bytes.len() >= limits.head_bytes => return Err(RefusalCode::HeadTooLarge.into()),
                None => {}
            }
        }
        seen = bytes.len();
        match timeout_at(deadline, reader.fill(limits.head_bytes)).await {
            Ok(Ok(1..)) => {}
            Ok(Ok(0)) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(RefusalCode::HeadTimeout.into()),
        }
    }
}

/// Answers a client of a sandbox that has used up its bytes in the way it speaks, which its first byte tells.
async fn turn_away(reader: &mut ClientReader, writer: &mut ClientWriter, shared: &Shared) {
    let mut first = [0];
    // One that says nothing is answered as most clients are.
    let _ = timeout(PARTING, reader.reader_mut().uncounted().read(&mut first)).await;
    let dialect = if first == [socks::VERSION] { Dialect::SocksGreeting } else { Dialect::Http };
    part(RefusalCode::ByteLimit.into(), None, dialect, reader, writer, shared).await;
}

/// Ends a connection that failed: a refusal is answered, and the client is given a moment to read the answer before
/// its unread bytes make the close look like a reset.
pub(crate) async fn part(
    failure: Failure,
    target: Option<&Target>,
    dialect: Dialect,
    reader: &mut ClientReader,
    writer: &mut ClientWriter,
    shared: &Shared,
) {
    let refusal: Refusal = match failure {
        Failure::Refused(refusal) => refusal,
        Failure::Io(error) if error.kind() == io::ErrorKind::QuotaExceeded => RefusalCode::ByteLimit.into(),
        Failure::Io(error) => {
            tracing::debug!(label = shared.policy.label, %error, "connection lost");
            return;
        }
    };
    shared.note(refusal.code, target);
    let parting = async {
        let writer = writer.uncounted();
        writer.write_all(&refusal.answer_in(dialect)).await?;
        writer.shutdown().await?;
        let mut scratch = [0; 1024];
        let reader = reader.reader_mut().uncounted();
        while reader.read(&mut scratch).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    // The client may be gone or slow; either way the connection ends here.
    let _ = timeout(PARTING, parting).await;
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use rustix::net::sockopt::socket_recv_buffer_size;

    use super::*;

    #[tokio::test]
    async fn the_kernel_keeps_little_for_a_narrow_connection() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let policy = Policy { extra_allowed: vec![address], ports: stead_outbound::PortRule::Any, ..Policy::open("t") };
        let shares = Arc::new(Shares::new(None));
        let shared = Shared::new(policy, Arc::new(Dialer::system(Vec::new())), &shares, Journal::Here);
        let target = Target::parse_authority(&address.to_string()).unwrap();
        let size = async |is_wide| {
            let traffic = Traffic::new(Arc::clone(&shared.counters), None, is_wide);
            socket_recv_buffer_size(shared.dial(&target, &traffic).await.unwrap()).unwrap()
        };
        // The kernel doubles what is asked for, to have room for its own.
        assert_eq!(size(false).await, 2 * NARROW_BUFFER);
        let ordinary = TcpStream::connect(address).await.unwrap();
        assert_eq!(size(true).await, socket_recv_buffer_size(&ordinary).unwrap(), "left to the kernel");
    }
}
