//! The HTTP interface as a client without any library reaches it: paths, framing and moments of parting are the test's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::server::TestServer;

/// The longest that a test waits for the next byte.
const PATIENCE: Duration = Duration::from_mins(2);

/// A caller of one server.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    address: String,
    key: String,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
}

/// A body as it arrives, its framing taken off.
#[derive(Debug)]
pub(crate) struct Body {
    reader: BufReader<TcpStream>,
    chunked: bool,
    /// Bytes left of the body, or of the chunk.
    left: u64,
    ended: bool,
}

/// How a request's body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length,
    Chunked,
}

impl Api {
    /// A caller with the server's first key.
    pub(crate) fn of(server: &TestServer) -> Self {
        let key = std::fs::read_to_string(server.key_file()).unwrap();
        Self { address: server.url().trim_start_matches("http://").to_owned(), key: key.trim().to_owned() }
    }

    /// A caller with another key.
    pub(crate) fn with_key(server: &TestServer, key: &str) -> Self {
        Self { key: key.to_owned(), ..Self::of(server) }
    }

    /// The secret it calls with.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Sends a request and returns when the answer's head is there. None when the server went away.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        framing: Framing,
    ) -> Option<Opened> {
        let connection = TcpStream::connect(&self.address).ok()?;
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n",
            self.address, self.key
        );
        for (name, value) in headers {
            for part in [name, ": ", value, "\r\n"] {
                request.push_str(part);
            }
        }
        let mut bytes = match framing {
            Framing::Length => format!("{request}Content-Length: {}\r\n\r\n", body.len()).into_bytes(),
            Framing::Chunked => format!("{request}Transfer-Encoding: chunked\r\n\r\n").into_bytes(),
        };
        match framing {
            Framing::Length => bytes.extend_from_slice(body),
            Framing::Chunked => {
                for piece in body.chunks(64 << 10) {
                    bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                    bytes.extend_from_slice(piece);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        // A server that refuses early stops reading; what it says then is still to be read.
        let _ = (&connection).write_all(&bytes);
        Self::head(BufReader::new(connection))
    }

    fn head(mut reader: BufReader<TcpStream>) -> Option<Opened> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let status = line.split(' ').nth(1)?.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.parse().unwrap());
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let left = if chunked { 0 } else { length.unwrap_or(u64::MAX) };
        Some(Opened { status, headers, body: Body { reader, chunked, left, ended: false } })
    }

    /// Sends a request and reads the whole answer; None when the server went away meanwhile.
    pub(crate) fn try_send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Answer> {
        let answer = self.open(method, path, headers, body, Framing::Length)?.finish()?;
        crate::documented::check(method, path, &answer);
        Some(answer)
    }

    /// Sends a request and reads the whole answer.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_send(method, path, headers, body).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }
}

impl Opened {
    pub(crate) fn finish(mut self) -> Option<Answer> {
        let mut body = Vec::new();
        self.body.read_to_end(&mut body).ok()?;
        Some(Answer { status: self.status, headers: self.headers, body })
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body of an answer of any status.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{} {}", self.status, self.text()))
    }

    /// The body of an answer that must be a success.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let broken = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        if self.left == 0 && self.chunked && !self.ended {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            self.left = u64::from_str_radix(line.trim(), 16).map_err(|_| broken())?;
            self.ended = self.left == 0;
        }
        if self.left == 0 || self.ended {
            return Ok(0);
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.reader.read(&mut buffer[..most])?;
        if read == 0 {
            return if self.left == u64::MAX { Ok(0) } else { Err(broken()) };
        }
        if self.left != u64::MAX {
            self.left -= read as u64;
        }
        if self.chunked && self.left == 0 {
            let mut end = [0; 2];
            self.reader.read_exact(&mut end)?;
        }
        Ok(read)
    }
}
