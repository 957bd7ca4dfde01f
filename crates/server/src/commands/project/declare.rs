//! What a project declares besides its manifests.

use clap::Args;
use serde_json::{Map, Value};

/// Options of `project create` and `project set`. Each list that is given replaces the one that was declared.
#[derive(Debug, Args)]
pub(crate) struct Declare {
    /// A Python package that builds install, such as 'requests>=2.31'; give it once for each, and '' for none
    #[arg(long, value_name = "SPEC")]
    pip: Vec<String>,
    /// A Node package, such as sharp@^0.33
    #[arg(long, value_name = "SPEC")]
    npm: Vec<String>,
    /// A system package, such as jq or jq=1.6-2.1
    #[arg(long, value_name = "SPEC")]
    apt: Vec<String>,
    /// The minor of the Python interpreter, such as 3.12; '' for the server's default
    #[arg(long, value_name = "MINOR")]
    python: Option<String>,
}

impl Declare {
    /// Whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        self.pip.is_empty() && self.npm.is_empty() && self.apt.is_empty() && self.python.is_none()
    }

    /// Adds what is said to the body of a request.
    pub(super) fn write(&self, body: &mut Map<String, Value>) {
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
    }
}
