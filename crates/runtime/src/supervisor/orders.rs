//! What process 1 and a supervisor say to each other: small JSON packets over a pair of sockets that keeps their borders.
//!
//! Ordering: the first packet goes to the supervisor and carries the descriptors of the [`Plan`]; the plan itself, which may be long,
//! is in a memory file among them. Then the supervisor answers `Started` or `Failed`, and after `Started` in the end `Exited`.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stead_link::{ExecRequest, ExitReason};

const MAX_PACKET: usize = 16 * 1024;
/// Plan, three standard streams, script.
const MAX_DESCRIPTORS: usize = 5;

/// What a supervisor needs to begin.
pub(crate) struct Plan {
    /// What to run.
    pub(crate) request: ExecRequest,
    /// Its standard input, output and error.
    pub(crate) streams: [OwnedFd; 3],
    /// The script, when the program is one.
    pub(crate) script: Option<OwnedFd>,
}

/// From process 1.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// End the whole tree and report this reason.
    Kill(ExitReason),
    /// Send a signal to the command's process group.
    Signal(i32),
}

/// From the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command runs under this process id.
    Started(u32),
    /// It could not be started.
    Failed(String),
    /// Its main process has ended; after a kill, everything has.
    Exited(Ended),
}

/// How the main process ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) reason: ExitReason,
    pub(crate) cpu_ms: Option<u64>,
    pub(crate) survivors: u32,
}

/// A memory file with these bytes, to be read from its start.
pub(crate) fn memory_file(name: &str, bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Sends the plan; the descriptors stay the caller's to close.
pub(crate) fn send_plan(socket: BorrowedFd<'_>, plan: &Plan) -> std::io::Result<()> {
    let file = memory_file("stead-plan", &serde_json::to_vec(&plan.request)?)?;
    let mut descriptors = vec![file.as_fd()];
    descriptors.extend(plan.streams.iter().map(AsFd::as_fd));
    descriptors.extend(plan.script.iter().map(AsFd::as_fd));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(std::io::Error::other("more descriptors than a plan has"));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(b"plan")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the plan; waits for it.
pub(crate) fn receive_plan(socket: BorrowedFd<'_>) -> std::io::Result<Plan> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 8];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten();
    let mut next = || descriptors.next().ok_or_else(|| std::io::Error::other("a plan has at least four descriptors"));
    let mut text = Vec::new();
    File::from(next()?).read_to_end(&mut text)?;
    Ok(Plan { request: serde_json::from_slice(&text)?, streams: [next()?, next()?, next()?], script: next().ok() })
}

/// Sends a report. Process 1 being gone is not an error here: its end is seen where orders are received.
pub(crate) fn report(socket: BorrowedFd<'_>, report: &Report) -> std::io::Result<()> {
    let bytes = serde_json::to_vec(report)?;
    match rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL) {
        Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sends an order without ever waiting: code of the environment may have stopped the supervisor. An order that does not
/// get through is made up for by the deadline that process 1 keeps for each command.
pub(crate) fn order(socket: BorrowedFd<'_>, order: &Order) {
    if let Ok(bytes) = serde_json::to_vec(order) {
        let _ = rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

/// What receiving found.
pub(crate) enum Received<T> {
    Packet(T),
    /// Nothing at the moment.
    Nothing,
    /// The peer is gone.
    End,
}

/// Receives one packet without waiting. One that cannot be read counts as the peer's end.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> Received<T> {
    let mut bytes = vec![0; MAX_PACKET];
    match rustix::net::recv(socket, bytes.as_mut_slice(), RecvFlags::DONTWAIT) {
        Ok((0, _)) => Received::End,
        Ok((length, _)) => serde_json::from_slice(&bytes[..length]).map_or(Received::End, Received::Packet),
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(_) => Received::End,
    }
}
