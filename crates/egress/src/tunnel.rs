//! `CONNECT`, of HTTP and of SOCKS: a tunnel to a judged address, opened by a ClientHello where the policy lists exact names.

use tokio::io::{AsyncWriteExt, copy_bidirectional_with_sizes, join};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::body::CHUNK;
use crate::client_hello::{self, Reading};
use crate::connection::{ClientReader, ClientWriter, Shared};
use crate::counters::Traffic;
use crate::journal::Record;
use crate::refusal::Failure;
use crate::splice::{self, Pipe, Socket};
use crate::target::Target;
use crate::{Hello, Host, RefusalCode};

/// A fatal TLS alert, `unrecognized_name`: after the 200 it is the only refusal that the client can read.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Connects, and tells the client so with `established`. A refusal from here is still an answer to its request.
pub(crate) async fn open(
    target: &Target,
    writer: &mut ClientWriter,
    shared: &Shared,
    traffic: &Traffic,
    established: &[u8],
) -> Result<TcpStream, Failure> {
    let upstream = shared.dial(target, traffic).await?;
    writer.write_all(established).await?;
    Ok(upstream)
}

/// Moves bytes both ways until both sides are done, one fails, or nothing moves for the idle time.
pub(crate) async fn run(
    target: &Target,
    mut upstream: TcpStream,
    mut reader: ClientReader,
    mut writer: ClientWriter,
    shared: &Shared,
    traffic: &Traffic,
) {
    // An address has no name to show; the operator exempts each by itself.
    if shared.policy.requires_server_name()
        && matches!(target.host, Host::Name(_))
        && let Err(code) = check_server_name(target, &mut reader, shared).await
    {
        shared.note(code, Some(target));
        // Nothing is lost when the client is already gone.
        let _ = writer.write_all(&UNRECOGNIZED_NAME).await;
        let _ = writer.shutdown().await;
        return;
    }
    let (mut reader, early) = reader.into_parts();
    let copy = async {
        upstream.write_all(&early).await?;
        drop(early);
        if let (Ok(up), Ok(down)) = (Pipe::new(), Pipe::new()) {
            let client = Socket::Client((*reader.uncounted()).as_ref());
            let upstream = Socket::Upstream(&upstream);
            let up = async {
                splice::pump(client, upstream, up, u64::MAX, |count| traffic.sent(count)).await?;
                upstream.finish()
            };
            let down = async {
                splice::pump(upstream, client, down, u64::MAX, |count| traffic.received(count)).await?;
                client.finish()
            };
            tokio::try_join!(up, down).map(|_| ())
        } else {
            // Out of descriptors: copying needs no more of them.
            let mut client = join(reader, writer);
            copy_bidirectional_with_sizes(&mut client, &mut upstream, CHUNK, CHUNK).await.map(|_| ())
        }
    };
    let ended = tokio::select! {
        copied = copy => if copied.is_ok() { "closed" } else { "lost" },
        () = traffic.idle(shared.policy.limits.idle) => "idle",
    };
    let ended = if traffic.is_exhausted() { "byte_limit" } else { ended };
    shared.write_transfer(Record {
        ended: Some(ended.into()),
        sent: Some(traffic.up()),
        received: Some(traffic.down()),
        ..shared.record(Some(target), "tunnelled")
    });
}

/// Reads the ClientHello without taking it. Nothing has been sent upstream when this refuses.
async fn check_server_name(target: &Target, reader: &mut ClientReader, shared: &Shared) -> Result<(), RefusalCode> {
    let deadline = Instant::now() + shared.policy.limits.head;
    let mut needed = 0;
    loop {
        if reader.peek().len() >= needed {
            match client_hello::read(reader.peek()) {
                Ok(Reading::Whole(hello)) => return judge(&hello, &target.host),
                Ok(Reading::Needs(bytes)) => needed = bytes,
                Err(_) => return Err(RefusalCode::ServerNameMissing),
            }
        }
        match timeout_at(deadline, reader.fill(CHUNK)).await {
            Ok(Ok(1..)) => {}
            Ok(_) => return Err(RefusalCode::ServerNameMissing),
            Err(_) => return Err(RefusalCode::HeadTimeout),
        }
    }
}

fn judge(hello: &Hello, host: &Host) -> Result<(), RefusalCode> {
    if hello.encrypted {
        return Err(RefusalCode::ServerNameEncrypted);
    }
    match (&hello.server_name, host) {
        (None, _) => Err(RefusalCode::ServerNameMissing),
        (Some(name), Host::Name(asked)) if name == asked => Ok(()),
        (Some(_), _) => Err(RefusalCode::ServerNameMismatch),
    }
}
