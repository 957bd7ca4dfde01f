//! What a request's path names.
//!
//! Segments are taken from the path as it was sent. Ids contain nothing that needs an escape, so an escaped one names nothing;
//! paths within a project's source are decoded exactly once, and then checked by the domain.

use axum::extract::FromRequestParts;
use http::Uri;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use stead_domain::{Code, Error, Result, SourcePath};

use crate::errors::Failure;

/// The ids in a path `/v1/<collection>/<first>/<part>/<second>/…`; an absent one is empty.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// The id of the object.
    pub first: String,
    /// The id of its part.
    pub second: String,
}

impl Names {
    fn of(uri: &Uri) -> Self {
        let segment = |index| uri.path().split('/').nth(index).unwrap_or_default().to_owned();
        Self { first: segment(3), second: segment(5) }
    }

    /// The first id with its escapes undone, for names that are not ids of ours.
    pub(crate) fn first_decoded(&self) -> String {
        percent_decode_str(&self.first).decode_utf8_lossy().into_owned()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Names {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self::of(&parts.uri))
    }
}

/// The path of a file in `/v1/environments/{id}/files/{path}`, as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct RawSourcePath(String);

impl RawSourcePath {
    fn of(uri: &Uri) -> Self {
        Self(uri.path().splitn(6, '/').nth(5).unwrap_or_default().to_owned())
    }

    fn decoded(&self) -> Result<String> {
        let decoded = percent_decode_str(&self.0).decode_utf8();
        let decoded = decoded.map_err(|_| Error::new(Code::ProjectInvalid, "the path is not UTF-8").at("path"))?;
        // Something in front of us that decodes once more would see a way out, so no segment may become one.
        let escapes = |segment: &str| matches!(percent_decode_str(segment).decode_utf8_lossy().as_ref(), "." | "..");
        if decoded.split('/').any(escapes) {
            return Err(Error::new(Code::ProjectInvalid, "the path leaves the environment's root").at("path"));
        }
        Ok(decoded.into_owned())
    }

    /// The file or directory that it names (UHP Environments §3).
    pub(crate) fn parse(&self) -> Result<SourcePath> {
        SourcePath::parse(&self.decoded()?)
    }

    /// Whether it ends in a slash, and so can name a directory alone.
    pub(crate) fn says_directory(&self) -> Result<bool> {
        Ok(self.decoded()?.ends_with('/'))
    }

    /// The file that it names; a trailing slash would name a directory.
    pub(crate) fn parse_file(&self) -> Result<SourcePath> {
        let decoded = self.decoded()?;
        if decoded.ends_with('/') && decoded.len() > 1 {
            let message = "the path names a directory; make one with a POST to `directories`";
            return Err(Error::new(Code::ProjectInvalid, message).at("path"));
        }
        SourcePath::parse(&decoded)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RawSourcePath {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self::of(&parts.uri))
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

    use super::*;

    fn raw(path: &str) -> RawSourcePath {
        let uri: Uri = format!("/v1/environments/henv_1/files/{path}?executable=1").parse().unwrap();
        RawSourcePath::of(&uri)
    }

    #[test]
    fn hostile_paths_are_refused_whatever_their_spelling() {
        let cases: Vec<String> =
            serde_json::from_str(include_str!("../../../../tests/field-cases/C070-paths.json")).unwrap();
        for path in cases {
            assert_eq!(raw(&path).parse_file().unwrap_err().code, Code::ProjectInvalid, "{path}");
        }
        for path in ["a%2F..%2Fb", "%2fetc", "..%5cb", "a%0ab", "dir/", "dir%2F"] {
            assert!(raw(path).parse_file().is_err(), "{path}");
        }
        assert_eq!(raw("dir/").parse().unwrap().as_str(), "dir");
        assert!(raw("dir%2F").says_directory().unwrap() && !raw("dir").says_directory().unwrap());
        assert_eq!(raw("a%2Fb").parse().unwrap().as_str(), "a/b");
    }

    #[test]
    fn odd_names_arrive_as_they_are() {
        const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');
        let names: Vec<String> =
            serde_json::from_str(include_str!("../../../../tests/field-cases/C069-names.json")).unwrap();
        for name in names {
            let found = raw(&utf8_percent_encode(&name, SEGMENT).to_string()).parse_file();
            if name.chars().any(char::is_control) {
                assert!(found.is_err(), "{name}");
            } else {
                assert_eq!(found.unwrap().as_str(), name);
            }
        }
    }

    #[test]
    fn ids_are_taken_by_place() {
        let names = Names::of(&"/v1/containers/cntr_1/files/..%2f..%2fetc/content".parse().unwrap());
        assert_eq!((names.first.as_str(), names.second.as_str()), ("cntr_1", "..%2f..%2fetc"));
        assert_eq!(Names::of(&"/v1/uhp".parse().unwrap()).first, "");
    }
}
