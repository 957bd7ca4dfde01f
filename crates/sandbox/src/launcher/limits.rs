//! Resource limits: per process, and the only bounds left where control groups are missing.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::message::{AtStep, Failure, Step};
use crate::plan::Limits;

/// Sets the limits, hard and soft alike. A limit the service itself runs under is never raised. Where no control group bounds
/// memory, no single process may have more than the sandbox should have together.
pub(super) fn apply(limits: &Limits, memory_is_bounded: bool) -> Result<(), Failure> {
    if !memory_is_bounded {
        lower(Resource::Data, limits.memory_bytes)?;
    }
    // No core file, as with 0: none is that short. Where the host pipes cores to a program, it is 1 that keeps the kernel from
    // running it, as root and outside, on what crashed in here; 0 does not.
    lower(Resource::Core, 1)?;
    lower(Resource::Nofile, limits.open_files)?;
    lower(Resource::Nproc, limits.processes)?;
    // Locked memory and message queues are charged to no control group in full.
    lower(Resource::Memlock, 8 << 20)?;
    lower(Resource::Msgqueue, 819_200)?;
    lower(Resource::Sigpending, 4096)?;
    lower(Resource::Rtprio, 0)?;
    lower(Resource::Nice, 0)?;
    if let Some(bytes) = limits.file_size {
        lower(Resource::Fsize, bytes)?;
    }
    Ok(())
}

pub(crate) fn lower(resource: Resource, value: u64) -> Result<(), Failure> {
    let value = getrlimit(resource).maximum.map_or(value, |maximum| maximum.min(value));
    setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) }).at(Step::Limits, format!("{resource:?}"))
}
