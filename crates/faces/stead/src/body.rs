//! JSON bodies, bounded and with the path of what is wrong in them.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::json;
use stead_domain::{Code, Error};
use stead_face_frame::repeated_name;

use crate::refusal::{Answer, Refusal};

/// The largest body, in bytes: nothing that this face takes comes near it.
const LARGEST: usize = 16 << 10;

/// Reads a body of at most [`LARGEST`] bytes.
pub(crate) async fn json<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Answer<T> {
    let media = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let essence = media.map(|text| text.split(';').next().unwrap_or_default().trim());
    if essence.is_some_and(|text| !text.eq_ignore_ascii_case("application/json")) {
        let message = "the body of this route is `application/json`";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_input", message));
    }
    let bytes = match Limited::new(body, LARGEST).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            let message = format!("the body is larger than {LARGEST} bytes");
            return Err(Error::new(Code::FileTooLarge, message).detail(json!({ "max_bytes": LARGEST })).into());
        }
        Err(_) => return Err(Error::new(Code::InvalidInput, "the body could not be read to its end").into()),
    };
    if let Some(place) = repeated_name(&bytes) {
        return Err(Error::invalid(place.clone(), format!("`{place}` is there twice")).into());
    }
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = Some(error.path().to_string()).filter(|path| path != "." && path != "?");
        let inner = error.into_inner();
        let said = without_types(&inner.to_string());
        // A place is worth telling in what is no JSON; a field is named.
        let said = if inner.is_data() { placeless(&said) } else { &said };
        let refused = Error::new(Code::InvalidInput, format!("the body is not what this route takes: {said}"));
        match quoted(said).or(path) {
            Some(field) => refused.at(field),
            None => refused,
        }
    })?;
    reader.end().map_err(|_| Error::new(Code::InvalidInput, "something follows the JSON value of the body"))?;
    Ok(value)
}

/// The field in messages like "missing field `name`", whose path is the object around it or nothing.
fn quoted(message: &str) -> Option<String> {
    let kinds = ["missing field `", "unknown field `"];
    let rest = kinds.iter().find_map(|kind| message.strip_prefix(kind))?;
    rest.split('`').next().map(str::to_owned)
}

/// A message without the place that the parser adds.
fn placeless(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |place| &message[..place])
}

/// A message without the names that this program has for objects.
fn without_types(message: &str) -> String {
    let Some((front, rest)) = message.rsplit_once("expected struct ") else { return message.to_owned() };
    let place = rest.find(" at line ").map_or("", |place| &rest[place..]);
    format!("{front}expected an object{place}")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only its absence matters")]
        name: String,
    }

    #[tokio::test]
    async fn refusals_speak_of_json() {
        let refused = json::<Sample>(&HeaderMap::new(), Body::from("7")).await.unwrap_err();
        let (text, expected) = (format!("{refused:?}"), "invalid type: integer `7`, expected an object");
        assert!(text.contains(expected) && !text.contains("Sample"), "{text}");
        for (body, field) in [
            ("{}", "name"),
            (r#"{"name":"a","nam":1}"#, "nam"),
            (r#"{"name":7}"#, "name"),
            (r#"{"name":"a","name":"a"}"#, "name"),
        ] {
            let refused = json::<Sample>(&HeaderMap::new(), Body::from(body)).await.unwrap_err();
            let text = format!("{refused:?}");
            assert!(text.contains(&format!("param: Some(\"{field}\")")) && !text.contains(" line "), "{text}");
        }
    }
}
