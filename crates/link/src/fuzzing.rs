//! Entry point for a fuzzer: bytes as either end of the connection receives them. Any panic, hang or large allocation is a
//! finding.

use serde::{Serialize, de::DeserializeOwned};

use crate::{Frame, Kind, Reply, Request, frame};

/// Reads `bytes` as frames until they are used up or refused, and every message in them as both sides would.
pub fn frames(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((frame, used))) = frame::decode(rest) {
        let mut again = Vec::new();
        assert_eq!(frame::encode(&mut again, frame), Ok(()), "a frame that was read cannot be written");
        assert_eq!(again, rest[..used], "a frame is written differently than it was read");
        message(frame);
        rest = &rest[used..];
    }
}

fn message(frame: Frame<'_>) {
    if frame.kind == Kind::Message {
        survives::<Request>(frame.payload);
        survives::<Reply>(frame.payload);
    }
}

/// A message that one side can read must say the same when it is passed on.
fn survives<Message: Serialize + DeserializeOwned + PartialEq>(payload: &[u8]) {
    if let Ok(read) = serde_json::from_slice::<Message>(payload) {
        let written = serde_json::to_vec(&read).ok();
        let again = written.and_then(|text| serde_json::from_slice::<Message>(&text).ok());
        assert!(again.as_ref() == Some(&read), "a message changes when it is written and read again");
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn corpora_hold() {
        replay("frames", super::frames);
    }
}
