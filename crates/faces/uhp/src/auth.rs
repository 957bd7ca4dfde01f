//! Who calls: an extractor per verb, so that each handler names in its signature what it needs.
//!
//! An extractor checks the protocol version, then the credential, then the verb, and runs before anything else of the
//! request is looked at: it is the first argument of every handler.

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use stead_domain::key::{Caller, Verb};
use stead_domain::{Code, Error};

use stead_face_frame::Gate;

use crate::errors::Failure;
use crate::state::FaceState;
use crate::version;

/// A request that needs no credential; the version is checked all the same.
#[derive(Debug)]
pub(crate) struct Anyone;

/// A caller that may see objects and download files.
#[derive(Debug)]
pub(crate) struct Reader(pub Caller);

/// A caller that may start, continue and cancel work.
#[derive(Debug)]
pub(crate) struct Runner(pub Caller);

/// A caller that may change harnesses, environments and files.
#[derive(Debug)]
pub(crate) struct Writer(pub Caller);

fn secret(parts: &Parts) -> Result<&str, Error> {
    let invalid = || Error::new(Code::CredentialInvalid, "the credential is not valid");
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let value = values
        .next()
        .ok_or_else(|| Error::new(Code::CredentialMissing, "no credential: send `Authorization: Bearer` with a key"))?;
    if values.next().is_some() {
        return Err(invalid());
    }
    let (scheme, secret) = value.to_str().ok().and_then(|text| text.trim().split_once(' ')).ok_or_else(invalid)?;
    let secret = secret.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !secret.is_empty() { Ok(secret) } else { Err(invalid()) }
}

impl Gate for Anyone {
    const VERBS: &'static [Verb] = &[];
}

impl Gate for Reader {
    const VERBS: &'static [Verb] = &[Verb::Read];
}

impl Gate for Runner {
    const VERBS: &'static [Verb] = &[Verb::Run];
}

impl Gate for Writer {
    const VERBS: &'static [Verb] = &[Verb::Write];
}

/// The caller, when its key has the verb of the gate.
async fn admitted<G: Gate>(parts: &Parts, state: &FaceState) -> Result<Caller, Failure> {
    version::check(&parts.headers)?;
    let caller = state.engine.authenticate(secret(parts)?).await?;
    for verb in G::VERBS {
        caller.require(*verb)?;
    }
    Ok(caller)
}

impl FromRequestParts<FaceState> for Anyone {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, _: &FaceState) -> Result<Self, Failure> {
        version::check(&parts.headers).map(|()| Self)
    }
}

impl FromRequestParts<FaceState> for Reader {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, state: &FaceState) -> Result<Self, Failure> {
        admitted::<Self>(parts, state).await.map(Self)
    }
}

impl FromRequestParts<FaceState> for Runner {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, state: &FaceState) -> Result<Self, Failure> {
        admitted::<Self>(parts, state).await.map(Self)
    }
}

impl FromRequestParts<FaceState> for Writer {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, state: &FaceState) -> Result<Self, Failure> {
        admitted::<Self>(parts, state).await.map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_credential_is_not_a_wrong_one() {
        let code = |values: &[&str]| {
            let mut request = http::Request::new(());
            for value in values {
                request.headers_mut().append(AUTHORIZATION, value.parse().unwrap());
            }
            let (parts, ()) = request.into_parts();
            secret(&parts).map(str::to_owned).map_err(|error| error.code)
        };
        assert_eq!(code(&[]), Err(Code::CredentialMissing));
        for wrong in [&["Basic abc"][..], &["Bearer"], &["Bearer "], &["abc"], &["Bearer a", "Bearer b"]] {
            assert_eq!(code(wrong), Err(Code::CredentialInvalid), "{wrong:?}");
        }
        assert_eq!(code(&["bearer  abc "]), Ok("abc".to_owned()));
    }
}
