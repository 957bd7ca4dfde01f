//! From what a sandbox shall be to the launcher's plan.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stead_domain::EnvironmentId;
use stead_domain::environment::{HOME, USER};
use stead_domain::ports::{Mount as VersionMount, MountSource, ProviderError, SandboxLimits};
use stead_sandbox::cgroup::{Cgroup, Controller};
use stead_sandbox::plan::{Limits, Mount, Network, Program, SandboxPlan, SystemBase, TmpfsSize, system_mounts};

use crate::fault::failed;
use crate::host::Host;
use crate::ids::RUN_ID;
use crate::run_directory::{EGRESS_DIRECTORY, EGRESS_SOCKET};

/// The runtime's C library gives long buffers back when they are freed, each time: by itself it comes to keep those of a size it has
/// seen, and there is a runtime in every idle session.
const ALLOCATOR: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=32768:glibc.malloc.trim_threshold=65536");
const HOSTNAME: &str = "stead";
/// Where the directory with the egress proxy's socket appears inside.
const EGRESS_INSIDE: &str = "/run/egress";
/// Where the forwarder inside listens; the domain's `PROXY` says it to programs.
const PROXY_LISTEN: &str = "127.0.0.1:3128";
const CA_FILE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Files of a temporary file system.
const TEMPORARY_INODES: u64 = 200_000;

/// What differs from one sandbox to the next.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Names the control group and the run directory.
    pub(crate) name: String,
    /// The range of user ids.
    pub(crate) slot: u32,
    /// Whose it is; builds have none.
    pub(crate) environment: Option<EnvironmentId>,
    /// What is mounted besides the system, in order.
    pub(crate) mounts: Vec<Mount>,
    pub(crate) limits: SandboxLimits,
    /// Whether programs may make terminals.
    pub(crate) pseudo_terminals: bool,
}

/// How far one file may pass the bound on disk before a write to it fails.
const PAST_THE_BOUND: u64 = 1 << 20;

/// The most that one file may hold, in bytes.
pub(crate) fn largest_file(limits: &SandboxLimits) -> u64 {
    limits.disk_bytes.saturating_add(PAST_THE_BOUND)
}

/// Limits as the control groups take them.
pub(crate) fn limits(host: &Host, limits: &SandboxLimits) -> Limits {
    Limits {
        memory_bytes: limits.memory_bytes,
        processes: limits.processes,
        cpu_millis: limits.cpu_millis,
        // Process 1 leaves its commands half of what it has.
        open_files: limits.open_files.saturating_mul(2),
        // The one part of the bound on disk that the kernel keeps without a quota. A file that was cut off there has passed the
        // bound, so that whoever measures afterwards sees why.
        file_size: Some(largest_file(limits)),
        io_bytes_per_second: host.config.disk_rate,
    }
}

/// Limits as the launcher takes them. Where a control group counts processes, the resource limit stays out of its way: a
/// refusal by that would be counted nowhere.
fn process_limits(host: &Host, bounds: &SandboxLimits) -> Limits {
    let counted = host.cgroups.version_of(Controller::Pids).is_some();
    let processes = if counted { bounds.processes.saturating_mul(2) } else { bounds.processes };
    Limits { processes, ..limits(host, bounds) }
}

/// The plan of a sandbox. Reads the host's layout, so it is for a blocking thread.
pub(crate) fn plan(
    host: &Host,
    shape: &Shape,
    cgroup: Cgroup,
    token_digest: &str,
    egress: bool,
) -> Result<SandboxPlan, ProviderError> {
    let base = SystemBase {
        run_uid: RUN_ID,
        run_gid: RUN_ID,
        user_name: USER,
        home: Path::new(HOME),
        hostname: HOSTNAME,
        toolchains: &host.config.toolchains,
    };
    let mut mounts = system_mounts(&base).map_err(failed("find the system directories", Path::new("/usr")))?;
    if let Some(bundle) = &host.config.ca_bundle {
        let source = bundle.canonicalize().map_err(failed("find the bundle of certificates", bundle))?;
        mounts.push(Mount::BindReadOnly { source, target: PathBuf::from(CA_FILE) });
    }
    mounts.extend(conveniences(&shape.mounts));
    mounts.extend(shape.mounts.iter().cloned());
    let mut arguments = vec!["stead-runtime".to_owned(), token_digest.to_owned()];
    arguments.extend(["--orphan-grace".to_owned(), whole_seconds(host.config.orphan_grace).to_string()]);
    if egress {
        let source = host.run.of(&shape.name).join(EGRESS_DIRECTORY);
        mounts.push(Mount::BindReadOnly { source, target: PathBuf::from(EGRESS_INSIDE) });
        arguments.extend(["--proxy".to_owned(), format!("{PROXY_LISTEN}={EGRESS_INSIDE}/{EGRESS_SOCKET}")]);
    }
    let temporary =
        |share: u64| TmpfsSize { size_bytes: (shape.limits.memory_bytes / share).max(1), inodes: TEMPORARY_INODES };
    Ok(SandboxPlan {
        hostname: HOSTNAME.to_owned(),
        ids: host.users.ids(shape.slot),
        run_uid: RUN_ID,
        run_gid: RUN_ID,
        mounts,
        temporary: temporary(2),
        shared_memory: temporary(4),
        pseudo_terminals: shape.pseudo_terminals,
        limits: process_limits(host, &shape.limits),
        cgroup: Some(cgroup),
        network: Network::Loopback,
        program: Program::Descriptor,
        arguments,
        environment: vec![(ALLOCATOR.0.to_owned(), ALLOCATOR.1.to_owned())],
        // Not the workspace, whose mode is the tenant's to change.
        working_directory: PathBuf::from("/"),
        // The runtime wants its socket as standard input, so it is bound here and handed over.
        listen: None,
    })
}

/// At least one: none means for ever to the runtime.
fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

/// What programs expect of a machine that agents work on and Debian's `/usr` lacks: `python` where there is `python3` alone, and
/// a git that trusts the projects mounted here, whose files belong to the service.
fn conveniences(mounts: &[Mount]) -> Vec<Mount> {
    let mut added = Vec::new();
    if !Path::new("/usr/bin/python").exists() && Path::new("/usr/bin/python3").exists() {
        added.push(Mount::Directory { target: PathBuf::from("/opt/stead/bin"), mode: 0o755 });
        added.push(Mount::Symlink {
            target: PathBuf::from("/opt/stead/bin/python"),
            to: PathBuf::from("/usr/bin/python3"),
        });
    }
    let trusted = mounts.iter().filter_map(|mount| match mount {
        Mount::BindReadOnly { target, .. } | Mount::OverlayReadOnly { target, .. } if target.starts_with("/env") => {
            // Slugs hold nothing that git's configuration would have to escape.
            Some(format!("[safe]\n\tdirectory = {}\n", target.display()))
        }
        _ => None,
    });
    let trusted: String = trusted.collect();
    if !trusted.is_empty() {
        let target = PathBuf::from("/etc/gitconfig");
        added.push(Mount::File { target, contents: trusted, mode: 0o644 });
    }
    added
}

/// The mounts of versions, in their order.
pub(crate) fn version_mounts(mounts: &[VersionMount]) -> impl Iterator<Item = Mount> + '_ {
    mounts.iter().map(|mount| {
        let target = PathBuf::from(&mount.target);
        match &mount.source {
            MountSource::Directory(source) => Mount::BindReadOnly { source: source.clone(), target },
            MountSource::Overlay(lowers) => Mount::OverlayReadOnly { lowers: lowers.clone(), target },
        }
    })
}
