//! YAML as package managers write it, read without trust: no aliases (so nothing grows), bounded depth, every scalar a text.
//!
//! Scalars stay texts because a version is none of YAML's numbers: `9.0` and `'9.0'` are the same lock format.

use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value};

use super::text::{TextError, decode};

/// Deeper than any lock nests.
const MAX_DEPTH: usize = 32;

/// Why a YAML file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// Its bytes are no text.
    #[error("the file is unreadable")]
    Text(#[source] TextError),
    /// It is not YAML; the text names the place.
    #[error("the file is not valid YAML: {0}")]
    Syntax(String),
    /// It repeats a value by an alias.
    #[error("line {line}: aliases are not supported")]
    Alias {
        /// Where, from 1.
        line: usize,
    },
    /// It nests too deeply.
    #[error("line {line}: values are nested more than {MAX_DEPTH} deep")]
    TooDeep {
        /// Where, from 1.
        line: usize,
    },
    /// Its last document is no mapping.
    #[error("the file is not a YAML mapping")]
    NotAMapping,
}

/// A value that is being read.
enum Open {
    List(Vec<Value>),
    /// The entries so far, and the key whose value comes next.
    Map(Map<String, Value>, Option<String>),
}

/// Decodes bytes to a mapping: the file's last document. An empty file is an empty mapping.
pub(super) fn mapping(bytes: &[u8]) -> Result<Map<String, Value>, YamlError> {
    let text = decode(bytes).map_err(YamlError::Text)?;
    let mut open: Vec<Open> = Vec::new();
    let mut document = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError::Syntax(error.to_string()))?;
        let line = span.start.line();
        let finished = match event {
            Event::Alias(_) => return Err(YamlError::Alias { line }),
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() == MAX_DEPTH {
                    return Err(YamlError::TooDeep { line });
                }
                let list = matches!(event, Event::SequenceStart(..));
                open.push(if list { Open::List(Vec::new()) } else { Open::Map(Map::new(), None) });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(list)) => Value::Array(list),
                Some(Open::Map(map, _)) => Value::Object(map),
                None => continue,
            },
            Event::Scalar(text, ..) => Value::String(text.into_owned()),
            _ => continue,
        };
        match open.last_mut() {
            Some(Open::List(list)) => list.push(finished),
            Some(Open::Map(map, key)) => match key.take() {
                Some(key) => drop(map.insert(key, finished)),
                // A key that is itself a list or a map: no manifest has one, and its text will do.
                None => *key = Some(finished.as_str().map_or_else(|| finished.to_string(), str::to_owned)),
            },
            None => document = Some(finished),
        }
    }
    match document {
        Some(Value::Object(map)) => Ok(map),
        None => Ok(Map::new()),
        Some(Value::String(text)) if text.is_empty() => Ok(Map::new()),
        Some(_) => Err(YamlError::NotAMapping),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_managers_write_is_read_and_what_grows_is_refused() {
        let read = mapping(b"lockfileVersion: '9.0'\nb: {c: 9.0, d: [x, y]}\n'/@s/a@1':\n  e: true\n").unwrap();
        let expected = r#"{"lockfileVersion":"9.0","b":{"c":"9.0","d":["x","y"]},"/@s/a@1":{"e":"true"}}"#;
        assert_eq!(Value::Object(read), serde_json::from_str::<Value>(expected).unwrap());
        assert_eq!(mapping(b"a: 1\n---\na: 2\n").unwrap()["a"], "2");
        assert!(mapping(b"").unwrap().is_empty() && mapping(b"# nothing\n").unwrap().is_empty());
        assert_eq!(mapping(b"a: &x 1\nb: *x\n"), Err(YamlError::Alias { line: 2 }));
        assert_eq!(mapping(b"- a\n"), Err(YamlError::NotAMapping));
        let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert_eq!(mapping(format!("a: {deep}").as_bytes()), Err(YamlError::TooDeep { line: 1 }));
        assert!(matches!(mapping(b"a: [\n"), Err(YamlError::Syntax(_))));
    }
}
