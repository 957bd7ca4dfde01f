//! What is written down of an environment and of a launch.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stead_domain::ports::SandboxLimits;
use stead_domain::{EnvironmentId, OperationId, WorkspaceId};
use stead_egress::Policy;

/// An environment that exists. Written before anything of it is started, and on disk before a caller hears of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) environment: EnvironmentId,
    pub(crate) workspace: WorkspaceId,
    /// Its slot, until its files are gone.
    pub(crate) slot: u32,
    /// The operation that made it.
    pub(crate) created_by: OperationId,
}

/// A sandbox that was launched. Lies in the run directory: it means nothing after the machine was started again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaunchRecord {
    /// The operation that launched or last confirmed it; builds have none.
    pub(crate) operation: Option<OperationId>,
    /// What it was launched with, as text.
    pub(crate) fingerprint: String,
    /// The kernel's id of this run of the machine: process numbers mean something in it alone.
    pub(crate) boot: String,
    /// Host pid of process 1.
    pub(crate) pid: i32,
    /// When that was started, in ticks since boot.
    pub(crate) start_time_ticks: u64,
    /// The control group.
    pub(crate) cgroup: String,
    /// The runtime's socket.
    pub(crate) socket: PathBuf,
    /// Proves to the runtime who dials. Readable by the service alone.
    pub(crate) token: String,
    /// Whose it is; builds, which nobody takes over, have none.
    #[serde(default)]
    pub(crate) environment: Option<EnvironmentId>,
    /// What it may have. What was launched before this was written down is not taken over.
    #[serde(default)]
    pub(crate) limits: Option<SandboxLimits>,
    /// What it may reach, for the next service's proxy; `None` is nothing.
    #[serde(default)]
    pub(crate) egress: Option<Policy>,
}

impl LaunchRecord {
    /// Where it lies in the directory of a sandbox.
    pub(crate) const FILE: &'static str = "launch.json";

    /// What callers may keep: no token.
    pub(crate) fn handle(&self) -> String {
        serde_json::json!({
            "pid": self.pid,
            "start_time_ticks": self.start_time_ticks,
            "cgroup": self.cgroup,
            "socket": self.socket,
            "operation": self.operation,
        })
        .to_string()
    }

    /// Whether its process 1 is still there.
    pub(crate) fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
            && stead_sandbox::identity::is_alive(self.pid, self.start_time_ticks)
    }
}

/// The kernel's id of this run of the machine.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The directories of environments.
#[derive(Debug)]
pub(crate) struct Files {
    directory: PathBuf,
}

impl Files {
    pub(crate) const RECORD: &'static str = "record.json";

    /// Opens the directory, making it when it is missing.
    pub(crate) fn open(directory: PathBuf) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Self { directory })
    }

    /// The directory of one environment.
    pub(crate) fn of(&self, environment: EnvironmentId) -> PathBuf {
        self.directory.join(environment.hex())
    }

    /// What becomes `/workspace`.
    pub(crate) fn work(&self, environment: EnvironmentId) -> PathBuf {
        self.of(environment).join("work")
    }

    /// What becomes the home directory.
    pub(crate) fn home(&self, environment: EnvironmentId) -> PathBuf {
        self.of(environment).join("home")
    }

    /// The record of an environment; `None` when it does not exist.
    pub(crate) fn read(&self, environment: EnvironmentId) -> io::Result<Option<Record>> {
        read_json(&self.of(environment).join(Self::RECORD))
    }

    /// Makes the directories, owned by the host user `owner`, or by the service without one, and then the record.
    pub(crate) fn make(&self, record: &Record, owner: Option<u32>) -> io::Result<()> {
        let top = self.of(record.environment);
        DirBuilder::new().recursive(true).mode(0o700).create(&top)?;
        for directory in [self.work(record.environment), self.home(record.environment)] {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            if owner.is_some() {
                std::os::unix::fs::lchown(&directory, owner, owner)?;
            }
        }
        write_json(&top, Self::RECORD, record)
    }

    /// Makes sure that an environment survives a loss of power.
    pub(crate) fn sync(&self, environment: EnvironmentId) -> io::Result<()> {
        let top = self.of(environment);
        for path in [&top.join(Self::RECORD), &top, &self.directory] {
            File::open(path)?.sync_all()?;
        }
        Ok(())
    }

    /// Removes the record: from here on the environment does not exist.
    pub(crate) fn forget(&self, environment: EnvironmentId) -> io::Result<()> {
        match fs::remove_file(self.of(environment).join(Self::RECORD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Every environment that has a directory, whether or not it has a record.
    pub(crate) fn list(&self) -> io::Result<Vec<EnvironmentId>> {
        let entries = fs::read_dir(&self.directory)?;
        Ok(entries.flatten().filter_map(|entry| environment_of(entry.file_name().to_str()?)).collect())
    }
}

/// Whose a directory of that name is.
pub(crate) fn environment_of(directory: &str) -> Option<EnvironmentId> {
    format!("{}_{directory}", EnvironmentId::PREFIX).parse().ok()
}

/// Reads a file; `None` when it is missing or was never finished.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file that appears whole or not at all, readable by the service alone.
pub(crate) fn write_json(directory: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let temporary = directory.join(format!(".{name}"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    fs::rename(&temporary, directory.join(name))
}
