//! Entry points for fuzzers: bytes as a client sends them. Any panic, hang or large allocation is a finding, and so is whatever an
//! assertion here says.

mod multipart;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use stead_domain::{BlobId, Result, Timestamp};

pub use multipart::multipart;

use crate::conditions::{self, Reading};
use crate::wire::environment::{DirectoryWrite, EnvironmentWrite, FileChange, ImportWrite};
use crate::wire::harness::HarnessWrite;
use crate::wire::task::{CreateResponse, ignored_fields};
use crate::wire::{ids, network};
use crate::{body, fingerprint, input};

/// Reads `data` as the body of every route that takes JSON, up to what the engine would be asked for.
pub fn bodies(data: &[u8]) {
    // Refusing is fine; what a refusal repeats has a bound.
    short(task(data), data);
    short(body::parse::<HarnessWrite>(data).and_then(|write| write.check().and_then(|()| write.into_text())), data);
    short(body::parse::<EnvironmentWrite>(data).and_then(|write| write.into_text(String::new())), data);
    short(body::parse::<FileChange>(data), data);
    short(body::parse::<DirectoryWrite>(data), data);
    let value = serde_json::from_slice::<Value>(data).unwrap_or_default();
    short(network::read(&value, "network"), data);
    short(network::read_of_builds(&value, "network"), data);
    short(ImportWrite::read(value), data);
}

fn task(data: &[u8]) -> Result<()> {
    let mut task: CreateResponse = body::parse(data)?;
    assert!(ignored_fields(data).iter().map(String::len).sum::<usize>() <= 8192, "an answer repeats too much");
    let _ = (task.version(), task.time_limit(), task.network(), task.delivery(), task.harness());
    let _ = (task.previous(), task.environment(), task.store());
    let mut read = input::read(std::mem::take(&mut task.input))?;
    let id = ids::parse_file("file_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00")?;
    for file in std::mem::take(&mut read.files) {
        let name = file.filename.unwrap_or_else(|| input::invented_name(1, "text/plain"));
        assert!(!name.contains(['/', '\\', '\0']) && name != ".." && name != ".", "an odd name: {name:?}");
        if matches!(file.source, input::FileSource::Inline { .. }) {
            read.name_bytes(&file.pointer, id, &name);
            let part = Value::Array(read.items.clone());
            let part = part.pointer(&file.pointer).and_then(|part| part.get("file_id"));
            assert!(part.is_some(), "the part at {} does not name its bytes", file.pointer);
        }
    }
    Ok(())
}

/// Refusals are short, whatever they refuse.
fn short<T>(read: Result<T>, data: &[u8]) {
    if let Err(error) = read {
        let said = error.message.len() + error.param.map_or(0, |param| param.len());
        assert!(said < 4096 + data.len(), "a long refusal: {said} bytes");
    }
}

/// Reads `data` as lines of `name:value`, the headers of a conditional request for a file of seven bytes, and of a write.
pub fn headers(data: &[u8]) {
    const LENGTH: u64 = 7;
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().and_then(|name| HeaderName::from_bytes(name).ok());
        let value = parts.next().and_then(|value| HeaderValue::from_bytes(value).ok());
        if let (Some(name), Some(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let file = (BlobId::from_bytes([0xab; 32]), LENGTH, Timestamp::from_micros(784_111_777_500_000));
    for method in [Method::GET, Method::HEAD] {
        if let Ok(Reading::Part(part)) = conditions::of_read(&method, &headers, file) {
            assert!(part.start < part.end && part.end <= LENGTH, "a range outside of the file: {part:?}");
        }
    }
    let _ = (conditions::of_write(&headers), fingerprint::key(&headers), body::check_length(&headers, LENGTH));
}

#[cfg(test)]
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn corpora_hold() {
        replay("bodies", super::bodies);
        replay("headers", super::headers);
        replay("multipart", super::multipart);
    }
}
