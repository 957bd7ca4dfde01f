//! Landlock as a second line of defence: writing beneath writable mounts only, no signals and no
//! abstract sockets beyond the sandbox.
//!
//! Reading and executing are left alone: the program may come from a descriptor that lies beneath no
//! path of the sandbox, and what can be read is decided by the mounts.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};

use crate::message::{Failure, LandlockStatus, Step, refuse};
use crate::plan::SandboxPlan;

/// The newest rules asked for; older kernels take what they know.
pub(crate) const RULES: ABI = ABI::V6;

/// Restricts this process and all that follow.
pub(super) fn restrict(plan: &SandboxPlan) -> Result<LandlockStatus, Failure> {
    let wrong = |error: &dyn std::fmt::Display| refuse(Step::Landlock, "rules", error.to_string());
    let writing = AccessFs::from_write(RULES);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writing)
        .map_err(|error| wrong(&error))?
        .scope(Scope::from_all(RULES))
        .map_err(|error| wrong(&error))?
        .create()
        .map_err(|error| wrong(&error))?;
    let fixed = ["/proc", "/dev", "/tmp"].map(Path::new);
    let writable = plan.mounts.iter().filter(|mount| mount.is_writable()).map(crate::plan::Mount::target);
    for path in fixed.into_iter().chain(writable) {
        let opened = PathFd::new(path).map_err(|error| wrong(&error))?;
        let access = if path.is_dir() { writing } else { writing & AccessFs::from_file(RULES) };
        rules = rules.add_rule(PathBeneath::new(opened, access)).map_err(|error| wrong(&error))?;
    }
    let status = rules.restrict_self().map_err(|error| wrong(&error))?;
    Ok(status_of(&status.ruleset))
}

pub(crate) fn status_of(ruleset: &RulesetStatus) -> LandlockStatus {
    match ruleset {
        RulesetStatus::FullyEnforced => LandlockStatus::Full,
        RulesetStatus::PartiallyEnforced => LandlockStatus::Partial,
        RulesetStatus::NotEnforced => LandlockStatus::None,
    }
}
