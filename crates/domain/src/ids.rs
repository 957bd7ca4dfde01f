//! Every kind of identity, in one append-only table.
//!
//! An id is a UUIDv7 inside and `<prefix>_` + 32 lower-case hex digits outside; the text form is what JSON, SQL, logs
//! and paths carry, and it sorts by creation. One thing has one id: where a protocol dictates another prefix for the
//! same thing, its face spells the same UUID with [`spelled`](TurnId::spelled) and reads it with
//! [`parse_spelled`](TurnId::parse_spelled).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::ports::IdSource;

/// Why a text is not an id. It names the kind that was expected and never echoes the input, which may be unbounded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a `{expected}_` id")]
pub struct ParseIdError {
    /// The prefix that was expected.
    pub expected: &'static str,
}

/// Reads `<prefix>_<32 lower-case hex>` strictly: prefix, length, alphabet and UUID version 7.
fn parse(prefix: &'static str, text: &str) -> Result<Uuid, ParseIdError> {
    let refused = ParseIdError { expected: prefix };
    let hex = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).ok_or(refused.clone())?;
    let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if hex.len() != 32 || !hex.bytes().all(lower_hex) {
        return Err(refused);
    }
    let uuid = Uuid::try_parse(hex).map_err(|_| refused.clone())?;
    if uuid.get_version_num() == 7 { Ok(uuid) } else { Err(refused) }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// What the text form begins with, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// A fresh id.
            pub fn new(source: &dyn IdSource) -> Self {
                Self(source.uuid_v7())
            }

            /// The same identity under another prefix, for a face whose protocol dictates one.
            pub fn spelled(self, prefix: &str) -> String {
                format!("{prefix}_{}", self.0.simple())
            }

            /// Reads the spelling that [`spelled`](Self::spelled) writes.
            pub fn parse_spelled(prefix: &'static str, text: &str) -> Result<Self, ParseIdError> {
                parse(prefix, text).map(Self)
            }

            /// The UUID as 32 hex digits, for directory names.
            pub fn hex(self) -> String {
                self.0.simple().to_string()
            }

            /// The bare UUID, for a face that derives a second spelling from it.
            pub fn uuid(self) -> Uuid {
                self.0
            }

            /// The identity that a bare UUID stands for.
            pub fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}_{}", $prefix, self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                parse($prefix, text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// A saved configuration of a harness (UHP: a configured harness, spelled `chrn_`).
    AgentId = "agent";
    /// One session's use of one environment.
    AttachmentId = "att";
    /// An entry of the audit log.
    AuditId = "audit";
    /// A computer an agent works on.
    EnvironmentId = "env";
    /// An uploaded file or an artifact.
    FileId = "file";
    /// An API key (never the secret itself).
    KeyId = "key";
    /// What one build step installed, frozen.
    LayerId = "layer";
    /// One recorded outside effect.
    OperationId = "op";
    /// A project (UHP: an environment; the prefix is UHP's).
    ProjectId = "henv";
    /// One start of one server process; the holder of leases.
    ServerId = "server";
    /// A conversation (UHP spelling, the first face to show it).
    SessionId = "hsess";
    /// One unit of work in a session (UHP: a response, spelled `resp_`).
    TurnId = "turn";
    /// A tenant.
    WorkspaceId = "ws";
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ports::IdSource;

    struct Fixed(Uuid);
    impl IdSource for Fixed {
        fn uuid_v7(&self) -> Uuid {
            self.0
        }
        fn secret(&self) -> [u8; 32] {
            [0; 32]
        }
    }

    fn sample() -> Uuid {
        Uuid::try_parse("018f3c2a7b4c7d3e9f6a5b4c3d2e1f00").unwrap()
    }

    #[test]
    fn text_round_trips_and_strangers_are_refused() {
        let id = ProjectId::new(&Fixed(sample()));
        assert_eq!(id.to_string(), "henv_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00");
        assert_eq!(id.to_string().parse::<ProjectId>().unwrap(), id);
        for wrong in [
            "",
            "henv_",
            "henv018f3c2a7b4c7d3e9f6a5b4c3d2e1f00",
            "turn_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00",
            "henv_018F3C2A7B4C7D3E9F6A5B4C3D2E1F00",
            "henv_018f3c2a7b4c4d3e9f6a5b4c3d2e1f00",
            "henv_018f3c2a-7b4c-7d3e-9f6a-5b4c3d2e1f00",
            "henv_018f3c2a7b4c7d3e9f6a5b4c3d2e1f0",
        ] {
            assert!(wrong.parse::<ProjectId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_face_may_spell_the_same_identity_otherwise() {
        let id = TurnId::new(&Fixed(sample()));
        assert_eq!(TurnId::parse_spelled("resp", &id.spelled("resp")).unwrap(), id);
        assert!(id.spelled("resp").parse::<TurnId>().is_err());
    }

    proptest! {
        #[test]
        fn no_input_panics(text in ".*") {
            let _ = text.parse::<SessionId>();
        }
    }
}
