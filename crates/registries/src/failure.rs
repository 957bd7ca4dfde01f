//! Why a registry could not be asked, in sentences that may be shown to anybody.

use reqwest::StatusCode;

/// A registry was not asked, or did not say. The messages name no host, no path of this machine and no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("this server knows no registry for packages of this kind")]
    Unconfigured,
    #[error("the address of the registry may not be reached from this server")]
    Denied,
    #[error("the registry does not answer")]
    Unreachable,
    #[error("the registry did not answer in time")]
    TimedOut,
    #[error("too many packages are being checked; ask again in a moment")]
    Busy,
    #[error("the registry does not accept this server's credentials")]
    Unauthorized,
    #[error("the registry answered with status {}", .status.as_u16())]
    Refused { status: StatusCode },
    #[error("the registry's answer leads nowhere")]
    Redirected,
    #[error("the registry's answer is too large")]
    TooLarge,
    #[error("the registry's answer cannot be read")]
    Unreadable,
    #[error("apt cannot be asked on this server")]
    NoApt,
    #[error("this server has no package lists to look into")]
    NoLists,
}
