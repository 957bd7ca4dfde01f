//! What a task asks for: text, files that come along, and what is kept of it for reading back (UHP §7.1).

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use serde_json::{Map, Value, json};
use stead_domain::{Error, FileId, Result};

use crate::wire::ids;

/// A task's input, understood.
#[derive(Debug, Default)]
pub(crate) struct TaskInput {
    /// The text of the user's messages, in order.
    pub text: String,
    /// What `system` and `developer` messages say.
    pub guidance: Vec<String>,
    /// The paths of those messages, which a harness without a model does not act on.
    pub guiding: Vec<String>,
    /// The files that come along.
    pub files: Vec<GivenFile>,
    /// The items as they were sent, for reading back.
    pub items: Vec<Value>,
}

/// A file that comes with a task, and where in the items it stands.
#[derive(Debug)]
pub(crate) struct GivenFile {
    /// The pointer of its part in the items.
    pub pointer: String,
    /// The path of its field, for refusals.
    pub param: String,
    /// The name the client gives it.
    pub filename: Option<String>,
    /// Its bytes, or where they are.
    pub source: FileSource,
}

/// Where a file's bytes are.
#[derive(Debug)]
pub(crate) enum FileSource {
    /// Uploaded before.
    Uploaded(FileId),
    /// In the request.
    Inline {
        /// The media type that the data URL names.
        media_type: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// Reads `input`: a text, or an array of messages and parts.
pub(crate) fn read(input: Value) -> Result<TaskInput> {
    let mut read = TaskInput::default();
    match input {
        Value::String(text) => {
            read.items = vec![message(vec![json!({"type": "input_text", "text": &text})])];
            read.text = text;
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                read.item(index, item)?;
            }
            read.items = items;
        }
        _ => return Err(Error::invalid("input", "`input` is a string or an array of items")),
    }
    if read.text.is_empty() && read.files.is_empty() {
        return Err(Error::invalid("input", "`input` asks for nothing"));
    }
    Ok(read)
}

fn message(content: Vec<Value>) -> Value {
    json!({"type": "message", "role": "user", "content": content})
}

impl TaskInput {
    fn item(&mut self, index: usize, item: &Value) -> Result<()> {
        let param = format!("input.{index}");
        let object = item.as_object().ok_or_else(|| Error::invalid(&param, "an item of `input` is an object"))?;
        match object.get("type").and_then(Value::as_str) {
            None | Some("message") => self.message(object, index, &param),
            Some("input_text" | "text" | "input_file" | "input_image") => {
                self.part(object, format!("/{index}"), &param, Role::User)
            }
            Some("function_call_output") => {
                Err(Error::invalid(param, "tools are run by the harness; there is no way to send a result in"))
            }
            Some(_) => Err(Error::invalid(format!("{param}.type"), "no item of this type can be sent in")),
        }
    }

    fn message(&mut self, object: &Map<String, Value>, index: usize, param: &str) -> Result<()> {
        let role = match object.get("role").and_then(Value::as_str) {
            None | Some("user") => Role::User,
            Some("system" | "developer") => {
                self.guiding.push(param.to_owned());
                Role::Guide
            }
            Some("assistant") => {
                let message = "a session keeps its own history; name `previous_response_id` to continue it";
                return Err(Error::invalid(format!("{param}.role"), message));
            }
            Some(_) => return Err(Error::invalid(format!("{param}.role"), "the role of an input message is `user`")),
        };
        match object.get("content") {
            Some(Value::String(text)) => self.text(text, role),
            Some(Value::Array(parts)) => {
                for (number, part) in parts.iter().enumerate() {
                    let param = format!("{param}.content.{number}");
                    let part = part.as_object().ok_or_else(|| Error::invalid(&param, "a part is an object"))?;
                    self.part(part, format!("/{index}/content/{number}"), &param, role)?;
                }
            }
            _ => return Err(Error::invalid(format!("{param}.content"), "`content` is a string or an array of parts")),
        }
        Ok(())
    }

    fn part(&mut self, part: &Map<String, Value>, pointer: String, param: &str, role: Role) -> Result<()> {
        match part.get("type").and_then(Value::as_str) {
            Some("input_text" | "text") => {
                let text = part.get("text").and_then(Value::as_str);
                let text =
                    text.ok_or_else(|| Error::invalid(format!("{param}.text"), "a text part needs its `text`"))?;
                self.text(text, role);
                Ok(())
            }
            Some("input_file" | "input_image") => {
                self.files.push(file(part, pointer, param)?);
                Ok(())
            }
            _ => Err(Error::invalid(
                format!("{param}.type"),
                "the type of a part is `input_text`, `input_file` or `input_image`",
            )),
        }
    }

    fn text(&mut self, text: &str, role: Role) {
        match role {
            Role::User if self.text.is_empty() => text.clone_into(&mut self.text),
            Role::User => {
                self.text.push('\n');
                self.text.push_str(text);
            }
            Role::Guide => self.guidance.push(text.to_owned()),
        }
    }

    /// Puts a file's id in place of its bytes, so that what is kept for reading back names the bytes instead of repeating them.
    pub(crate) fn name_bytes(&mut self, pointer: &str, id: FileId, filename: &str) {
        let part = pointer.strip_prefix('/').and_then(|rest| {
            let (index, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            self.items.get_mut(index.parse::<usize>().ok()?)?.pointer_mut(rest)
        });
        if let Some(Value::Object(part)) = part {
            part.remove("file_data");
            part.remove("image_url");
            part.insert("file_id".to_owned(), json!(id));
            part.insert("filename".to_owned(), json!(filename));
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Role {
    User,
    Guide,
}

fn file(part: &Map<String, Value>, pointer: String, param: &str) -> Result<GivenFile> {
    let text = |name: &str| match part.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(Error::invalid(format!("{param}.{name}"), format!("`{name}` is a string"))),
    };
    let filename = text("filename")?.map(|name| plain_name(name, &format!("{param}.filename"))).transpose()?;
    if let Some(id) = text("file_id")? {
        let param = format!("{param}.file_id");
        let source = FileSource::Uploaded(ids::parse_file(id).map_err(|error| error.at(&param))?);
        return Ok(GivenFile { pointer, param, filename, source });
    }
    for name in ["file_data", "image_url"] {
        let param = format!("{param}.{name}");
        if let Some(url) = text(name)? {
            let (media_type, bytes) = data_url(url).ok_or_else(|| {
                let message = "the bytes of a file come as a data URL, or by `file_id`; no other address is read";
                Error::invalid(&param, message)
            })?;
            return Ok(GivenFile { pointer, param, filename, source: FileSource::Inline { media_type, bytes } });
        }
    }
    if text("file_url")?.is_some() {
        let message = "the server fetches nothing from addresses that a request names; send the bytes";
        return Err(Error::unsupported(format!("{param}.file_url"), message));
    }
    Err(Error::invalid(param, "a file needs `file_data` or `file_id`"))
}

/// The last component of a name that a client gives a file, which must be able to stand in a directory.
pub(crate) fn plain_name(name: &str, param: &str) -> Result<String> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    if last.is_empty() || last == "." || last == ".." || last.len() > 255 || last.chars().any(char::is_control) {
        return Err(Error::invalid(param, "a file's name has 1 to 255 bytes and no control character"));
    }
    Ok(last.to_owned())
}

/// A name for a file that came without one.
pub(crate) fn invented_name(number: usize, media_type: &str) -> String {
    let extension = match media_type {
        "application/json" => "json",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "image/gif" => "gif",
        "image/jpeg" => "jpg",
        "image/png" => "png",
        "image/webp" => "webp",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/markdown" => "md",
        "text/plain" => "txt",
        _ => "bin",
    };
    format!("file-{number}.{extension}")
}

/// Reads `data:<media type>[;…][;base64],<bytes>`.
fn data_url(url: &str) -> Option<(String, Vec<u8>)> {
    /// Padding may be missing: clients differ.
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let (scheme, rest) = url.split_once(':')?;
    let (head, body) = if scheme.eq_ignore_ascii_case("data") { rest.split_once(',')? } else { return None };
    let mut parameters = head.split(';');
    let media_type = parameters.next().unwrap_or_default().trim().to_ascii_lowercase();
    let encoded = parameters.any(|parameter| parameter.trim().eq_ignore_ascii_case("base64"));
    let bytes = if encoded {
        let body = body.trim();
        STANDARD.decode(body).or_else(|_| LENIENT.decode(body)).ok()?
    } else {
        percent_encoding::percent_decode_str(body).collect()
    };
    let media_type = if media_type.is_empty() { "text/plain".to_owned() } else { media_type };
    Some((media_type, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_from_strings_messages_and_bare_parts() {
        for (input, text) in [
            (json!("echo hi"), "echo hi"),
            (
                json!([{"role": "user", "content": "a"}, {"type": "message", "content": [{"type": "input_text", "text": "b"}]}]),
                "a\nb",
            ),
            (json!([{"type": "input_text", "text": "c"}]), "c"),
        ] {
            assert_eq!(read(input).unwrap().text, text);
        }
        let guided = read(json!([{"role": "system", "content": "brief"}, {"role": "user", "content": "a"}])).unwrap();
        assert_eq!((guided.text.as_str(), guided.guidance), ("a", vec!["brief".to_owned()]));
        assert_eq!(guided.guiding, ["input.0"]);
    }

    #[test]
    fn files_come_inline_and_by_id_and_the_bytes_are_not_kept_twice() {
        let id: FileId = "file_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap();
        let mut input = read(json!([{"role": "user", "content": [
            {"type": "input_file", "filename": "../a.txt", "file_data": "data:text/plain;base64,aGk="},
            {"type": "input_image", "image_url": "data:image/png;base64,AAE"},
            {"type": "input_file", "file_id": "file-018f3c2a7b4c7d3e9f6a5b4c3d2e1f00"},
            {"type": "input_file", "filename": "b", "file_data": "data:,a%20b"},
        ]}]))
        .unwrap();
        let bytes = |file: &GivenFile| match &file.source {
            FileSource::Inline { bytes, .. } => bytes.clone(),
            FileSource::Uploaded(found) => found.to_string().into_bytes(),
        };
        let given: Vec<Vec<u8>> = input.files.iter().map(bytes).collect();
        assert_eq!(given, [b"hi".to_vec(), vec![0, 1], id.to_string().into_bytes(), b"a b".to_vec()]);
        assert_eq!(input.files[0].filename.as_deref(), Some("a.txt"));
        let pointer = input.files[0].pointer.clone();
        input.name_bytes(&pointer, id, "a.txt");
        let kept = json!({"type": "input_file", "filename": "a.txt", "file_id": id});
        assert_eq!(input.items[0]["content"][0], kept);
    }

    #[test]
    fn what_makes_no_sense_is_refused_at_its_path() {
        for (input, param) in [
            (json!(""), "input"),
            (json!(3), "input"),
            (json!([]), "input"),
            (json!(["a"]), "input.0"),
            (json!([{"role": "assistant", "content": "a"}]), "input.0.role"),
            (json!([{"role": "user"}]), "input.0.content"),
            (json!([{"role": "user", "content": [{"type": "video"}]}]), "input.0.content.0.type"),
            (json!([{"type": "input_file"}]), "input.0"),
            (json!([{"type": "input_file", "file_data": "aGk="}]), "input.0.file_data"),
            (json!([{"type": "input_file", "file_data": "data:;base64,%%"}]), "input.0.file_data"),
            (json!([{"type": "input_file", "file_url": "http://x/"}]), "input.0.file_url"),
            (json!([{"type": "input_file", "file_id": "../x"}]), "input.0.file_id"),
            (json!([{"type": "input_file", "file_id": 1}]), "input.0.file_id"),
            (json!([{"type": "function_call_output"}]), "input.0"),
        ] {
            assert_eq!(read(input.clone()).unwrap_err().param.as_deref(), Some(param), "{input}");
        }
        assert_eq!(invented_name(2, "text/plain"), "file-2.txt");
        assert_eq!(invented_name(1, "nonsense"), "file-1.bin");
    }
}
