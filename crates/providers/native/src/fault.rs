//! From what the kernel says to what a caller is told: the details go to the log, the caller gets a safe sentence.

use std::error::Error;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use stead_domain::ports::ProviderError;
use stead_sandbox::{LaunchError, Step};

/// A fault of this machine that may pass: logged with its path, told without it.
pub(crate) fn failed<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> ProviderError {
    let path = path.to_path_buf();
    move |error| {
        let error = error.into();
        tracing::error!(path = %path.display(), %error, "could not {action}");
        ProviderError::passing("native_failed", format!("the machine could not {action}: {}", error.kind()))
    }
}

/// A fault of a control group.
pub(crate) fn cgroup_failed(error: stead_sandbox::cgroup::CgroupError) -> ProviderError {
    tracing::error!(error = chain(&error), "control group");
    ProviderError::passing("native_failed", "the machine could not manage a control group")
}

/// A task of ours panicked, so what it did is not known.
pub(crate) fn lost(error: tokio::task::JoinError) -> ProviderError {
    tracing::error!(%error, "a task of the native provider ended early");
    ProviderError::passing("native_interrupted", "the operation was interrupted and its outcome is not known")
}

/// Why there is no sandbox.
pub(crate) fn launch_failed(error: LaunchError) -> ProviderError {
    tracing::error!(error = chain(&error), "could not launch a sandbox");
    match error {
        LaunchError::RequiresRoot => ProviderError::permanent(
            "native_requires_root",
            "sandboxes with user ids of their own need a service that is root",
        ),
        LaunchError::Plan(_) | LaunchError::Handover(_) => {
            ProviderError::permanent("sandbox_plan", "the sandbox was described in a way that cannot be made")
        }
        LaunchError::Failed(failure) => {
            let missing = Some(Errno::NOENT.raw_os_error());
            let full = [Errno::NOMEM, Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOSPC, Errno::BUSY, Errno::INTR];
            if failure.step == Step::Source && failure.errno == missing {
                return ProviderError::permanent(
                    "mount_missing",
                    "something that is mounted here does not exist any more",
                );
            }
            let message = format!("making the sandbox failed at {:?}: {}", failure.step, failure.message);
            if failure.errno.is_none_or(|number| full.iter().any(|errno| errno.raw_os_error() == number)) {
                ProviderError::passing("sandbox_failed", message)
            } else {
                ProviderError::permanent("sandbox_failed", message)
            }
        }
        LaunchError::Io { .. } | LaunchError::Ended(_) | LaunchError::Deadline => {
            ProviderError::passing("sandbox_failed", "the sandbox did not start")
        }
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
