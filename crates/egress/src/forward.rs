//! One plain HTTP exchange, on an upstream connection of its own.

use std::io;
use std::pin::pin;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedReadHalf;

use crate::body::{self, CopyError};
use crate::buffered::Buffered;
use crate::connection::{ClientReader, ClientWriter, Shared};
use crate::counters::Traffic;
use crate::framing::Framing;
use crate::journal::Record;
use crate::refusal::Failure;
use crate::request::Forward;
use crate::response::{self, BadResponse, Response};
use crate::splice::{self, Pipe, Socket};
use crate::{RefusalCode, framing};

/// Interim responses (100 to 199) passed on per request.
const MAX_INTERIM: usize = 16;
/// Bytes of a body that is not copied through this process.
const LARGE: u64 = 64 * 1024;

/// Carries out the request; returns whether the client's connection goes on. `taken` is what the client had sent before it.
pub(crate) async fn run(
    request: Forward,
    taken: u64,
    reader: &mut ClientReader,
    writer: &mut ClientWriter,
    shared: &Shared,
    traffic: &Traffic,
) -> Result<bool, Failure> {
    let upstream = shared.dial(&request.target, traffic).await?;
    let down = traffic.down();
    let outcome = {
        let mut exchange = pin!(exchange(&request, upstream, reader, writer, traffic));
        tokio::select! {
            outcome = &mut exchange => outcome,
            () = traffic.idle(shared.policy.limits.idle) => Err(RefusalCode::IdleTimeout.into()),
        }
    };
    match outcome {
        // Once a part of the response is out, an answer of ours would be read as more of it.
        Err(Failure::Refused(refusal)) if traffic.down() > down => {
            shared.note(refusal.code, Some(&request.target));
            Err(io::Error::from(io::ErrorKind::InvalidData).into())
        }
        Err(failure) => Err(failure),
        Ok(goes_on) => {
            let (sent, received) = (traffic.up() - taken - reader.peek().len() as u64, traffic.down() - down);
            let (sent, received) = (Some(sent), Some(received));
            shared.write_transfer(Record { sent, received, ..shared.record(Some(&request.target), "forwarded") });
            Ok(goes_on)
        }
    }
}

async fn exchange(
    request: &Forward,
    upstream: tokio::net::TcpStream,
    reader: &mut ClientReader,
    writer: &mut ClientWriter,
    traffic: &Traffic,
) -> Result<bool, Failure> {
    // The sending half is kept to the end: some servers take its close for a client that gave up.
    let (upstream_reader, mut upstream_writer) = upstream.into_split();
    let mut upstream_reader = Buffered::new(upstream_reader);
    let upload = async {
        upstream_writer.write_all(&request.head).await.map_err(CopyError::Write)?;
        body::copy(reader, &mut upstream_writer, request.body.clone()).await
    };
    let download = respond(&mut upstream_reader, writer, request, traffic);
    let (mut upload, mut download) = (pin!(upload), pin!(download));
    tokio::select! {
        uploaded = &mut upload => match uploaded {
            Ok(()) => download.await,
            // A server may answer and close before it has read the body: its answer still counts.
            Err(CopyError::Write(_)) => download.await.map(|_| false),
            Err(CopyError::Framing) => Err(RefusalCode::AmbiguousLength.into()),
            Err(CopyError::Read(error)) => Err(error.into()),
        },
        // The rest of the body would have to be read as the next request, so the connection ends.
        responded = &mut download => responded.map(|_| false),
    }
}

/// Passes the response on; returns whether it ended in a way that lets another one follow.
async fn respond(
    upstream: &mut Buffered<OwnedReadHalf>,
    writer: &mut ClientWriter,
    request: &Forward,
    traffic: &Traffic,
) -> Result<bool, Failure> {
    for _ in 0..=MAX_INTERIM {
        let Response { is_interim, mut head, body } = read_response(upstream, request.is_head).await?;
        if is_interim {
            if !request.is_old {
                head.extend_from_slice(b"\r\n");
                writer.write_all(&head).await?;
            }
            continue;
        }
        if request.is_old && matches!(body, framing::Framing::Chunked(_)) {
            return Err(RefusalCode::BadResponse.into());
        }
        let goes_on = request.keep_alive && body != Framing::UntilClose;
        head.extend_from_slice(if goes_on { b"Connection: keep-alive\r\n\r\n" } else { b"Connection: close\r\n\r\n" });
        writer.write_all(&head).await?;
        match body {
            Framing::Length(length) if length >= LARGE => deliver(upstream, writer, Some(length), traffic).await?,
            Framing::UntilClose => deliver(upstream, writer, None, traffic).await?,
            body => body::copy(upstream, writer, body).await.map_err(io::Error::from)?,
        }
        return Ok(goes_on);
    }
    Err(RefusalCode::BadResponse.into())
}

/// Passes on a body whose bytes need not be looked at, without copying what has not been read yet. No length: up to the end.
async fn deliver(
    upstream: &mut Buffered<OwnedReadHalf>,
    writer: &mut ClientWriter,
    length: Option<u64>,
    traffic: &Traffic,
) -> io::Result<()> {
    let Ok(pipe) = Pipe::new() else {
        // Out of descriptors: copying needs no more of them.
        let framing = length.map_or(Framing::UntilClose, Framing::Length);
        return Ok(body::copy(upstream, writer, framing).await?);
    };
    let at_hand = length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(usize::MAX));
    let at_hand = upstream.peek().len().min(at_hand);
    writer.write_all(&upstream.peek()[..at_hand]).await?;
    upstream.take(at_hand);
    let left = length.map_or(u64::MAX, |length| length - at_hand as u64);
    let from = Socket::Upstream((*upstream.reader_mut()).as_ref());
    let to = Socket::Client((*writer.uncounted()).as_ref());
    let moved = splice::pump(from, to, pipe, left, |count| traffic.received(count)).await?;
    if length.is_some() && moved < left { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

async fn read_response(upstream: &mut Buffered<OwnedReadHalf>, to_head: bool) -> Result<Response, Failure> {
    loop {
        match response::parse(upstream.peek(), to_head) {
            Ok(Some((response, length))) => {
                upstream.take(length);
                return Ok(response);
            }
            Ok(None) if upstream.peek().len() < response::MAX_HEAD => {}
            Ok(None) | Err(BadResponse) => return Err(RefusalCode::BadResponse.into()),
        }
        match upstream.fill(body::CHUNK).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return Err(RefusalCode::BadResponse.into()),
        }
    }
}
