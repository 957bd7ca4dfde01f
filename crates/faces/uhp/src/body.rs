//! Bodies on their way in: JSON under a byte limit, everything else spooled to disk under one.

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde_json::json;
use stead_domain::{Code, Error, Result};
use stead_engine::{Engine, Spooled};

/// The largest JSON body where no file can come along, in bytes.
pub(crate) const SMALL: u64 = 1 << 20;

/// The longest part of a syntax error that an answer repeats, in characters.
const REPEATED: usize = 300;

/// The refusal of a body of more than `limit` bytes.
pub(crate) fn too_large(limit: u64) -> Error {
    let message = format!("the body is larger than the {limit} bytes that fit here");
    Error::new(Code::FileTooLarge, message).detail(json!({ "max_bytes": limit }))
}

/// Refuses a body that says of itself that it is too large, before any of it is read.
pub(crate) fn check_length(headers: &HeaderMap, limit: u64) -> Result<()> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit) { Err(too_large(limit)) } else { Ok(()) }
}

fn broken_off() -> Error {
    Error::new(Code::InvalidInput, "the body did not come whole")
}

/// The bytes of a body of at most `limit` bytes.
pub(crate) async fn bytes(headers: &HeaderMap, body: Body, limit: u64) -> Result<Bytes> {
    check_length(headers, limit)?;
    let limited = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX));
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large(limit)),
        Err(_) => Err(broken_off()),
    }
}

/// Reads a JSON body of at most `limit` bytes. The media type does not matter: nothing but JSON is understood.
pub(crate) async fn json<T: DeserializeOwned>(headers: &HeaderMap, body: Body, limit: u64) -> Result<T> {
    parse(&bytes(headers, body, limit).await?)
}

/// Reads a JSON body of any kind, for a route that has a refusal of its own for what is no object.
pub(crate) async fn value(headers: &HeaderMap, body: Body, limit: u64) -> Result<serde_json::Value> {
    read(&bytes(headers, body, limit).await?)
}

/// Reads a JSON object.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let value = read(bytes)?;
    // The reader of a struct takes a list of its fields as well, which no client means.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Error::new(Code::InvalidInput, "the body must be a JSON object"));
    }
    Ok(value)
}

/// Reads JSON. A refusal names the field; a known field that is there twice is refused, nesting is bounded by the parser.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = dotted(&error.path().to_string());
        let inner = error.into_inner();
        let mut message: String = inner.to_string().chars().take(REPEATED).collect();
        if inner.is_syntax() || inner.is_eof() {
            message.insert_str(0, "the body is not JSON: ");
            return Error::new(Code::InvalidInput, message);
        }
        match path.or_else(|| quoted(&message)) {
            Some(param) => Error::invalid(param, message),
            None => Error::new(Code::InvalidInput, message),
        }
    })?;
    reader.end().map_err(|_| Error::new(Code::InvalidInput, "the body is not JSON: something follows its value"))?;
    Ok(value)
}

/// `a[0].b` as `a.0.b`; nothing for the root.
fn dotted(path: &str) -> Option<String> {
    let dotted = path.replace('[', ".").replace(']', "");
    let dotted = dotted.trim_matches('.');
    (!dotted.is_empty() && dotted != "?").then(|| dotted.to_owned())
}

/// The field in messages like "missing field `input`", whose path is the object around it.
fn quoted(message: &str) -> Option<String> {
    let rest = message.strip_prefix("missing field `").or_else(|| message.strip_prefix("duplicate field `"))?;
    rest.split('`').next().map(str::to_owned)
}

/// Takes a body of any kind to disk, at most `limit` bytes of it.
pub(crate) async fn spool(engine: &Engine, headers: &HeaderMap, body: Body, limit: u64) -> Result<Spooled> {
    check_length(headers, limit)?;
    let mut writer = engine.spool(limit).await?;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        writer.write(&piece.map_err(|_| broken_off())?).await?;
    }
    writer.finish().await
}

/// Takes bytes that are in memory to disk.
pub(crate) async fn spool_bytes(engine: &Engine, bytes: &[u8], limit: u64) -> Result<Spooled> {
    let mut writer = engine.spool(limit).await?;
    writer.write(bytes).await?;
    writer.finish().await
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample {
        #[expect(dead_code, reason = "only whether it can be read matters")]
        name: String,
        #[serde(default)]
        #[expect(dead_code, reason = "only whether it can be read matters")]
        list: Vec<u32>,
    }

    #[test]
    fn refusals_name_the_field() {
        let deep = format!("{{\"name\":\"a\",\"x\":{}", "[".repeat(100_000));
        for (body, param) in [
            (r#"{"name":3}"#, Some("name")),
            (r#"{"list":[]}"#, Some("name")),
            (r#"{"name":"a","list":[1,"x"]}"#, Some("list.1")),
            (r#"{"name":"a","name":"b"}"#, Some("name")),
            (r#"{"name":"a""#, None),
            (r#"{"name":"a"} x"#, None),
            ("[]x", None),
            (r#"["a"]"#, None),
            ("", None),
            (deep.as_str(), None),
        ] {
            let error = parse::<Sample>(body.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (Code::InvalidInput, param), "{error}");
            assert!(error.message.chars().count() < 2 * REPEATED);
        }
        assert!(parse::<Sample>(br#" {"name":"a","unknown":{"a":[null]}} "#).is_ok());
    }

    #[tokio::test]
    async fn large_bodies_are_refused_with_and_without_a_length() {
        let mut headers = HeaderMap::new();
        let error = bytes(&headers, Body::from(vec![0; 11]), 10).await.unwrap_err();
        assert_eq!((error.code, error.detail), (Code::FileTooLarge, Some(json!({"max_bytes": 10}))));
        assert_eq!(bytes(&headers, Body::from(vec![0; 10]), 10).await.unwrap().len(), 10);
        headers.insert(header::CONTENT_LENGTH, "11".parse().unwrap());
        assert_eq!(bytes(&headers, Body::empty(), 10).await.unwrap_err().code, Code::FileTooLarge);
    }
}
