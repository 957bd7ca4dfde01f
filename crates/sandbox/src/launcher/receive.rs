//! The launcher's end of the socket to the server.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

use super::Placed;
use crate::message::{AtStep, Envelope, Failure, Report, Step, refuse};
use crate::plan::{FIRST_WORKING_DESCRIPTOR, Ids, SandboxPlan};

/// The socket to the server, at a number the program's descriptors cannot collide with.
pub(crate) struct Channel {
    socket: OwnedFd,
}

/// What the server sent.
pub(crate) struct Received {
    pub(crate) plan: SandboxPlan,
    pub(crate) program: Option<OwnedFd>,
    pub(crate) descriptors: Vec<Placed>,
}

impl Channel {
    /// The server passes the socket as standard input: the one descriptor that can be handed to a
    /// child without a moment in which another child could inherit it.
    pub(crate) fn from_standard_input() -> io::Result<Self> {
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_WORKING_DESCRIPTOR)?;
        let nothing = File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing)?;
        Ok(Self { socket })
    }

    /// Sends a report. A server that is gone cannot be told anything, so errors are dropped; it will
    /// find the sandbox by its control group when it is back.
    pub(crate) fn send(&self, report: &Report) {
        if let Ok(text) = serde_json::to_vec(report) {
            let _ = rustix::net::send(&self.socket, &text, SendFlags::NOSIGNAL);
        }
    }
}

/// Receives the envelope and its descriptors.
pub(crate) fn receive(channel: &Channel) -> Result<Received, Failure> {
    let mut byte = [0_u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(&channel.socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
        .at(Step::Receive, "plan")?;
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors = descriptors.next().into_iter().flatten();
    let missing = || refuse(Step::Receive, "plan", "a descriptor is missing");

    let mut file = File::from(descriptors.next().ok_or_else(missing)?);
    let mut text = Vec::new();
    file.rewind().at(Step::Receive, "plan")?;
    file.read_to_end(&mut text).at(Step::Receive, "plan")?;
    let envelope: Envelope =
        serde_json::from_slice(&text).map_err(|error| refuse(Step::Receive, "plan", error.to_string()))?;
    envelope.plan.validate().map_err(|error| refuse(Step::Receive, error.field, error.reason))?;

    if envelope.plan.ids == Ids::Own && rustix::process::geteuid().is_root() {
        return Err(refuse(Step::Receive, "ids", "the launcher's own user is the host's root"));
    }

    let program = if envelope.program_passed { Some(descriptors.next().ok_or_else(missing)?) } else { None };
    let mut placed = Vec::new();
    for target in envelope.descriptor_targets {
        placed.push(Placed { descriptor: descriptors.next().ok_or_else(missing)?, target });
    }
    Ok(Received { plan: envelope.plan, program, descriptors: placed })
}
