//! The published schema of UHP 2026-09-28.

use serde::Serialize;
use serde_json::{Value, json};

const SCHEMA: &str = include_str!("../schema/uhp-2026-09-28.schema.json");

/// Writes a body as JSON and checks it against one definition of the schema.
#[track_caller]
pub(crate) fn conforms(definition: &str, body: &impl Serialize) -> Value {
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert!(schema["$defs"][definition].is_object(), "the schema defines no {definition}");
    schema["$ref"] = json!(format!("#/$defs/{definition}"));
    let body = serde_json::to_value(body).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&body).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(errors.is_empty(), "not a {definition}: {errors:?}\n{body:#}");
    body
}

#[test]
fn the_validator_refuses_what_the_schema_does_not_allow() {
    let wrong = std::panic::catch_unwind(|| conforms("Session", &json!({"object": "session"})));
    assert!(wrong.is_err());
    conforms("Session", &json!({"id": "hsess_1"}));
}
