//! The layers, merged key by key, each value with its source.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use toml::{Table, Value};

use super::DEFAULT;
use super::settings::Settings;

/// A flag that sets an option: its key, its value as text, and how people wrote it.
#[derive(Debug, Clone)]
pub struct Flag {
    /// The dotted key.
    pub key: &'static str,
    /// The value as text.
    pub value: String,
    /// The flag, such as `--listen`.
    pub flag: &'static str,
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration is not valid")?;
        for error in &self.0 {
            write!(f, "\n  {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// One value and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Sourced {
    pub(super) value: Value,
    pub(super) source: String,
}

/// Values by dotted key.
#[derive(Debug)]
pub struct Layers {
    values: BTreeMap<String, Sourced>,
    errors: Vec<String>,
}

impl Layers {
    /// The embedded defaults.
    pub fn new() -> Self {
        let table: Table = DEFAULT.parse().expect("the embedded file is parsed by a test");
        let values = leaves(table).map(|(key, value)| (key, Sourced { value, source: "default".to_owned() })).collect();
        Self { values, errors: Vec::new() }
    }

    /// Lays the operator's file over what is there.
    pub fn file(&mut self, path: &Path) {
        match std::fs::read_to_string(path) {
            Ok(text) => self.text(&text, &path.display().to_string()),
            Err(error) => self.errors.push(format!("{}: failed to read the file: {error}", path.display())),
        }
    }

    /// Lays TOML text over what is there.
    pub fn text(&mut self, text: &str, source: &str) {
        match text.parse::<Table>() {
            Ok(table) => {
                for (key, value) in leaves(table) {
                    self.set(&key, value, source);
                }
            }
            Err(error) => {
                self.errors.push(format!("{source}: {}", error.to_string().trim_end().replace('\n', "\n    ")));
            }
        }
    }

    /// Lays `STEAD__SECTION__KEY` variables over what is there.
    pub fn environment(&mut self, variables: impl Iterator<Item = (String, String)>) {
        for (name, text) in variables {
            if let Some(rest) = name.strip_prefix("STEAD__") {
                let key = rest.to_ascii_lowercase().replace("__", ".");
                self.set_text(&key, &text, &name);
            }
        }
    }

    /// Lays flags over what is there.
    pub fn flags(&mut self, flags: &[Flag]) {
        for flag in flags {
            self.set_text(flag.key, &flag.value, flag.flag);
        }
    }

    /// The text at `key`, for what must be known before all layers are there. Empty when it is not a text.
    pub fn peek(&self, key: &str) -> &str {
        self.values.get(key).and_then(|sourced| sourced.value.as_str()).unwrap_or_default()
    }

    /// Reads and checks everything.
    pub fn settings(self) -> Result<Settings, ConfigErrors> {
        Settings::read(self.values, self.errors)
    }

    fn set(&mut self, key: &str, value: Value, source: &str) {
        let Some(known) = self.values.get_mut(key) else {
            self.errors.push(format!("{key} ({source}): there is no such option"));
            return;
        };
        let value = match (&known.value, value) {
            (Value::Float(_), Value::Integer(number)) => Value::Float(number as f64),
            (Value::String(_), Value::Integer(number)) => Value::String(number.to_string()),
            (_, value) => value,
        };
        if known.value.same_type(&value) {
            *known = Sourced { value, source: source.to_owned() };
        } else {
            let (wanted, found) = (known.value.type_str(), value.type_str());
            self.errors.push(format!("{key} ({source}): expected {wanted}, found {found}"));
        }
    }

    fn set_text(&mut self, key: &str, text: &str, source: &str) {
        let Some(known) = self.values.get(key) else {
            self.errors.push(format!("{key} ({source}): there is no such option"));
            return;
        };
        let value = match known.value {
            Value::Boolean(_) => text.parse().map(Value::Boolean).ok(),
            Value::Integer(_) => text.parse().map(Value::Integer).ok(),
            Value::Float(_) => text.parse().map(Value::Float).ok(),
            Value::Array(_) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                Some(Value::Array(parts.map(|part| Value::String(part.to_owned())).collect()))
            }
            _ => Some(Value::String(text.to_owned())),
        };
        match value {
            Some(value) => self.set(key, value, source),
            None => self.errors.push(format!("{key} ({source}): `{text}` is not {}", described(&known.value))),
        }
    }
}

impl Default for Layers {
    fn default() -> Self {
        Self::new()
    }
}

fn described(value: &Value) -> &'static str {
    match value {
        Value::Boolean(_) => "true or false",
        Value::Integer(_) => "a whole number",
        _ => "a number",
    }
}

/// Options lie one table deep; a key at the top or deeper keeps its dotted name, which then is unknown.
fn leaves(table: Table) -> impl Iterator<Item = (String, Value)> {
    table.into_iter().flat_map(|(section, value)| match value {
        Value::Table(options) => {
            options.into_iter().map(|(key, value)| (format!("{section}.{key}"), value)).collect::<Vec<_>>()
        }
        value => vec![(section, value)],
    })
}
