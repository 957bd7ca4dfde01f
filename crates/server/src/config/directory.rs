//! Where data lies when nobody says otherwise.

use std::path::PathBuf;

/// `/var/lib/stead` for root, else `$XDG_DATA_HOME/stead` or `~/.local/share/stead`.
pub fn default_data_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/stead");
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_DATA_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/share")));
    base.unwrap_or_else(|| PathBuf::from("/var/tmp")).join("stead")
}
