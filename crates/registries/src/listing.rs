//! What a registry lists of one package, and a spec held against it.

use stead_domain::declared::PackageSpec;
use stead_domain::ports::Checked;

use crate::apt::AptPackage;
use crate::node::NodePackage;
use crate::python::PythonPackage;

/// A registry's answer, read.
#[derive(Debug)]
pub(crate) enum Listing {
    /// There is no such package.
    Absent,
    Python(PythonPackage),
    Node(NodePackage),
    Apt(AptPackage),
}

/// What a spec asks for, as far as a listing has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether the spec names one version exactly.
    pub(crate) pinned: bool,
    /// The version that it would install.
    pub(crate) fitting: Option<String>,
}

impl Listing {
    /// Holds a spec of this package against what is listed.
    pub(crate) fn check(&self, spec: &PackageSpec) -> Checked {
        let (latest, found) = match self {
            Self::Absent => return Checked::unknown(),
            Self::Python(package) => (package.latest(), package.find(spec)),
            Self::Node(package) => (package.latest(), package.find(spec)),
            Self::Apt(package) if package.is_virtual() => {
                let error = Some("no package has this name by itself; name one of those that provide it".to_owned());
                return Checked { error, ..Checked::unknown() };
            }
            Self::Apt(package) => (package.latest(), Some(package.find(spec))),
        };
        let exists = Some(true);
        match found {
            None => Checked { exists, latest, error: Some(no_version(spec)), ..Checked::default() },
            Some(Found { pinned, fitting }) => Checked {
                exists,
                latest,
                version: fitting.clone().filter(|_| pinned),
                error: fitting.is_none().then(|| nothing_fits(spec)),
                fitting,
            },
        }
    }
}

fn no_version(spec: &PackageSpec) -> String {
    format!("`{}` is no version or range of {}", spec.constraint(), spec.manager().as_str())
}

fn nothing_fits(spec: &PackageSpec) -> String {
    match spec.constraint() {
        "" => "nothing of this package is published that could be installed".to_owned(),
        constraint => format!("no published version fits `{constraint}`"),
    }
}
