//! A value that is never shown.

use std::fmt;

use super::{base64, percent};

/// A token, password or key. Neither `Debug` nor `Display` shows it; only [`Secret::reveal`] gives it out.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the pipe it goes through.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Blanks the secret in a text: as it is, as a URL spells it, and where base64 holds it, alone or amid something else.
    pub fn scrub(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let encoded = percent::encode(&self.0);
        let lower = percent::encode_lower(&self.0);
        let plain = [self.0.as_str(), &encoded, &lower];
        let text = plain.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"));
        base64::fragments(self.0.as_bytes()).iter().fold(text, |text, fragment| base64::blank(&text, fragment))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_itself_nowhere() {
        let secret = Secret::new("t/k:1");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(secret.scrub("a t/k:1 b t%2Fk%3A1 c t%2fk%3a1"), "a *** b *** c ***");
        assert_eq!(Secret::new("").scrub("same"), "same");
        // What follows the user `u`, `us`, `use` in a header, in the alphabet of headers and in that of URLs.
        for encoded in ["dTp0L2s6MQ==", "dXM6dC9rOjE=", "dXNlOnQvazox", "dC9rOjE", "dC9rOjEgYW5kIG1vcmU="] {
            assert_eq!(secret.scrub(&format!("fatal: Basic {encoded}, no")), "fatal: Basic ***, no");
        }
        assert_eq!(Secret::new("\u{ff}\u{ff}???").scrub("w7_Dvz8_Pw w7/Dvz8/Pw"), "*** ***");
        assert_eq!(Secret::new("a").scrub("YWJj"), "YWJj", "a letter is no secret");
    }
}
