//! Typed reading of merged values; what is wrong is collected, not returned at the first fault.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use super::layers::Sourced;
use super::quantity::{parse_duration, parse_size};

pub(super) struct Reader {
    values: BTreeMap<String, Sourced>,
    pub(super) errors: Vec<String>,
    /// Keys that nobody has read yet.
    pub(super) unread: std::collections::BTreeSet<String>,
}

impl Reader {
    pub(super) fn new(values: BTreeMap<String, Sourced>, errors: Vec<String>) -> Self {
        let unread = values.keys().cloned().collect();
        Self { values, errors, unread }
    }

    /// Reports what is wrong with the value at `key`.
    pub(super) fn refuse(&mut self, key: &str, why: impl std::fmt::Display) {
        let source = self.values.get(key).map_or("default", |sourced| sourced.source.as_str());
        self.errors.push(format!("{key} ({source}): {why}"));
    }

    fn value(&mut self, key: &str) -> Value {
        self.unread.remove(key);
        let found = self.values.get(key).map(|sourced| sourced.value.clone());
        found.unwrap_or_else(|| {
            self.errors.push(format!("{key}: the option has no default"));
            Value::Boolean(false)
        })
    }

    pub(super) fn text(&mut self, key: &str) -> String {
        self.value(key).as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn optional(&mut self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|text| !text.is_empty())
    }

    /// Reads a text with `parse`; `fallback` stands in for what is refused, so that reading goes on.
    pub(super) fn parsed<T, E: std::fmt::Display>(
        &mut self,
        key: &str,
        fallback: T,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> T {
        let text = self.text(key);
        parse(&text).unwrap_or_else(|why| {
            self.refuse(key, why);
            fallback
        })
    }

    pub(super) fn path(&mut self, key: &str) -> Option<PathBuf> {
        let path = PathBuf::from(self.optional(key)?);
        if !path.is_absolute() {
            self.refuse(key, format!("`{}` is not an absolute path", path.display()));
        }
        Some(path)
    }

    pub(super) fn duration(&mut self, key: &str) -> Duration {
        let duration = self.parsed(key, Duration::from_secs(1), parse_duration);
        if duration.is_zero() {
            self.refuse(key, "the duration is zero");
        }
        duration
    }

    /// A duration that need not be set.
    pub(super) fn optional_duration(&mut self, key: &str) -> Option<Duration> {
        let text = self.optional(key)?;
        match parse_duration(&text) {
            Ok(duration) => Some(duration),
            Err(why) => {
                self.refuse(key, why);
                None
            }
        }
    }

    pub(super) fn size(&mut self, key: &str) -> u64 {
        let size = self.parsed(key, 1, parse_size);
        if size == 0 {
            self.refuse(key, "the size is zero");
        }
        size
    }

    /// A size that need not be set.
    pub(super) fn optional_size(&mut self, key: &str) -> Option<u64> {
        let text = self.optional(key)?;
        match parse_size(&text) {
            Ok(size) => Some(size),
            Err(why) => {
                self.refuse(key, why);
                None
            }
        }
    }

    pub(super) fn count(&mut self, key: &str, least: u64, most: u64) -> u64 {
        let number = self.value(key).as_integer().unwrap_or_default();
        match u64::try_from(number).ok().filter(|number| (least..=most).contains(number)) {
            Some(number) => number,
            None => {
                self.refuse(key, format!("{number} is not between {least} and {most}"));
                least
            }
        }
    }

    /// Cores, as thousandths of one.
    pub(super) fn millis_of_cores(&mut self, key: &str) -> u64 {
        let cores = self.value(key).as_float().unwrap_or_default();
        if (0.01..=1024.0).contains(&cores) {
            (cores * 1000.0).round() as u64
        } else {
            self.refuse(key, format!("{cores} is not between 0.01 and 1024 cores"));
            1000
        }
    }

    pub(super) fn flag(&mut self, key: &str) -> bool {
        self.value(key).as_bool().unwrap_or_default()
    }

    /// A list of whatever it holds.
    pub(super) fn items(&mut self, key: &str) -> Vec<Value> {
        let Value::Array(items) = self.value(key) else { return Vec::new() };
        items
    }

    pub(super) fn list(&mut self, key: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for item in self.items(key) {
            match item {
                Value::String(text) => texts.push(text),
                other => self.refuse(key, format!("the list holds {}, not texts alone", other.type_str())),
            }
        }
        texts
    }
}
