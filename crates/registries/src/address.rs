//! The address of a registry, its user kept apart from it.

use std::fmt;

use percent_encoding::percent_decode_str;
use reqwest::{RequestBuilder, Url};

use crate::failure::Failure;

/// A registry: where it is, and who asks.
#[derive(Clone)]
pub(crate) struct Address {
    base: Url,
    user: Option<(String, String)>,
}

impl Address {
    /// Takes an address apart.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let mut base = Url::parse(text).map_err(|_| Failure::Unconfigured)?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(Failure::Unconfigured);
        }
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let name = decoded(base.username());
        let password = base.password().map(decoded).unwrap_or_default();
        let user = (!name.is_empty() || !password.is_empty()).then_some((name, password));
        strip(&mut base);
        base.set_query(None);
        Ok(Self { base, user })
    }

    /// The address of something in the registry; `path` is encoded already.
    pub(crate) fn join(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{path}", self.base.path().trim_end_matches('/')));
        url
    }

    /// Adds the user to a request for this registry's own origin.
    pub(crate) fn authorize(&self, url: &Url, request: RequestBuilder) -> RequestBuilder {
        match &self.user {
            Some((name, password)) if url.origin() == self.base.origin() => request.basic_auth(name, Some(password)),
            _ => request,
        }
    }
}

/// Takes the user out of an address.
pub(crate) fn strip(url: &mut Url) {
    // Only an address without a host refuses this, and has no user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Address").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_no_part_of_what_is_asked_for_or_shown() {
        let address = Address::parse("https://me%40x:hunter%2F2@host.test:8443/root/simple/?x=1#y").unwrap();
        assert_eq!(address.join("pip/").as_str(), "https://host.test:8443/root/simple/pip/");
        assert_eq!(address.join("@a%2Fb").as_str(), "https://host.test:8443/root/simple/@a%2Fb");
        assert!(!format!("{address:?}").contains("hunter"));
        assert_eq!(address.user, Some(("me@x".to_owned(), "hunter/2".to_owned())));
        for wrong in ["", "host", "ftp://host/x", "file:///x"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
