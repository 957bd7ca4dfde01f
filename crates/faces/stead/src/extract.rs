//! What a request's path and query say, with refusals that are this face's own.

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use stead_domain::{Code, Error};

use crate::refusal::Refusal;

/// The names in a path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

/// The parameters of a query.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        // What is not UTF-8 is the name of nothing.
        let missing = |_| Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is nothing of this name");
        found.map(|axum::extract::Path(names)| Self(names)).map_err(missing)
    }
}

/// What a query may say.
pub(crate) trait Parameters {
    /// The names of its parameters.
    const NAMES: &'static [&'static str];
}

impl<T: DeserializeOwned + Parameters, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        if let Ok(axum::extract::Query(pairs)) = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            && let Some((unknown, _)) = pairs.into_iter().find(|(name, _)| !T::NAMES.contains(&name.as_str()))
        {
            let known: Vec<String> = T::NAMES.iter().map(|name| format!("`{name}`")).collect();
            let message = format!("this route has no such parameter; it has {}", known.join(", "));
            return Err(Error::invalid(unknown, message).into());
        }
        let found = axum::extract::Query::try_from_uri(&parts.uri);
        let refused =
            |_| Error::new(Code::InvalidInput, "the query cannot be read: a parameter is there twice or is no text");
        found.map(|axum::extract::Query(read)| Self(read)).map_err(|error| refused(error).into())
    }
}
