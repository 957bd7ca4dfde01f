//! What each controller is told and asked, in both versions.

use std::path::Path;

use super::files::{keyed, number, write, write_if_there};
use super::{CgroupError, CgroupStats, disks, weights};
use crate::plan::Limits;

/// Length of the accounting period for processor time, microseconds.
const PERIOD_MICROS: u64 = 100_000;

/// A controller we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Memory and temporary file systems.
    Memory,
    /// Number of processes and threads.
    Pids,
    /// Share of processor time.
    Cpu,
    /// Version 2 only: reading from and writing to disks.
    Io,
    /// Version 1 only: accounting of processor time.
    CpuAccounting,
    /// Version 1 only: holds a group still while it is killed.
    Freezer,
}

/// The two forms of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    Legacy,
    /// One hierarchy for all.
    Unified,
}

impl Controller {
    pub(super) const ALL: [Self; 6] =
        [Self::Memory, Self::Pids, Self::Cpu, Self::Io, Self::CpuAccounting, Self::Freezer];
    /// Those looked for in version 1 hierarchies. What its `blkio` bounds leaves out nearly all writes.
    pub(super) const LEGACY: [Self; 5] = [Self::Memory, Self::Pids, Self::Cpu, Self::CpuAccounting, Self::Freezer];
    /// Those looked for in the version 2 hierarchy.
    pub(super) const UNIFIED: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpu, Self::Io];
    /// Those whose bounds are soft without them.
    pub(super) const BOUNDS: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Io => "io",
            Self::CpuAccounting => "cpuacct",
            Self::Freezer => "freezer",
        }
    }

    pub(super) fn apply(self, version: Version, directory: &Path, limits: &Limits) -> Result<(), CgroupError> {
        let file = |name: &str| directory.join(name);
        match (self, version) {
            (Self::Memory, Version::Unified) => {
                write(&file("memory.max"), &limits.memory_bytes.to_string())?;
                // One process is ended, as in version 1, so that the environment and its other commands go on.
                write_if_there(&file("memory.swap.max"), "0")?;
                write_if_there(&file("memory.oom.group"), "0")
            }
            (Self::Memory, Version::Legacy) => {
                let bytes = limits.memory_bytes.to_string();
                // A group taken over may have a lower bound on both together, which must go up first.
                write_if_there(&file("memory.memsw.limit_in_bytes"), "-1")?;
                write(&file("memory.limit_in_bytes"), &bytes)?;
                write_if_there(&file("memory.memsw.limit_in_bytes"), &bytes)?;
                write_if_there(&file("memory.swappiness"), "0")
            }
            (Self::Pids, _) => write(&file("pids.max"), &limits.processes.to_string()),
            (Self::Cpu, Version::Unified) => {
                write(&file("cpu.max"), &format!("{} {PERIOD_MICROS}", quota(limits)))?;
                write_if_there(&file("cpu.weight"), &weights::SANDBOX.to_string())
            }
            (Self::Io, Version::Unified) => {
                weights::set_io(directory, weights::SANDBOX)?;
                limits.io_bytes_per_second.map_or(Ok(()), |bytes| disks::bound(directory, bytes))
            }
            (Self::Cpu, Version::Legacy) => {
                write(&file("cpu.cfs_period_us"), &PERIOD_MICROS.to_string())?;
                write(&file("cpu.cfs_quota_us"), &quota(limits).to_string())?;
                write_if_there(&file("cpu.shares"), &weights::SANDBOX_SHARES.to_string())
            }
            (Self::CpuAccounting | Self::Freezer, _) | (Self::Io, Version::Legacy) => Ok(()),
        }
    }

    pub(super) fn read(self, version: Version, directory: &Path, stats: &mut CgroupStats) {
        let file = |name: &str| directory.join(name);
        match (self, version) {
            (Self::Memory, Version::Unified) => {
                stats.memory_bytes = number(&file("memory.current"));
                stats.memory_peak_bytes = number(&file("memory.peak"));
                stats.out_of_memory_kills = keyed(&file("memory.events"), "oom_kill");
            }
            (Self::Memory, Version::Legacy) => {
                stats.memory_bytes = number(&file("memory.usage_in_bytes"));
                stats.memory_peak_bytes = number(&file("memory.max_usage_in_bytes"));
                stats.out_of_memory_kills = keyed(&file("memory.oom_control"), "oom_kill");
            }
            (Self::Pids, _) => {
                stats.processes = number(&file("pids.current"));
                stats.processes_refused = keyed(&file("pids.events"), "max");
            }
            (Self::Cpu, Version::Unified) => stats.cpu_micros = keyed(&file("cpu.stat"), "usage_usec"),
            (Self::CpuAccounting, Version::Legacy) => {
                stats.cpu_micros = number(&file("cpuacct.usage")).map(|nanos| nanos / 1000);
            }
            _ => {}
        }
    }
}

/// Processor time per period; the kernel takes no less than a millisecond.
fn quota(limits: &Limits) -> u64 {
    (limits.cpu_millis.saturating_mul(PERIOD_MICROS) / 1000).max(1000)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_version_gets_its_own_files() {
        let limits = Limits {
            memory_bytes: 1 << 27,
            processes: 64,
            cpu_millis: 1500,
            open_files: 64,
            file_size: None,
            io_bytes_per_second: None,
        };
        let cases = [
            (
                Version::Unified,
                vec![
                    ("memory.max", "134217728"),
                    ("memory.swap.max", "0"),
                    ("pids.max", "64"),
                    ("cpu.max", "150000 100000"),
                    ("cpu.weight", "100"),
                    ("io.weight", "default 100"),
                ],
            ),
            (
                Version::Legacy,
                vec![
                    ("memory.limit_in_bytes", "134217728"),
                    ("memory.memsw.limit_in_bytes", "134217728"),
                    ("pids.max", "64"),
                    ("cpu.cfs_period_us", "100000"),
                    ("cpu.cfs_quota_us", "150000"),
                    ("cpu.shares", "1024"),
                ],
            ),
        ];
        for (version, expected) in cases {
            let directory = tempfile::tempdir().unwrap();
            for (name, _) in &expected {
                fs::write(directory.path().join(name), "").unwrap();
            }
            for controller in Controller::UNIFIED {
                controller.apply(version, directory.path(), &limits).unwrap();
            }
            for (name, value) in expected {
                let written = fs::read_to_string(directory.path().join(name)).unwrap();
                assert!(written.ends_with(value), "{name}: {written}");
            }
        }
    }

    #[test]
    fn statistics_are_read_from_the_kernels_lines() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        put("memory.usage_in_bytes", "10\n");
        put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
        put("pids.events", "max 7\n");
        put("cpuacct.usage", "5000\n");
        let mut stats = CgroupStats::default();
        for controller in Controller::ALL {
            controller.read(Version::Legacy, directory.path(), &mut stats);
        }
        let expected = CgroupStats {
            memory_bytes: Some(10),
            out_of_memory_kills: Some(3),
            processes_refused: Some(7),
            cpu_micros: Some(5),
            ..CgroupStats::default()
        };
        assert_eq!(stats, expected);
    }
}
