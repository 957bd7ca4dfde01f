//! A little sandbox for tests: a mount namespace with the host's `/usr`, the given mounts and nothing else of the project.
//!
//! Programs run as root without any capability, so the owner's permission bits count as they do for a build's own user.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use stead_domain::ports::{Mount, MountSource};
use stead_projects::layout::StepPlace;

/// Mounts for a session.
pub(crate) fn session_mounts(mounts: &[Mount]) -> String {
    let mut script = String::new();
    for mount in mounts {
        let options = match &mount.source {
            MountSource::Directory(directory) => format!("--bind {} ", directory.display()),
            MountSource::Overlay(lowers) => format!("-t overlay overlay -o lowerdir={} ", joined(lowers)),
        };
        mount_at(&mut script, &options, &mount.target);
        writeln!(script, "mount -o remount,bind,ro $R{}", mount.target).unwrap();
    }
    script
}

/// Mounts for a build step.
pub(crate) fn step_mounts(place: &StepPlace) -> String {
    let mut script = String::new();
    for (inside, directory) in &place.writable {
        mount_at(&mut script, &format!("--bind {} ", directory.display()), inside);
    }
    if let Some(overlay) = &place.overlay {
        let (lowers, upper, work) = (joined(&overlay.lowers), overlay.upper.display(), overlay.work.display());
        let options = format!("-t overlay overlay -o lowerdir={lowers},upperdir={upper},workdir={work} ");
        mount_at(&mut script, &options, &overlay.target);
    }
    script
}

fn mount_at(script: &mut String, options: &str, target: &str) {
    // Nested mount points exist already; making them would need a writable parent.
    writeln!(script, "[ -d $R{target} ] || mkdir -p $R{target}; mount {options} $R{target}").unwrap();
}

fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":")
}

/// Runs a program with the mounts of `mounts` (a script) and exactly the environment `env`.
pub(crate) fn run<'a>(
    root: &Path,
    mounts: &str,
    env: impl IntoIterator<Item = (&'a String, &'a String)>,
    directory: &str,
    argv: &[&str],
) -> Output {
    // chroot needs a capability, so it comes before they are dropped.
    let script = format!(
        "set -e; R={root}; mkdir -p $R; mount -t tmpfs none $R; cd $R; mkdir usr etc proc dev tmp\n\
         ln -s usr/bin bin; ln -s usr/lib lib; ln -s usr/lib64 lib64; chmod 1777 tmp\n\
         for d in usr etc proc dev; do mount --rbind /$d $R/$d; done\n{mounts}\
         exec chroot $R setpriv --bounding-set=-all --inh-caps=-all -- env -i --chdir=\"$D\" \"$@\"\n",
        root = root.display(),
    );
    Command::new("unshare")
        .args(["--mount", "--net", "--propagation", "private", "bash", "-c", &script, "bash"])
        .args(env.into_iter().map(|(name, value)| format!("{name}={value}")))
        .args(argv)
        .env("D", directory)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}
