//! The loopback interface of the sandbox's own network namespace, which starts down.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::message::{AtStep, Failure, Step};

/// Brings `lo` up.
pub(super) fn bring_up() -> Result<(), Failure> {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .at(Step::Network, "loopback")?;
    // SAFETY: an all-zero ifreq is a valid value of this plain C structure.
    #[expect(unsafe_code, reason = "ifreq has no constructor")]
    let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the socket is open and the request lives on this frame; the kernel reads one ifreq.
    // There is no safe wrapper of this ioctl.
    #[expect(unsafe_code, reason = "no safe wrapper of SIOCSIFFLAGS exists")]
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()).at(Step::Network, "loopback") }
}
