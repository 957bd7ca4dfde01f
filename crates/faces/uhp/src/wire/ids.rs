//! UHP's spellings of the domain's identities (UHP §1).

use stead_domain::{AgentId, Code, Error, FileId, ProjectId, Result, SessionId, TurnId};

const HARNESS: &str = "chrn";
const RESPONSE: &str = "resp";
const CONTAINER: &str = "cntr";

/// A configured harness's id.
pub fn harness(id: AgentId) -> String {
    id.spelled(HARNESS)
}

/// A response's id.
pub fn response(id: TurnId) -> String {
    id.spelled(RESPONSE)
}

/// The id of a session's container.
pub fn container(id: SessionId) -> String {
    id.spelled(CONTAINER)
}

/// The other public spelling of a file's id, which callers without `UHP-Version` get from routes that two protocols share.
pub fn file_with_hyphen(id: FileId) -> String {
    format!("file-{}", id.hex())
}

/// Where an artifact is downloaded, relative to the server's base URL.
pub fn download_url(session: SessionId, file: FileId) -> String {
    format!("/v1/containers/{}/files/{file}/content", container(session))
}

// What is no id and what names nothing are one answer: these sentences are the core's own, in the core's words, which are
// translated with every other.

/// Reads a harness id; anything else names no harness.
pub fn parse_harness(text: &str) -> Result<AgentId> {
    AgentId::parse_spelled(HARNESS, text).map_err(|_| Error::new(Code::AgentNotFound, "there is no such agent"))
}

/// Reads a response id; anything else names no response.
pub fn parse_response(text: &str) -> Result<TurnId> {
    TurnId::parse_spelled(RESPONSE, text).map_err(|_| Error::new(Code::TurnNotFound, "there is no such turn"))
}

/// Reads a session id; anything else names no session.
pub fn parse_session(text: &str) -> Result<SessionId> {
    text.parse().map_err(|_| Error::new(Code::SessionNotFound, "there is no such session"))
}

/// Reads a container id; anything else holds no file.
pub fn parse_container(text: &str) -> Result<SessionId> {
    SessionId::parse_spelled(CONTAINER, text).map_err(|_| file_not_found())
}

/// Reads a file id in either spelling; anything else, a path for instance, names no file.
pub fn parse_file(text: &str) -> Result<FileId> {
    let parsed = match text.strip_prefix("file-") {
        Some(hex) => FileId::parse_spelled("file", &format!("file_{hex}")),
        None => text.parse(),
    };
    parsed.map_err(|_| file_not_found())
}

/// Reads an environment id; anything else names no environment.
pub fn parse_environment(text: &str) -> Result<ProjectId> {
    text.parse().map_err(|_| Error::new(Code::ProjectNotFound, "there is no such project"))
}

/// Reads a build's number; anything else is the number of no build.
pub fn parse_version(text: &str) -> Result<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if plain { text.parse().ok() } else { None };
    number.filter(|number| *number > 0).ok_or_else(|| Error::new(Code::BuildNotFound, "there is no such build"))
}

fn file_not_found() -> Error {
    Error::new(Code::FileNotFound, "there is no such file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_a_file_name_one_file_and_paths_name_none() {
        let id: FileId = "file_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap();
        assert_eq!(parse_file(&file_with_hyphen(id)).unwrap(), id);
        assert_eq!(parse_file(&id.to_string()).unwrap(), id);
        for wrong in
            ["", "file-", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "file-file_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00"]
        {
            assert_eq!(parse_file(wrong).unwrap_err().code, Code::FileNotFound, "{wrong}");
        }
        for wrong in ["0", "-1", "+1", "1.0", "99999999999", ""] {
            assert!(parse_version(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_version("12").unwrap(), 12);
    }
}
