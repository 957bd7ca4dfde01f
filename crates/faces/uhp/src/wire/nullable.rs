//! Fields for which absent, `null` and a value are three different things.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};

/// What a request says about a field. With `#[serde(default)]` an absent field is `Absent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Field<T> {
    /// Nothing: what is there stays.
    #[default]
    Absent,
    /// `null`: what is there goes.
    Null,
    /// This value.
    Given(T),
}

impl<T> Field<T> {
    /// What is to be done with the field, if anything: `None` clears it.
    pub fn map<U>(self, what: impl FnOnce(Option<T>) -> U) -> Option<U> {
        match self {
            Self::Absent => None,
            Self::Null => Some(what(None)),
            Self::Given(value) => Some(what(Some(value))),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Null, Self::Given))
    }
}

impl<T: JsonSchema> JsonSchema for Field<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        <Option<T>>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <Option<T>>::json_schema(generator)
    }
}
