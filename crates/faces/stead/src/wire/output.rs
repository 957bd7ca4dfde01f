//! The raw output of a turn: one JSON object per line (`application/x-ndjson`).
//!
//! ```text
//! {"offset":19,"stream":"stdout","data_b64":"aGVsbG8K"}      any number of these
//! {"state":"completed","exit":{"code":0},"failure":null}      exactly one, the last line
//! ```
//!
//! `offset` is where the next record begins: a client whose connection broke asks again with `?from=` the last offset it
//! saw. A stream without the last line was cut. Empty lines are heartbeats.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::turn::TurnFailure;

/// What is sent to whoever does not ask for [frames](super::OUTPUT_FRAMES).
pub const OUTPUT_LINES: &str = "application/x-ndjson";

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OutputLine {
    /// Bytes that the turn wrote.
    Chunk {
        /// Where the next record begins.
        offset: u64,
        /// Where the bytes were written.
        stream: Stream,
        /// The bytes, which need not be text and may end within a character.
        #[schemars(with = "String")]
        #[serde(rename = "data_b64", serialize_with = "encode", deserialize_with = "decode")]
        data: Vec<u8>,
    },
    /// The turn has ended.
    End {
        /// One of the ended states of [`Turn::state`](super::Turn::state).
        state: String,
        /// How its command ended.
        exit: Option<Exit>,
        /// Why it failed.
        failure: Option<TurnFailure>,
    },
}

/// A stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl OutputLine {
    /// Appends a chunk's line, its end included: what serde makes of it, without a look at each letter, since base64 has none to
    /// escape.
    pub fn append_chunk(lines: &mut Vec<u8>, offset: u64, stream: Stream, data: &[u8]) {
        let stream = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        lines.reserve(CHUNK_FRAME + data.len().div_ceil(3) * 4);
        // Writing to memory cannot fail.
        let _ = write!(lines, r#"{{"offset":{offset},"stream":"{stream}","data_b64":""#);
        base64_simd::STANDARD.encode_append(data, lines);
        lines.extend_from_slice(CHUNK_END);
    }
}

/// More than what stands around a chunk's bytes.
const CHUNK_FRAME: usize = 96;
/// What follows the bytes of a chunk.
const CHUNK_END: &[u8] = b"\"}\n";

fn encode<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(data))
}

fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_the_module_says_and_bytes_survive() {
        let chunk = OutputLine::Chunk { offset: 19, stream: Stream::Stdout, data: b"hello\n".to_vec() };
        assert_eq!(serde_json::to_string(&chunk).unwrap(), r#"{"offset":19,"stream":"stdout","data_b64":"aGVsbG8K"}"#);
        let end = OutputLine::End { state: "completed".into(), exit: Some(Exit::Code(0)), failure: None };
        assert_eq!(serde_json::to_string(&end).unwrap(), r#"{"state":"completed","exit":{"code":0},"failure":null}"#);
        let all = OutputLine::Chunk { offset: 1, stream: Stream::Stderr, data: (0..=255).collect() };
        for line in [chunk, end, all] {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<OutputLine>(&text).unwrap(), line);
            if let OutputLine::Chunk { offset, stream, data } = line {
                let mut lines = b"\n".to_vec();
                OutputLine::append_chunk(&mut lines, offset, stream, &data);
                assert_eq!(String::from_utf8(lines).unwrap(), format!("\n{text}\n"));
            }
        }
        assert!(serde_json::from_str::<OutputLine>(r#"{"offset":1,"stream":"stdout","data_b64":"?"}"#).is_err());
    }
}
