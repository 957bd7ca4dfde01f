//! Bodies on their way in: JSON under a byte limit, everything else spooled to disk under one.

use std::sync::LazyLock;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use serde_json::json;
use stead_domain::{Code, Error, Result};
use stead_engine::{Engine, RequestRecord, Spooled};
use stead_face_frame::repeated_name;
use tokio::time::Instant;

use crate::room::{Part, Room};

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
    if length(headers).is_some_and(|length| length > limit) { Err(too_large(limit)) } else { Ok(()) }
}

/// How long a body says that it is, in bytes.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn broken_off() -> Error {
    Error::new(Code::InvalidInput, "the body did not come whole")
}

/// The bytes of a body of at most `limit` bytes.
pub(crate) async fn bytes(headers: &HeaderMap, body: Body, limit: u64) -> Result<Bytes> {
    check_length(headers, limit)?;
    let mut held = Held::default();
    // All at once: bodies that take room piece by piece would all stand still with a part of what they need.
    held.make_room(length(headers).unwrap_or(0)).await?;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| broken_off())?;
        if (held.bytes.len() + piece.len()) as u64 > limit {
            return Err(too_large(limit));
        }
        held.take(&piece).await?;
    }
    Ok(Bytes::from_owner(held))
}

/// What bodies in memory may hold in all, in KiB; the bodies of one key hold half of it at most, unless there is only one. What is
/// made of a body while it is read comes to a few times as much.
const HELD: usize = 128 << 10;
/// A body up to this many bytes is held in any case.
const FREE: usize = 16 << 10;
/// How long a body waits for room in all.
const PATIENCE: Duration = Duration::from_secs(5);

static ROOM: LazyLock<Room> = LazyLock::new(|| Room::new(HELD));

/// A body in memory, and its room there.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    room: Option<Part>,
    /// When it has waited for long enough.
    until: Option<Instant>,
}

impl Held {
    async fn take(&mut self, piece: &[u8]) -> Result<()> {
        self.make_room((self.bytes.len() + piece.len()) as u64).await?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Waits until there is room for so many bytes.
    async fn make_room(&mut self, bytes: u64) -> Result<()> {
        let needed = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_sub(FREE).div_ceil(1 << 10);
        let had = self.room.as_ref().map_or(0, Part::size);
        if needed > had {
            // In steps, so that a body of many pieces does not ask for each.
            let more = (needed - had).next_multiple_of(64);
            let until = *self.until.get_or_insert_with(|| Instant::now() + PATIENCE);
            let who = RequestRecord::current().and_then(|record| record.caller()).map(|(_, key)| key);
            let Some(room) = ROOM.more(who, had, more, until).await else {
                return Err(Error::new(Code::CapacityExhausted, "the server has no room for this body at the moment"));
            };
            match &mut self.room {
                Some(had) => had.join(room),
                none => *none = Some(room),
            }
        }
        Ok(())
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The most values that a JSON body may have. Each costs many times what it is written with.
const VALUES: usize = 200_000;

/// Whether a body has more values than fit, whatever it says otherwise.
fn has_too_many_values(bytes: &[u8]) -> bool {
    let (mut values, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    values > VALUES
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
    // The reader of a struct takes a list of its fields as well, which no client means.
    if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(Error::new(Code::InvalidInput, "the body must be a JSON object"));
    }
    read(bytes)
}

/// Reads JSON. A refusal names the field; a name that an object has twice is refused, nesting is bounded by the parser.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    if has_too_many_values(bytes) {
        return Err(Error::new(Code::InvalidInput, format!("the body has more than {VALUES} values")));
    }
    if let Some(place) = repeated_name(bytes) {
        return Err(Error::invalid(place.clone(), format!("`{place}` is there twice")));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = dotted(&error.path().to_string());
        let inner = error.into_inner();
        let said: String = inner.to_string().chars().take(REPEATED).collect();
        if inner.is_syntax() || inner.is_eof() {
            return Error::new(Code::InvalidInput, format!("the body is not JSON: {said}"));
        }
        let wanted = wanted(&said);
        match (path.or_else(|| quoted(&said)), wanted) {
            (Some(param), Some(wanted)) => Error::invalid(param.clone(), format!("`{param}` is {wanted}")),
            (Some(param), None) => Error::invalid(param, placeless(&said).to_owned()),
            (None, Some(wanted)) => Error::new(Code::InvalidInput, format!("the body is {wanted}")),
            (None, None) => Error::new(Code::InvalidInput, placeless(&said).to_owned()),
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
    let rest = message.strip_prefix("missing field `")?;
    rest.split('`').next().map(str::to_owned)
}

/// A message without the place that the parser adds; the field is named instead.
fn placeless(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |place| &message[..place])
}

/// What a field is, in words of JSON, when the message is about its type: the parser speaks of types of this program.
fn wanted(message: &str) -> Option<String> {
    if !["invalid type: ", "invalid value: ", "invalid length "].iter().any(|kind| message.starts_with(kind)) {
        return None;
    }
    // The value that was found may hold any words; what was expected comes last.
    let expected = placeless(message).rsplit_once("expected ")?.1;
    let whole = |most: u64| format!("a whole number from 0 to {most}");
    Some(match expected {
        "a string" | "string" | "a borrowed string" => "a text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => whole(u64::MAX),
        "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        other if other.starts_with("struct ") => "an object".to_owned(),
        other => other.to_owned(),
    })
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
        #[serde(default)]
        #[expect(dead_code, reason = "only whether it can be read matters")]
        inner: Option<Box<Sample>>,
    }

    #[test]
    fn refusals_name_the_field() {
        let many = format!("{{\"name\":\"a\",\"x\":[{}0]}}", "0,".repeat(VALUES));
        let quoted = format!("{{\"name\":\"\\\"{}\"}}", ",[".repeat(VALUES));
        assert!(parse::<Sample>(many.as_bytes()).unwrap_err().message.contains("200000 values"));
        assert!(parse::<Sample>(quoted.as_bytes()).is_ok());
        let deep = format!("{{\"name\":\"a\",\"x\":{}", "[".repeat(100_000));
        for (body, param) in [
            (r#"{"name":3}"#, Some("name")),
            (r#"{"list":[]}"#, Some("name")),
            (r#"{"name":"a","list":[1,"x"]}"#, Some("list.1")),
            (r#"{"name":"a","name":"b"}"#, Some("name")),
            (r#"{"name":"a","unknown":{"x":[{"y":1,"y":1}]}}"#, Some("unknown.x.0.y")),
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
        for (body, message) in [
            (r#"{"name":3}"#, "`name` is a text"),
            (r#"{"name":"a","list":"expected u8"}"#, "`list` is a list"),
            (r#"{"name":"a","list":[-1]}"#, "`list.0` is a whole number from 0 to 4294967295"),
            (r#"{"name":"a","inner":7}"#, "`inner` is an object"),
            (r#"{"list":[]}"#, "missing field `name`"),
            ("[]", "the body must be a JSON object"),
        ] {
            assert_eq!(parse::<Sample>(body.as_bytes()).unwrap_err().message, message, "{body}");
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
