//! Limits: which there are, what was reached of them, and the one sentence that says so.
//!
//! A provider says what a sandbox reached ([`Reached`]); whoever ran something there puts the sentence together, because only
//! it knows whose limits they are ([`Holder`]) and what came of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::environment::HOME;

/// A limit that ends a turn or a build, or that something in one ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Wall-clock time.
    Time,
    /// Memory.
    Memory,
    /// What may be written to disk or into a file system in memory, in bytes or in files.
    Disk,
    /// Processes and threads.
    Processes,
    /// What may be said.
    Output,
    /// What the workspace may keep.
    Quota,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Limit; 6] = [Self::Time, Self::Memory, Self::Disk, Self::Processes, Self::Output, Self::Quota];

    /// The limit as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Processes => "processes",
            Self::Output => "output",
            Self::Quota => "quota",
        }
    }
}

/// Whose limits they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A session, with the turns that run in it.
    Session,
    /// A step of a build.
    BuildStep,
    /// An import from git, which has what a build step has.
    Import,
}

impl Holder {
    const fn name(self) -> &'static str {
        match self {
            Self::Session => "a session",
            Self::BuildStep => "a build step",
            Self::Import => "an import",
        }
    }

    /// The section of the configuration that holds its limits.
    const fn section(self) -> &'static str {
        match self {
            Self::Session => "native",
            Self::BuildStep | Self::Import => "builds",
        }
    }
}

/// A limit that was reached, with what it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// A process was ended because the memory of all was used up.
    Memory {
        /// The memory of all, in bytes.
        bytes: u64,
    },
    /// A process or thread could not be started.
    Processes {
        /// How many there may be.
        most: u64,
    },
    /// More was written to disk than may be.
    DiskBytes {
        /// What may be written, in bytes.
        bytes: u64,
    },
    /// More files were made than may be.
    DiskFiles {
        /// How many there may be.
        files: u64,
    },
    /// Directories were nested deeper than anything may be measured.
    DiskDepth,
    /// Something was written while the disk of the machine had hardly any room left.
    DiskShort {
        /// How much has to stay free, in bytes.
        reserve: u64,
    },
    /// A file system in memory has no room left.
    MemoryFull {
        /// Where it lies inside.
        place: String,
        /// What it holds, in bytes.
        bytes: u64,
    },
    /// A file system in memory takes no further file.
    MemoryFiles {
        /// Where it lies inside.
        place: String,
        /// How many files it holds.
        files: u64,
    },
    /// A file in memory was cut off where no file may be larger.
    MemoryFile {
        /// The file system in memory where it lies.
        place: String,
        /// What one file may hold, in bytes.
        bytes: u64,
    },
    /// More was said than may be.
    Output {
        /// What may be said, in bytes.
        bytes: u64,
        /// The option that changes it.
        option: &'static str,
    },
    /// It took longer than it may.
    Time {
        /// How long it may take.
        limit: Duration,
        /// Whether the caller named the limit rather than the operator.
        named: bool,
    },
}

impl Reached {
    /// Which limit it is.
    pub const fn limit(&self) -> Limit {
        match self {
            Self::Memory { .. } => Limit::Memory,
            Self::Processes { .. } => Limit::Processes,
            Self::DiskBytes { .. }
            | Self::DiskFiles { .. }
            | Self::DiskDepth
            | Self::DiskShort { .. }
            | Self::MemoryFull { .. }
            | Self::MemoryFiles { .. }
            | Self::MemoryFile { .. } => Limit::Disk,
            Self::Output { .. } => Limit::Output,
            Self::Time { .. } => Limit::Time,
        }
    }

    /// What happened, to follow the name of who did it: how much there is, and the option that changes it.
    pub fn phrase(&self, holder: Holder) -> String {
        let (who, section) = (holder.name(), holder.section());
        let given =
            |amount: String, option: &str| format!("the {amount} that this server gives {who} ({section}.{option})");
        // A build's home is of a fixed size; the others are a part of the memory.
        let grows = |place: &str| if place == HOME { String::new() } else { format!(" (a part of {section}.memory)") };
        match self {
            Self::Memory { bytes } => format!("used more memory than {}", given(size(*bytes), "memory")),
            Self::Processes { most } => format!("started more processes than {}", given(count(*most), "processes")),
            // An import's disk is bounded by what an import may be.
            Self::DiskBytes { bytes } if holder == Holder::Import => {
                format!("wrote more to disk than the {} of an import (limits.import)", size(*bytes))
            }
            Self::DiskBytes { bytes } => format!("wrote more to disk than {}", given(size(*bytes), "disk")),
            Self::DiskFiles { files } => format!("made more files than {}", given(count(*files), "disk_files")),
            Self::DiskDepth => "nested directories deeper than this server measures".to_owned(),
            Self::DiskShort { reserve } => {
                format!("wrote while less than {} were left on the server's disk (native.disk_reserve)", size(*reserve))
            }
            Self::MemoryFull { place, bytes } => {
                format!("filled {place}, which lies in memory and holds {}{}", size(*bytes), grows(place))
            }
            Self::MemoryFiles { place, files } => {
                format!("filled {place}, which lies in memory and holds {} files", count(*files))
            }
            Self::MemoryFile { place, bytes } => {
                let option =
                    if holder == Holder::Import { "limits.import".to_owned() } else { format!("{section}.disk") };
                format!("made a file in {place} larger than the {} that one file may hold ({option})", size(*bytes))
            }
            Self::Output { bytes, option } => {
                format!("said more than the {} of output that this server takes ({option})", size(*bytes))
            }
            Self::Time { limit, named: true } => format!("took longer than the {} that it was given", duration(*limit)),
            Self::Time { limit, named: false } => {
                let (whose, option) = match holder {
                    Holder::Session => ("a task", "sessions.time_limit"),
                    Holder::BuildStep => ("a build", "builds.time_limit"),
                    Holder::Import => ("an import", "git.time_limit"),
                };
                format!("took longer than the {} that this server gives {whose} ({option})", duration(*limit))
            }
        }
    }
}

/// A limit that something ran into without having been ended by it, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHit {
    /// Which limit.
    pub limit: Limit,
    /// A safe sentence.
    pub message: String,
}

/// In the largest unit that says it whole, else with one digit behind the point.
fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.iter().find(|(shift, _)| bytes >> shift << shift == bytes && bytes >> shift > 0);
    if let Some((shift, unit)) = whole {
        return format!("{} {unit}", bytes >> shift);
    }
    match units.iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} bytes"),
    }
}

/// With a comma between thousands.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn duration(limit: Duration) -> String {
    let seconds = limit.as_secs();
    let (number, unit) = match seconds {
        0 => return format!("{} milliseconds", limit.as_millis()),
        _ if seconds.is_multiple_of(3600) => (seconds / 3600, "hour"),
        _ if seconds.is_multiple_of(60) => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_amount_and_the_option_that_changes_it() {
        let said = |reached: Reached, holder| format!("it {}", reached.phrase(holder));
        let cases = [
            (
                said(Reached::Memory { bytes: 2 << 30 }, Holder::Session),
                "it used more memory than the 2 GiB that this server gives a session (native.memory)",
            ),
            (
                said(Reached::Processes { most: 1024 }, Holder::BuildStep),
                "it started more processes than the 1,024 that this server gives a build step (builds.processes)",
            ),
            (
                said(Reached::DiskFiles { files: 1_000_000 }, Holder::Session),
                "it made more files than the 1,000,000 that this server gives a session (native.disk_files)",
            ),
            (
                said(Reached::DiskBytes { bytes: 512 << 20 }, Holder::Import),
                "it wrote more to disk than the 512 MiB of an import (limits.import)",
            ),
            (
                said(Reached::MemoryFull { place: "/tmp".into(), bytes: 48 << 20 }, Holder::Session),
                "it filled /tmp, which lies in memory and holds 48 MiB (a part of native.memory)",
            ),
            (
                said(Reached::MemoryFile { place: "/tmp".into(), bytes: 64 << 20 }, Holder::BuildStep),
                "it made a file in /tmp larger than the 64 MiB that one file may hold (builds.disk)",
            ),
            (
                said(Reached::Time { limit: Duration::from_mins(30), named: false }, Holder::BuildStep),
                "it took longer than the 30 minutes that this server gives a build (builds.time_limit)",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn amounts_are_for_people() {
        let sizes = [0, 1023, 1024, 1536, (1 << 30) + (1 << 29), 96 << 20, u64::MAX].map(size);
        assert_eq!(sizes, ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "1536 MiB", "96 MiB", "16777215.9 TiB"]);
        assert_eq!([0, 999, 1000, 12_345_678].map(count), ["0", "999", "1,000", "12,345,678"]);
        let times = [1, 2, 60, 90, 7200].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(times, ["1 second", "2 seconds", "1 minute", "90 seconds", "2 hours"]);
        assert_eq!(duration(Duration::from_millis(300)), "300 milliseconds");
    }
}
