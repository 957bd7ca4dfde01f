//! What a route takes and answers, for the document.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// Makes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A body in one media type.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    pub(crate) media: &'static str,
    pub(crate) schema: Option<SchemaOf>,
}

/// A parameter in the query or in a header.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) says: &'static str,
    pub(crate) schema: Value,
    pub(crate) required: bool,
}

impl Parameter {
    /// A text in the query.
    pub fn query(name: &'static str, says: &'static str) -> Self {
        Self { name, place: "query", says, schema: json!({ "type": "string" }), required: false }
    }

    /// A text in a header.
    pub fn header(name: &'static str, says: &'static str) -> Self {
        Self { place: "header", ..Self::query(name, says) }
    }

    /// It is a whole number.
    pub fn number(mut self, least: u64, most: u64) -> Self {
        self.schema = json!({ "type": "integer", "minimum": least, "maximum": most });
        self
    }

    /// It is one of these words.
    pub fn words(mut self, words: &[&str]) -> Self {
        self.schema = json!({ "type": "string", "enum": words });
        self
    }

    /// It is yes or no.
    pub fn flag(self) -> Self {
        self.words(&["0", "1", "false", "true"])
    }

    /// A request without it is refused.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

/// What a route takes and answers.
#[derive(Debug, Clone)]
pub struct Operation {
    pub(crate) summary: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) takes: Vec<Content>,
    pub(crate) body_required: bool,
    pub(crate) answers: Vec<Content>,
    pub(crate) other_answers: Vec<(u16, &'static str)>,
    pub(crate) refusals: Vec<u16>,
    pub(crate) succeeds: bool,
}

impl Operation {
    /// An operation in a few words.
    pub fn new(summary: &'static str) -> Self {
        Self {
            summary,
            parameters: Vec::new(),
            takes: Vec::new(),
            body_required: true,
            answers: Vec::new(),
            other_answers: Vec::new(),
            refusals: Vec::new(),
            succeeds: true,
        }
    }

    /// It has this parameter.
    pub fn with(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// It takes this as JSON.
    pub fn takes<T: JsonSchema>(mut self) -> Self {
        self.takes.push(Content { media: "application/json", schema: Some(schema_of::<T>) });
        self
    }

    /// It takes bytes of this media type.
    pub fn takes_bytes(mut self, media: &'static str) -> Self {
        self.takes.push(Content { media, schema: None });
        self
    }

    /// It takes a body of this media type, with parts or members as the type has fields.
    pub fn takes_as<T: JsonSchema>(mut self, media: &'static str) -> Self {
        self.takes.push(Content { media, schema: Some(schema_of::<T>) });
        self
    }

    /// It answers this as JSON, with status 200.
    pub fn answers<T: JsonSchema>(mut self) -> Self {
        self.answers.push(Content { media: "application/json", schema: Some(schema_of::<T>) });
        self
    }

    /// It answers this in another media type, with status 200; of a stream, each of its events.
    pub fn answers_as<T: JsonSchema>(mut self, media: &'static str) -> Self {
        self.answers.push(Content { media, schema: Some(schema_of::<T>) });
        self
    }

    /// It answers bytes of this media type, with status 200.
    pub fn answers_bytes(mut self, media: &'static str) -> Self {
        self.answers.push(Content { media, schema: None });
        self
    }

    /// It has another good answer.
    pub fn answers_also(mut self, status: u16, says: &'static str) -> Self {
        self.other_answers.push((status, says));
        self
    }

    /// It has no good answer: what it stands for is not served here.
    pub fn always_refuses(mut self) -> Self {
        self.succeeds = false;
        self
    }

    /// It refuses with these statuses, beside those that every route has.
    pub fn refuses(mut self, statuses: &[u16]) -> Self {
        self.refusals.extend_from_slice(statuses);
        self
    }
}
