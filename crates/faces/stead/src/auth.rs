//! Who calls: an extractor per verb, so that each handler names in its first argument what it needs.

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use stead_domain::key::{Caller, Verb};
use stead_domain::{Code, Error};
use stead_face_frame::Gate;

use crate::refusal::Refusal;
use crate::state::FaceState;

/// A request that needs no key.
pub(crate) struct Anyone;

/// A caller that may see objects.
pub(crate) struct Reader(pub(crate) Caller);

/// A caller that may change projects and start and cancel builds.
pub(crate) struct Writer(pub(crate) Caller);

/// A caller that administers its workspace.
pub(crate) struct Admin(pub(crate) Caller);

/// A caller that looks after the deployment.
pub(crate) struct Operator(pub(crate) Caller);

/// A caller that keeps keys: of its own workspace, or, as an operator, of any.
pub(crate) struct KeyKeeper(pub(crate) Caller);

/// A caller that may see who did what: in its own workspace, or, as an operator, in all.
pub(crate) struct Auditor(pub(crate) Caller);

/// A caller that may see workspaces: its own, or, as an operator, all.
pub(crate) struct Overseer(pub(crate) Caller);

impl Gate for Anyone {
    const VERBS: &'static [Verb] = &[];
}

impl FromRequestParts<FaceState> for Anyone {
    type Rejection = Refusal;

    async fn from_request_parts(_: &mut Parts, _: &FaceState) -> Result<Self, Refusal> {
        Ok(Self)
    }
}

macro_rules! gate {
    ($gate:ident: $($verb:ident)*) => {
        impl Gate for $gate {
            const VERBS: &'static [Verb] = &[$(Verb::$verb),*];
        }

        impl FromRequestParts<FaceState> for $gate {
            type Rejection = Refusal;

            async fn from_request_parts(parts: &mut Parts, state: &FaceState) -> Result<Self, Refusal> {
                admitted::<Self>(parts, state).await.map(Self)
            }
        }
    };
}

gate!(Reader: Read);
gate!(Writer: Write);
gate!(Admin: Admin);
gate!(Operator: Operator);
gate!(KeyKeeper: Admin Operator);
gate!(Auditor: Admin Operator);
gate!(Overseer: Read Operator);

/// The caller, when its key has one of the gate's verbs; the refusal names the first.
async fn admitted<G: Gate>(parts: &Parts, state: &FaceState) -> Result<Caller, Refusal> {
    let mut headers = parts.headers.get_all(AUTHORIZATION).iter();
    let Some(header) = headers.next() else {
        return Err(Error::new(Code::CredentialMissing, "this route needs a key").into());
    };
    let secret = header.to_str().ok().and_then(bearer).filter(|_| headers.next().is_none());
    let Some(secret) = secret else {
        return Err(Error::new(Code::CredentialInvalid, "the credential is not valid").into());
    };
    let caller = state.engine.authenticate(secret).await?;
    if let Some(first) = G::VERBS.first()
        && !G::VERBS.iter().any(|verb| caller.require(*verb).is_ok())
    {
        caller.require(*first)?;
    }
    Ok(caller)
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
