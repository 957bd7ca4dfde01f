//! What the kernel says of this process.

use std::fs;

/// Ticks of the kernel's accounting in a second, as it tells programs.
const TICKS: u64 = 100;

/// Reads what the kernel says; what cannot be read keeps its last value.
pub(super) fn sample() {
    if let Ok(status) = fs::read_to_string("/proc/self/status") {
        if let Some(kibibytes) = field(&status, "VmRSS:") {
            metrics::gauge!("process_resident_memory_bytes").set((kibibytes << 10) as f64);
        }
        if let Some(threads) = field(&status, "Threads:") {
            metrics::gauge!("process_threads").set(threads as f64);
        }
    }
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        // One of them is this look at them.
        metrics::gauge!("process_open_fds").set(descriptors.count().saturating_sub(1) as f64);
    }
    if let Some(ticks) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(cpu) {
        metrics::counter!("process_cpu_seconds_total").absolute(ticks / TICKS);
    }
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time in ticks: the fourteenth and fifteenth field. The second may hold spaces, and ends with a bracket.
fn cpu(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let stat = "4242 (a b) c) S 1 4242 4242 0 -1 4194560 1600 0 0 0 250 50 0 0 20 0 9 0 9000 0 0";
        assert_eq!(cpu(stat), Some(300));
        assert_eq!(cpu("nonsense"), None);
        assert_eq!(field("Name:\tx\nVmRSS:\t  2048 kB\n", "VmRSS:"), Some(2048));
        assert!(field(&fs::read_to_string("/proc/self/status").unwrap(), "Threads:").unwrap() > 0);
        assert!(cpu(&fs::read_to_string("/proc/self/stat").unwrap()).is_some());
    }
}
