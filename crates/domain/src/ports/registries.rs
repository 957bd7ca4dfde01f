//! What package registries say of a package.

use super::PortFuture;
use crate::declared::PackageSpec;

/// What a registry said of a spec.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// Whether there is a package of that name; `None` when the registry could not be asked.
    pub exists: Option<bool>,
    /// The version that is installed when none is asked for.
    pub latest: Option<String>,
    /// The exact version that the spec pins, as the registry spells it; absent when the spec pins none, or none that is
    /// published.
    pub version: Option<String>,
    /// The version that the spec would install now, whether it pins one, gives a range, names a tag or says nothing.
    pub fitting: Option<String>,
    /// One safe sentence, without host names and credentials: why the registry could not be asked, or why nothing that is
    /// published fits.
    pub error: Option<String>,
}

impl Checked {
    /// The registry could not be asked.
    pub fn unasked(why: impl Into<String>) -> Self {
        Self { error: Some(why.into()), ..Self::default() }
    }

    /// There is no package of that name.
    pub fn unknown() -> Self {
        Self { exists: Some(false), ..Self::default() }
    }
}

/// The registries that builds install from.
pub trait Registries: Send + Sync {
    /// Asks the manager's registry about a spec. Ends in bounded time, and never fails: what went wrong is part of the answer.
    fn check<'a>(&'a self, spec: &'a PackageSpec) -> PortFuture<'a, Checked>;
}
