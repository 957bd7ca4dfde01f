//! Settings of the host that its own fences depend on. Sessions share its kernel, so what weakens the host weakens them.

use std::fs;
use std::path::Path;

use super::Finding;
use crate::serve::OpenFiles;

const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

/// A number of the kernel's that should be at least so much, and what it means when it is less.
struct Setting {
    /// As `sysctl` names it.
    name: &'static str,
    least: i64,
    means: &'static str,
    /// Whether it matters only where all sessions have the service's own user id.
    own_user: bool,
}

const SETTINGS: [Setting; 9] = [
    Setting {
        name: "kernel.dmesg_restrict",
        least: 1,
        means: "every user of this machine can read the kernel's log; sessions cannot, for their filter refuses it",
        own_user: false,
    },
    Setting {
        name: "kernel.unprivileged_bpf_disabled",
        least: 1,
        means: "every user can load BPF programs, a large part of the kernel to attack; sessions have only their filter before it",
        own_user: false,
    },
    Setting {
        name: "kernel.kptr_restrict",
        least: 1,
        means: "the kernel may tell its addresses to every user, sessions included, which helps an attack on it",
        own_user: false,
    },
    Setting {
        name: "kernel.perf_event_paranoid",
        least: 2,
        means: "every user can observe the kernel by performance events; sessions have only their filter before it",
        own_user: false,
    },
    Setting {
        name: "kernel.randomize_va_space",
        least: 2,
        means: "programs lie at addresses that can be guessed, the server among them",
        own_user: false,
    },
    Setting {
        name: "kernel.yama.ptrace_scope",
        least: 1,
        means: "a process of the service's user can read every other one of it, should it leave its namespaces",
        own_user: true,
    },
    Setting {
        name: "fs.protected_symlinks",
        least: 1,
        means: "programs of the host can be led astray by links in /tmp",
        own_user: false,
    },
    Setting {
        name: "fs.protected_hardlinks",
        least: 1,
        means: "a user can keep a file of somebody else's by a hard link",
        own_user: false,
    },
    Setting {
        name: "fs.protected_regular",
        least: 1,
        means: "programs of the host can be made to write to files of others in /tmp",
        own_user: false,
    },
];

/// What of the host's settings bears on isolation.
pub(super) fn isolation(is_root: bool) -> Vec<Finding> {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let mut findings = vec![kernel(read("/proc/sys/kernel/osrelease"))];
    findings.extend(read(CORE_PATTERN).map(|pattern| core_pattern(&pattern)));
    let weak: Vec<&Setting> = SETTINGS
        .iter()
        .filter(|setting| !(setting.own_user && is_root))
        .filter(|setting| {
            let value = read(&format!("/proc/sys/{}", setting.name.replace('.', "/")));
            value.and_then(|value| value.parse::<i64>().ok()).is_some_and(|value| value < setting.least)
        })
        .collect();
    findings.extend(weak.iter().map(|setting| {
        Finding::partial(setting.name, setting.means, Some(format!("sysctl -w {}={}", setting.name, setting.least)))
    }));
    if weak.is_empty() {
        findings.push(Finding::good("host settings", "nothing that weakens the host's own fences"));
    } else {
        let text = "a setting made with sysctl is gone after a restart of the machine";
        let fix = "write the lines NAME=VALUE to /etc/sysctl.d/60-stead.conf; then: sysctl --system";
        findings.push(Finding::partial("host settings", text, Some(fix.to_owned())));
    }
    findings.extend(processor(Path::new(VULNERABILITIES)));
    findings
}

fn kernel(release: Option<String>) -> Finding {
    let text = "shared by the host and every session: what its faults let a program do, a session can do";
    Finding::good("kernel", format!("Linux {}, {text}; keep it up to date", release.unwrap_or_default()))
}

/// What happens when a program crashes. A pipe runs a program of the host's as its root, outside every sandbox, on what the
/// crashed one left. Sandboxes and helpers have a bound on core files that keeps the kernel from it, and the filter keeps the bound.
fn core_pattern(pattern: &str) -> Finding {
    let Some(handler) = pattern.strip_prefix('|') else {
        return Finding::good("crashes", "leave no core file in a session, and run no program of the host");
    };
    let handler = handler.split_whitespace().next().unwrap_or_default();
    let text = format!(
        "a program that crashes on this machine makes the kernel run {handler} as root; in sessions a bound on core files keeps \
         it from that, and nothing else does"
    );
    let fix = "sysctl -w kernel.core_pattern=core, and switch off what sets it (apport, systemd-coredump)";
    Finding::partial("crashes", text, Some(fix.to_owned()))
}

/// Known faults of the processor by which programs read what others keep.
fn processor(directory: &Path) -> Option<Finding> {
    let entries = fs::read_dir(directory).ok()?;
    let mut open: Vec<String> = entries
        .flatten()
        .filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| text.starts_with("Vulnerable")))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    open.sort();
    if open.is_empty() {
        return Some(Finding::good("processor", "no known fault of it is left open, as far as the kernel knows"));
    }
    let text = format!("open to {}: a program may read what others keep in memory", open.join(", "));
    let fix = "update the kernel and the processor's microcode (on a virtual machine: its host's), and see that the kernel does not boot with mitigations=off";
    Some(Finding::partial("processor", text, Some(fix.to_owned())))
}

/// Whether memory that was swapped out counts.
pub(super) fn swap() -> Vec<Finding> {
    let name = "swap";
    let in_use = fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1);
    if !in_use {
        return vec![Finding::good(name, "there is none, so memory limits cannot be passed by it")];
    }
    // Version 2 always has it; version 1 where the kernel was told to count.
    let counted = Path::new("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists()
        || !Path::new("/sys/fs/cgroup/memory").exists();
    vec![if counted {
        Finding::good(name, "what is swapped out counts towards a session's memory")
    } else {
        let text = "what is swapped out does not count towards a session's memory, so sessions can fill the swap";
        Finding::partial(name, text, Some("swapoff -a, or boot with swapaccount=1".to_owned()))
    }]
}

/// Whether as many files can be open as the configuration promises. Root raises the bound itself.
pub(super) fn open_files(verdict: OpenFiles, is_root: bool) -> Finding {
    let name = "open files";
    let fix = || Some("ulimit -Hn 65536 before the start, or LimitNOFILE=65536 in the server's unit".to_owned());
    match verdict {
        OpenFiles::Fewer(text) if !is_root => Finding::partial(name, text, fix()),
        OpenFiles::TooFew(text) if !is_root => Finding::missing(name, true, text, fix()),
        _ => Finding::good(name, "as many as the configuration promises"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Standing;
    use super::*;

    #[test]
    fn a_piped_core_pattern_names_what_would_run() {
        let piped = core_pattern("|/usr/share/apport/apport -p%p -s%s");
        assert_eq!(piped.standing, Standing::Partial);
        assert!(piped.explanation.contains("/usr/share/apport/apport as root") && piped.fix.is_some(), "{piped:?}");
        assert_eq!(core_pattern("core.%p").standing, Standing::Good);
    }

    #[test]
    fn open_faults_of_the_processor_are_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("meltdown"), "Mitigation: PTI\n").unwrap();
        assert_eq!(processor(directory.path()).unwrap().standing, Standing::Good);
        fs::write(directory.path().join("mds"), "Vulnerable: Clear CPU buffers attempted, no microcode\n").unwrap();
        assert!(processor(directory.path()).unwrap().explanation.starts_with("open to mds:"));
    }
}
