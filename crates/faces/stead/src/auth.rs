//! Who calls.

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use stead_domain::key::Caller;
use stead_domain::{Code, Error};

use crate::refusal::Refusal;
use crate::state::FaceState;

/// A caller whose key was found. Extracted before anything else of a request is looked at.
pub(crate) struct Authenticated(pub(crate) Caller);

impl FromRequestParts<FaceState> for Authenticated {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &FaceState) -> Result<Self, Refusal> {
        let mut headers = parts.headers.get_all(AUTHORIZATION).iter();
        let Some(header) = headers.next() else {
            return Err(Error::new(Code::CredentialMissing, "this route needs a key").into());
        };
        let secret = header.to_str().ok().and_then(bearer).filter(|_| headers.next().is_none());
        let Some(secret) = secret else {
            return Err(Error::new(Code::CredentialInvalid, "the credential is not valid").into());
        };
        Ok(Self(state.engine.authenticate(secret).await?))
    }
}

/// The token of a bearer credential; the scheme's name is not case-sensitive (RFC 9110 §11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && !token.contains(' ')).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_credential_is_one() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer   abc "), Some("abc"));
        for wrong in ["", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "abc"] {
            assert_eq!(bearer(wrong), None, "{wrong}");
        }
    }
}
