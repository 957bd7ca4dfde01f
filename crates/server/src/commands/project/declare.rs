//! What a project declares besides its manifests.

use clap::Args;
use serde_json::{Map, Value};

use super::super::network::BuildNetwork;
use crate::client::{Failure, Runtimes};

/// Options of `project create` and `project set`. Each list that is given replaces the one that was declared.
#[derive(Debug, Args)]
pub(crate) struct Declare {
    /// A Python package that builds install, such as 'requests>=2.31'; give it once for each, and '' for none. Those
    /// that are given replace all of its kind that were declared before
    #[arg(long, value_name = "SPEC", value_parser = spec)]
    pip: Vec<String>,
    /// A Node package, such as sharp@^0.33
    #[arg(long, value_name = "SPEC", value_parser = spec)]
    npm: Vec<String>,
    /// A system package, such as jq
    #[arg(long, value_name = "SPEC", value_parser = spec)]
    apt: Vec<String>,
    /// The minor of the Python interpreter, such as 3.12; '' for the server's default
    #[arg(long, value_name = "MINOR")]
    python: Option<String>,
    #[command(flatten)]
    network: BuildNetwork,
}

/// What can be seen here not to be a package. The server judges the rest.
fn spec(text: &str) -> Result<String, String> {
    if text.starts_with('-') {
        let why = "an option is no package; a file such as requirements.txt counts by being in the project";
        return Err(why.to_owned());
    }
    Ok(text.to_owned())
}

/// The interpreter that a project asks for and builds do not have, for people to read.
pub(super) fn unserved(minor: &str, server: &Runtimes) -> Option<String> {
    if minor.is_empty() || server.python.iter().any(|python| python == minor) {
        return None;
    }
    Some(match server.python.as_slice() {
        [] => "this server has no Python".to_owned(),
        minors => format!("this server has Python {}, and builds take its default", minors.join(", ")),
    })
}

impl Declare {
    /// Whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        self.pip.is_empty()
            && self.npm.is_empty()
            && self.apt.is_empty()
            && self.python.is_none()
            && self.network.is_empty()
    }

    /// Whether an interpreter is asked for.
    pub(super) fn names_python(&self) -> bool {
        self.python.is_some()
    }

    /// Adds what is said to the body of a request.
    pub(super) fn write(&self, body: &mut Map<String, Value>) -> Result<(), Failure> {
        let mut packages = Map::new();
        for (manager, specs) in [("pip", &self.pip), ("npm", &self.npm), ("apt", &self.apt)] {
            if !specs.is_empty() {
                let specs: Vec<&str> = specs.iter().map(String::as_str).filter(|spec| !spec.is_empty()).collect();
                packages.insert(manager.to_owned(), specs.into());
            }
        }
        if !packages.is_empty() {
            body.insert("packages".to_owned(), packages.into());
        }
        if let Some(python) = &self.python {
            body.insert("runtime".to_owned(), serde_json::json!({ "python": python }));
        }
        if let Some(network) = self.network.asked()? {
            body.insert("stead_build_network".to_owned(), network);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_that_the_server_lacks_is_told_from_one_that_it_has() {
        let server: Runtimes = serde_json::from_value(serde_json::json!({ "python": ["3.11", "3.13"] })).unwrap();
        assert_eq!((unserved("", &server), unserved("3.13", &server)), (None, None));
        assert!(unserved("3.12", &server).unwrap().contains("3.11, 3.13"));
        assert!(spec("-r").is_err() && spec("jq").is_ok() && spec("").is_ok());
    }
}
