//! Confining a helper process of the service that keeps the host's network: what it is told by strangers must not be worth
//! taking it over for.
//!
//! Order, which matters: what may be read is opened as whoever started the helper, then the limits, the capabilities that lock
//! others out, the user, Landlock, and the system call filter last, because it forbids most of what comes before it.

use std::fs;
use std::io;
use std::path::Path;

use landlock::{
    Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, Scope,
};
use rustix::process::{DumpableBehavior, Gid, Resource, Uid};

use crate::capabilities;
use crate::launcher::landlock::{RULES, status_of};
use crate::launcher::limits::lower;
use crate::message::{AtStep, Failure, LandlockStatus, Step, refuse};
use crate::seccomp;

/// What a helper process keeps.
#[derive(Debug, Clone, Copy)]
pub struct Confinement<'a> {
    /// Host user and group it becomes, without any other group; needs root. `None`: it stays who it is.
    pub user: Option<u32>,
    /// Files and directories (with all beneath) that may be read, followed if they are links. Those that do not exist are passed
    /// over. A file that is replaced later by another of its name is another file; name its directory where that happens.
    pub readable: &'a [&'a Path],
    /// The most descriptors it may have.
    pub open_files: u64,
}

/// Confines this process for good. After it the process can use descriptors it holds, make internet connections, read what it
/// was left and start threads. It cannot write or make files, execute or start another process, signal, trace or look at one,
/// make local sockets or namespaces, listen for connections but at sockets handed to it, or get any capability or user back.
///
/// What Landlock adds to the filter and to ordinary permissions is that nothing else can be read; the answer says how much of it
/// this kernel took.
///
/// # Errors
/// When the process has more than one thread (the others would not be confined), or the kernel refuses a step. The process must
/// then end: some steps may have been taken.
pub fn confine(confinement: &Confinement<'_>) -> Result<LandlockStatus, Failure> {
    let threads = fs::read_dir("/proc/self/task").at(Step::Privileges, "threads")?.count();
    if threads != 1 {
        return Err(refuse(
            Step::Privileges,
            "threads",
            format!("{threads} are running, and only one could be confined"),
        ));
    }
    let rules = rules(confinement.readable)?;
    let filter = seccomp::compile_for_helper().map_err(|error| refuse(Step::Seccomp, "filter", error.to_string()))?;
    // As in a sandbox: with 0 a host that pipes cores to a program would run it when a helper crashes.
    lower(Resource::Core, 1)?;
    lower(Resource::Nofile, confinement.open_files)?;
    if capabilities::can_be_locked()? {
        capabilities::lock()?;
    }
    if let Some(id) = confinement.user {
        let (group, user) = (Gid::from_raw(id), Uid::from_raw(id));
        rustix::thread::set_thread_groups(&[]).at(Step::Privileges, "supplementary groups")?;
        rustix::thread::set_thread_res_gid(group, group, group).at(Step::Privileges, "group")?;
        rustix::thread::set_thread_res_uid(user, user, user).at(Step::Privileges, "user")?;
    }
    capabilities::clear()?;
    // After the change of user, which sets it anew.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Step::Privileges, "dumpable")?;
    rustix::thread::set_no_new_privs(true).at(Step::Privileges, "no_new_privs")?;
    let status = rules.restrict_self().map_err(|error| wrong(&error))?;
    seccomp::load(&filter).map_err(|error| refuse(Step::Seccomp, "filter", error.to_string()))?;
    Ok(status_of(&status.ruleset))
}

fn rules(readable: &[&Path]) -> Result<RulesetCreated, Failure> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(RULES))
        .map_err(|error| wrong(&error))?
        .scope(Scope::from_all(RULES))
        .map_err(|error| wrong(&error))?
        .create()
        .map_err(|error| wrong(&error))?;
    for path in readable {
        let opened = match PathFd::new(path) {
            Err(PathFdError::OpenCall { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
            outcome => outcome.map_err(|error| wrong(&error))?,
        };
        let access = if path.is_dir() { AccessFs::ReadFile | AccessFs::ReadDir } else { AccessFs::ReadFile.into() };
        rules = rules.add_rule(PathBeneath::new(opened, access)).map_err(|error| wrong(&error))?;
    }
    Ok(rules)
}

fn wrong(error: &dyn std::fmt::Display) -> Failure {
    refuse(Step::Landlock, "rules", error.to_string())
}
