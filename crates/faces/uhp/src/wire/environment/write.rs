//! What a client says about an environment (UHP Environments §2).

use serde::Deserialize;
use serde_json::Value;
use stead_domain::{Code, Error, Result};
use stead_engine::ProjectText;

/// The body of POST and PUT. Installing packages beside the manifests, and choosing an interpreter, are not served: naming
/// any is refused by name, naming none is what a client that sends back what it read does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct EnvironmentWrite {
    /// A label for people.
    pub name: Option<String>,
    description: Option<String>,
    entry: Option<String>,
    packages: Option<Value>,
    runtime: Option<RuntimeWrite>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RuntimeWrite {
    python: Option<String>,
}

impl EnvironmentWrite {
    /// Refuses by name what is not served.
    pub fn check(&self) -> Result<()> {
        let refused = |param: &str| {
            let message = format!("`{param}` is not served; declare it in the project's own manifests");
            Err(Error::new(Code::ProjectInvalid, message).at(param))
        };
        match &self.packages {
            None => {}
            Some(Value::Object(managers)) => {
                for (manager, specs) in managers {
                    let empty = specs.is_null() || specs.as_array().is_some_and(Vec::is_empty);
                    if !empty && ["pip", "npm", "apt"].contains(&manager.as_str()) {
                        return refused(&format!("packages.{manager}"));
                    }
                }
            }
            // What an environment is read with under this name is what was installed; sending it back asks for nothing.
            Some(Value::Array(installed)) if installed.iter().all(|package| package.get("manager").is_some()) => {}
            Some(_) => return Err(Error::invalid("packages", "`packages` holds a list per manager")),
        }
        let python = self.runtime.as_ref().and_then(|runtime| runtime.python.as_ref());
        if python.is_some_and(|python| !python.is_empty()) { refused("runtime.python") } else { Ok(()) }
    }

    /// What it says in the domain's words, under this name.
    pub fn into_text(self, name: String) -> ProjectText {
        ProjectText { name, description: self.description, entry: self.entry }
    }
}
