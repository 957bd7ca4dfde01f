//! What a client says about an environment (UHP Environments §2).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use stead_domain::declared::PackageManager;
use stead_domain::{Code, Error, Result};
use stead_engine::ProjectText;

use crate::wire::network;
use crate::wire::nullable::Field;

/// The body of POST and PUT; what is absent or null keeps what is there, but for `stead_build_network`, where `null` is the
/// deployment's own.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EnvironmentWrite {
    /// A label for people.
    pub name: Option<String>,
    description: Option<String>,
    entry: Option<String>,
    #[schemars(schema_with = "declared")]
    packages: Option<Value>,
    runtime: Option<RuntimeWrite>,
    #[schemars(schema_with = "network::schema")]
    stead_build_network: Field<Value>,
}

fn declared(_: &mut SchemaGenerator) -> Schema {
    let specs = json_schema!({ "type": ["array", "null"], "items": { "type": "string" } });
    json_schema!({ "type": ["object", "null"], "properties": { "pip": specs, "npm": specs, "apt": specs } })
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct RuntimeWrite {
    python: Option<String>,
}

impl EnvironmentWrite {
    /// What it says in the domain's words, under this name.
    pub fn into_text(self, name: String) -> Result<ProjectText> {
        Ok(ProjectText {
            name,
            description: self.description,
            entry: self.entry,
            packages: self.packages.map(packages).transpose()?.unwrap_or_default(),
            python: self.runtime.and_then(|runtime| runtime.python),
            build_network: self
                .stead_build_network
                .map(|network| network.map(|value| network::read_of_builds(&value, "stead_build_network")).transpose())
                .transpose()?,
        })
    }
}

/// A list of specs per manager. A manager that is not served is refused by name, like everything that could not be installed.
fn packages(packages: Value) -> Result<Vec<(PackageManager, Vec<String>)>> {
    let managers = match packages {
        Value::Object(managers) => managers,
        // What an environment is read with under this name is what was installed; sending it back asks for nothing.
        Value::Array(installed) if installed.iter().all(|package| package.get("manager").is_some()) => {
            return Ok(Vec::new());
        }
        _ => return Err(Error::invalid("packages", "`packages` holds a list per manager: `pip`, `npm` and `apt`")),
    };
    let mut read = Vec::new();
    for (name, specs) in managers {
        if specs.is_null() {
            continue;
        }
        let param = format!("packages.{name}");
        let Some(manager) = PackageManager::parse(&name) else {
            let message = "`packages` holds lists for `pip`, `npm` and `apt`, and for no other manager";
            return Err(Error::new(Code::ProjectInvalid, message).at(param));
        };
        let Value::Array(specs) = specs else {
            return Err(Error::invalid(param.clone(), format!("`{param}` is a list of specs")));
        };
        let texts = specs.into_iter().map(|spec| match spec {
            Value::String(text) => Ok(text),
            _ => Err(Error::invalid(param.clone(), format!("`{param}` is a list of specs, each a text"))),
        });
        read.push((manager, texts.collect::<Result<_>>()?));
    }
    Ok(read)
}
