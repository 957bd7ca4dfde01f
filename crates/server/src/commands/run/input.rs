//! Standard input, which does not travel.

use std::io::{self, IsTerminal};

/// Whether somebody wrote something for the command to read. A terminal and an empty pipe do not say so.
pub(super) fn is_waiting() -> bool {
    let input = io::stdin();
    !input.is_terminal() && rustix::io::ioctl_fionread(&input).is_ok_and(|bytes| bytes > 0)
}
