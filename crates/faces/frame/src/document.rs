//! The OpenAPI 3.1 document, made from the tables of faces.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::operation::{Content, SchemaOf, schema_of};
use crate::table::Row;

/// One face's part of a document.
#[derive(Debug)]
pub struct Part {
    tag: &'static str,
    rows: Vec<Row>,
    refusal: SchemaOf,
    /// Headers that every request may have, and every answer has: names and what they say.
    headers: Vec<(&'static str, &'static str)>,
}

impl Part {
    /// The routes of a face whose refusals have the body `R`.
    pub fn new<R: JsonSchema>(tag: &'static str, rows: Vec<Row>) -> Self {
        Self { tag, rows, refusal: schema_of::<R>, headers: Vec::new() }
    }

    /// Every answer has this header.
    pub fn answers_with(mut self, name: &'static str, says: &'static str) -> Self {
        self.headers.push((name, says));
        self
    }
}

/// A document that cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// Two types have this name and different schemas.
    TwoSchemas(String),
}

impl std::fmt::Display for DocumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TwoSchemas(name) => write!(f, "two different types are called `{name}` in the document"),
        }
    }
}

impl std::error::Error for DocumentError {}

/// The document of several faces on one origin.
#[derive(Debug)]
pub struct Document {
    title: &'static str,
    version: &'static str,
    parts: Vec<Part>,
}

impl Document {
    /// A document of nothing yet.
    pub fn new(title: &'static str, version: &'static str) -> Self {
        Self { title, version, parts: Vec::new() }
    }

    /// With the routes of a face.
    pub fn with(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// The document as JSON.
    pub fn write(&self) -> Result<Value, DocumentError> {
        let mut schemas = Schemas::new();
        let (mut paths, mut tags, mut refusals) = (Map::new(), Vec::new(), Map::new());
        for part in &self.parts {
            tags.push(json!({ "name": part.tag }));
            for row in &part.rows {
                let operation = operation(part, row, &mut schemas, &mut refusals);
                let path = paths.entry(path_of(row.route.path)).or_insert_with(|| json!({}));
                path[row.route.method.as_str().to_ascii_lowercase()] = operation;
            }
        }
        Ok(json!({
            "openapi": "3.1.0",
            "info": { "title": self.title, "version": self.version },
            "tags": tags,
            "paths": paths,
            "components": {
                "schemas": schemas.finish()?,
                "responses": refusals,
                "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            },
        }))
    }
}

/// Schemas of what is sent and of what is read: the same type may say different things in the two.
struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let generator = |contract| {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
                settings.contract = contract;
            });
            settings.into_generator()
        };
        Self { read: generator(Contract::Deserialize), written: generator(Contract::Serialize) }
    }

    fn finish(mut self) -> Result<Map<String, Value>, DocumentError> {
        let mut all = self.written.take_definitions(true);
        for (name, schema) in self.read.take_definitions(true) {
            if all.get(&name).is_some_and(|other| *other != schema) {
                return Err(DocumentError::TwoSchemas(name));
            }
            all.insert(name, schema);
        }
        Ok(all)
    }
}

/// A path as OpenAPI has it, which knows no part that goes on to the end.
fn path_of(path: &str) -> String {
    path.replace("{*", "{")
}

/// The names between braces.
fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

fn contents(contents: &[Content], generator: &mut SchemaGenerator) -> Value {
    let mut written = Map::new();
    for content in contents {
        let schema = match content.schema {
            Some(schema) => schema(generator).to_value(),
            None => json!({}),
        };
        written.insert(content.media.to_owned(), json!({ "schema": schema }));
    }
    Value::Object(written)
}

fn operation(part: &Part, row: &Row, schemas: &mut Schemas, all_refusals: &mut Map<String, Value>) -> Value {
    let (route, says) = (&row.route, &row.operation);
    let path = path_of(route.path);
    let mut parameters: Vec<Value> = names_in(&path)
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    parameters.extend(says.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name, "in": parameter.place, "required": parameter.required,
            "description": parameter.says, "schema": parameter.schema,
        })
    }));
    let headers: Map<String, Value> = part
        .headers
        .iter()
        .map(|(name, says)| ((*name).to_owned(), json!({ "description": says, "schema": { "type": "string" } })))
        .collect();
    let answer = |description: &str, content: Value| {
        let mut answer = json!({ "description": description, "headers": headers });
        if content.as_object().is_some_and(|content| !content.is_empty()) {
            answer["content"] = content;
        }
        answer
    };
    let mut answers = Map::new();
    if says.succeeds {
        answers.insert("200".to_owned(), answer("It is done.", contents(&says.answers, &mut schemas.written)));
    }
    for (status, description) in &says.other_answers {
        answers.insert(status.to_string(), answer(description, json!({})));
    }
    let refusal = (part.refusal)(&mut schemas.written).to_value();
    for status in refusals(row) {
        let description = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let content = json!({ "application/json": { "schema": refusal } });
        // Each refusal of a face is written once: there are a dozen on every route.
        let name = format!("{}{status}", part.tag);
        answers.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
        all_refusals.entry(name).or_insert_with(|| answer(description.unwrap_or("Refused"), content));
    }
    let verbs: Vec<&str> = route.verbs.iter().map(|verb| verb.as_str()).collect();
    let mut operation = json!({
        "operationId": id_of(&route.method, &path),
        "summary": says.summary,
        "tags": [part.tag],
        "parameters": parameters,
        "responses": answers,
        "security": if verbs.is_empty() { json!([]) } else { json!([{ "key": [] }]) },
        "x-stead-verbs": verbs,
    });
    if !says.takes.is_empty() {
        let content = contents(&says.takes, &mut schemas.read);
        operation["requestBody"] = json!({ "required": says.body_required, "content": content });
    }
    operation
}

/// What a route refuses with. Some refusals stand before every route: of what is no request, of a name that the server does not
/// have, of a head or a target that is too long, and of what the server has no room for.
fn refusals(row: &Row) -> BTreeSet<u16> {
    let mut statuses: BTreeSet<u16> = [400, 414, 421, 431, 500].into_iter().collect();
    if !row.route.verbs.is_empty() {
        statuses.extend([401, 403, 503]);
    }
    if !row.operation.takes.is_empty() {
        statuses.extend([408, 413, 429, 503]);
    }
    statuses.extend(&row.operation.refusals);
    statuses
}

/// `get_v1_harnesses_harness_id`
fn id_of(method: &Method, path: &str) -> String {
    let words = path.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut id = method.as_str().to_ascii_lowercase();
    for word in words {
        id.push('_');
        id.push_str(word);
    }
    if path.ends_with('/') {
        id.push_str("_root");
    }
    id
}
