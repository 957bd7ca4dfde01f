//! One end of the control socket: whole packets of JSON, with descriptors beside them.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram as StdUnixDatagram;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use crate::Policy;

/// The longest packet, in bytes; a record with every text at its longest and escaped has about 8 KiB.
const MAX_PACKET: usize = 16 * 1024;
/// The longest policy, in bytes.
const MAX_POLICY: u64 = 1024 * 1024;
/// One more than any packet has, so that one too many is seen.
const MAX_DESCRIPTORS: usize = 3;

/// The control socket failed, or the other side broke its rules.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket itself failed.
    #[error("the control socket failed")]
    Socket(#[source] io::Error),
    /// A packet longer than the other side ever sends.
    #[error("a packet on the control socket is too long")]
    TooLong,
    /// A packet that is not what this side expects.
    #[error("a packet on the control socket cannot be understood")]
    Malformed(#[source] serde_json::Error),
    /// Descriptors that do not belong to the packet, or too few of them.
    #[error("a packet on the control socket has the wrong descriptors")]
    Descriptors,
    /// An answer to nothing, or an order about an unknown socket.
    #[error("a packet on the control socket contradicts an earlier one")]
    Contradiction,
}

/// A packet with its descriptors.
#[derive(Debug)]
pub(super) struct Packet<T> {
    pub(super) message: T,
    pub(super) descriptors: Vec<OwnedFd>,
    /// The kernel could not give all descriptors, most often because this process has too many open.
    pub(super) lost_descriptors: bool,
}

/// Tokio has no type for a socket of packets with a connection; its datagram socket waits for the same events, and the calls
/// are our own.
#[derive(Debug)]
pub(super) struct Control(UnixDatagram);

impl Control {
    /// Takes one end of a SEQPACKET pair. Call it inside a Tokio runtime.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        if rustix::net::sockopt::socket_type(&socket)? != SocketType::SEQPACKET {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the control socket is not one of packets"));
        }
        let socket = StdUnixDatagram::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixDatagram::from_std(socket)?))
    }

    /// Sends one packet, whole or not at all; waits for room.
    pub(super) async fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = packet(message)?;
        self.0.async_io(Interest::WRITABLE, || Ok(send(self.0.as_fd(), &bytes, descriptors)?)).await
    }

    /// Sends one packet if there is room for it now.
    pub(super) fn try_send(&self, message: &impl Serialize) -> io::Result<()> {
        Ok(send(self.0.as_fd(), &packet(message)?, &[])?)
    }

    /// The next packet; `None` when the other side is gone.
    pub(super) async fn receive<T: DeserializeOwned>(&self) -> Result<Option<Packet<T>>, ControlError> {
        let mut bytes = vec![0; MAX_PACKET + 1];
        let received = self.0.async_io(Interest::READABLE, || Ok(receive(self.0.as_fd(), &mut bytes)?)).await;
        let (length, descriptors, flags) = match received {
            Ok((0, ..)) => return Ok(None),
            Ok(received) => received,
            // What the other side had not read when it went.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(ControlError::Socket(error)),
        };
        if length > MAX_PACKET || flags.contains(ReturnFlags::TRUNC) {
            return Err(ControlError::TooLong);
        }
        let message = serde_json::from_slice(&bytes[..length]).map_err(ControlError::Malformed)?;
        Ok(Some(Packet { message, descriptors, lost_descriptors: flags.contains(ReturnFlags::CTRUNC) }))
    }

    /// Ends the conversation for both sides.
    pub(super) fn end(&self) {
        // It may have ended already.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

fn packet(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MAX_PACKET { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(bytes) }
}

fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(|_| ())
}

fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>, ReturnFlags), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok((received.bytes, descriptors, received.flags))
}

/// The policy in a memory file, to be sent beside its listener.
pub(super) fn write_policy(policy: &Policy) -> io::Result<OwnedFd> {
    let bytes = serde_json::to_vec(policy)?;
    if bytes.len() as u64 > MAX_POLICY {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the policy is too long"));
    }
    let mut file = File::from(rustix::fs::memfd_create("egress-policy", MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Reads a policy that [`write_policy`] wrote.
pub(super) fn read_policy(file: OwnedFd) -> io::Result<Policy> {
    let mut bytes = Vec::new();
    File::from(file).take(MAX_POLICY + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_POLICY {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the policy is too long"));
    }
    Ok(serde_json::from_slice(&bytes)?)
}
