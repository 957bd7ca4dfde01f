//! Header fields: what a hop keeps for itself, and how a message says its length.

use httparse::Header;

/// Fields that concern one connection only. `Proxy-Authorization` is among them: it may hold a credential that is not
/// the upstream's business.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that decide where a message goes and where it ends; `Connection` cannot nominate them away.
const STRUCTURAL: &[&str] = &["host", "content-length"];

/// Fields of one message.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [Header<'a>]);

/// The length of a message as its head says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Unsaid,
    Bytes(u64),
    Chunked,
}

/// The length is said twice or in a way that can be read in two ways.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous;

impl<'a> Fields<'a> {
    /// All values of a field, in order.
    pub(crate) fn all(self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// The words of a comma-separated field, trimmed.
    pub(crate) fn words(self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name).flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
    }

    /// Whether `Connection` (or its proxy spelling) asks for the connection's end.
    pub(crate) fn asks_for_close(self) -> bool {
        let mut words = self.words("connection").chain(self.words("proxy-connection"));
        words.any(|word| word.eq_ignore_ascii_case(b"close"))
    }

    /// The one reading of `Content-Length` and `Transfer-Encoding`, or none at all.
    pub(crate) fn length(self) -> Result<Length, Ambiguous> {
        let (mut lengths, mut codings) = (self.all("content-length"), self.all("transfer-encoding"));
        match (lengths.next(), lengths.next(), codings.next(), codings.next()) {
            (None, _, None, _) => Ok(Length::Unsaid),
            (None, _, Some(coding), None) if coding.trim_ascii().eq_ignore_ascii_case(b"chunked") => {
                Ok(Length::Chunked)
            }
            (Some(digits), None, None, _) => {
                let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
                let text = std::str::from_utf8(digits).ok().filter(|_| plain);
                text.and_then(|text| text.parse().ok()).map(Length::Bytes).ok_or(Ambiguous)
            }
            _ => Err(Ambiguous),
        }
    }

    /// Writes the fields that go on to the next hop, each as a line; `except` names one more to leave out.
    pub(crate) fn write_end_to_end(self, head: &mut Vec<u8>, except: &[&str]) {
        for field in self.0 {
            let is = |name: &&str| field.name.eq_ignore_ascii_case(name);
            let nominated = || {
                let mut words = self.words("connection").chain(self.words("proxy-connection"));
                words.any(|word| word.eq_ignore_ascii_case(field.name.as_bytes())) && !STRUCTURAL.iter().any(is)
            };
            if HOP_BY_HOP.iter().any(is) || except.iter().any(is) || nominated() {
                continue;
            }
            head.extend_from_slice(field.name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(field.value);
            head.extend_from_slice(b"\r\n");
        }
    }
}
