//! Query parameters. Unknown ones are ignored.

use axum::extract::{FromRequestParts, Query as Pairs};
use http::request::Parts;
use stead_domain::{Error, Result};

use crate::errors::Failure;

/// The parameters of a request, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// The value of a parameter; of several, the last.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rfind(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A flag: absent or `0`, `false` is no; `1`, `true` is yes. A name without a value is refused: it may as well be a
    /// value that got lost, and a yes throws things away.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.get(name).map(|value| flag(name, value)).transpose()
    }
}

/// Reads a flag's value.
pub(crate) fn flag(name: &str, value: &str) -> Result<bool> {
    match value {
        "0" | "false" => Ok(false),
        "1" | "true" => Ok(true),
        _ => Err(Error::invalid(name, format!("`{name}` is 0 or 1 (`false` or `true`)"))),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let Pairs(pairs) = Pairs::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|_| Error::new(stead_domain::Code::InvalidInput, "the query cannot be read"))?;
        Ok(Self(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_counts_and_flags_are_flags() {
        let pairs = [("a", "1"), ("a", "false"), ("b", "x"), ("bare", "")];
        let query = Query(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
        assert_eq!(query.flag("a").unwrap(), Some(false));
        assert!(query.flag("b").is_err());
        assert_eq!(query.flag("bare").unwrap_err().param.as_deref(), Some("bare"));
        assert_eq!(query.flag("c").unwrap(), None);
    }
}
