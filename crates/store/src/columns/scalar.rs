//! Values that are one column.

use std::time::Duration;

use stead_domain::agent::Harness;
use stead_domain::attachment::Pin;
use stead_domain::audit::AuditTarget;
use stead_domain::build::{BuildFailure, BuildState, Package, Stage, Version};
use stead_domain::declared::Declared;
use stead_domain::environment::{EnvironmentFailure, EnvironmentState};
use stead_domain::key::{SecretDigest, Verb};
use stead_domain::network::{BuildNetworkPolicy, NetworkPolicy};
use stead_domain::operation::{OperationKind, OperationState};
use stead_domain::session::Face;
use stead_domain::turn::{TurnInput, TurnOutcome, TurnState};
use stead_domain::{
    AgentId, AttachmentId, AuditId, BlobId, EnvironmentId, FileId, KeyId, LayerId, OperationId, ProjectId, ServerId,
    SessionId, Slug, SourcePath, Timestamp, TurnId, WorkspaceId,
};

use super::{Cause, Column, UnknownWord, from_int, from_json, from_text, text, to_json};
use crate::driver::Value;

impl<T: Column> Column for Option<T> {
    const NULL: Value = T::NULL;

    fn to_value(&self) -> Result<Value, Cause> {
        self.as_ref().map_or(Ok(T::NULL), T::to_value)
    }

    fn from_value(value: Value) -> Result<Self, Cause> {
        if value == T::NULL { Ok(None) } else { T::from_value(value).map(Some) }
    }
}

/// Kept as what `Display` writes and `FromStr` reads.
macro_rules! shown_columns {
    ($($kind:ty),* $(,)?) => {$(
        impl Column for $kind {
            const NULL: Value = Value::Text(None);
            fn to_value(&self) -> Result<Value, Cause> {
                Ok(Value::Text(Some(self.to_string())))
            }
            fn from_value(value: Value) -> Result<Self, Cause> {
                Ok(from_text(value)?.parse::<$kind>()?)
            }
        }
    )*};
}

shown_columns!(
    AgentId,
    AttachmentId,
    AuditId,
    BlobId,
    BuildNetworkPolicy,
    EnvironmentId,
    FileId,
    KeyId,
    LayerId,
    NetworkPolicy,
    OperationId,
    ProjectId,
    ServerId,
    SessionId,
    TurnId,
    WorkspaceId,
);

/// Kept as the word that `as_str` gives.
macro_rules! named_columns {
    ($($kind:ty: $parse:expr),* $(,)?) => {$(
        impl Column for $kind {
            const NULL: Value = Value::Text(None);
            fn to_value(&self) -> Result<Value, Cause> {
                Ok(text(self.as_str()))
            }
            fn from_value(value: Value) -> Result<Self, Cause> {
                let word = from_text(value)?;
                let found: Option<$kind> = $parse(word.as_str());
                found.ok_or_else(|| UnknownWord(word).into())
            }
        }
    )*};
}

named_columns!(
    BuildState: BuildState::parse,
    EnvironmentState: EnvironmentState::parse,
    Face: Face::parse,
    Harness: Harness::parse,
    OperationKind: OperationKind::parse,
    OperationState: OperationState::parse,
    Slug: |word: &str| Some(Slug::from_stored(word.to_owned())),
    SourcePath: |word: &str| SourcePath::recorded(word).ok(),
    Stage: Stage::parse,
    TurnState: TurnState::parse,
);

/// Kept as JSON: nested values that no statement looks into.
macro_rules! json_columns {
    ($($kind:ty),* $(,)?) => {$(
        impl Column for $kind {
            const NULL: Value = Value::Text(None);
            fn to_value(&self) -> Result<Value, Cause> {
                to_json(self)
            }
            fn from_value(value: Value) -> Result<Self, Cause> {
                from_json(value)
            }
        }
    )*};
}

json_columns!(
    BuildFailure,
    Declared,
    EnvironmentFailure,
    TurnInput,
    TurnOutcome,
    Vec<AuditTarget>,
    Vec<Package>,
    Vec<Pin>,
    Vec<String>,
    Vec<Verb>,
    Version,
);

/// Kept as a number.
macro_rules! number_columns {
    ($($kind:ty),* $(,)?) => {$(
        impl Column for $kind {
            const NULL: Value = Value::Int(None);
            fn to_value(&self) -> Result<Value, Cause> {
                Ok(Value::Int(Some(i64::try_from(*self)?)))
            }
            fn from_value(value: Value) -> Result<Self, Cause> {
                Ok(<$kind>::try_from(from_int(value)?)?)
            }
        }
    )*};
}

number_columns!(i64, u32, u64, usize);

impl Column for bool {
    const NULL: Value = Value::Int(None);

    fn to_value(&self) -> Result<Value, Cause> {
        Ok(Value::Int(Some(i64::from(*self))))
    }

    fn from_value(value: Value) -> Result<Self, Cause> {
        match from_int(value)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(UnknownWord(other.to_string()).into()),
        }
    }
}

impl Column for String {
    const NULL: Value = Value::Text(None);

    fn to_value(&self) -> Result<Value, Cause> {
        Ok(text(self))
    }

    fn from_value(value: Value) -> Result<Self, Cause> {
        from_text(value)
    }
}

impl Column for SecretDigest {
    const NULL: Value = Value::Text(None);

    fn to_value(&self) -> Result<Value, Cause> {
        Ok(text(&self.0))
    }

    fn from_value(value: Value) -> Result<Self, Cause> {
        from_text(value).map(SecretDigest)
    }
}

impl Column for Timestamp {
    const NULL: Value = Value::Int(None);

    fn to_value(&self) -> Result<Value, Cause> {
        Ok(Value::Int(Some(self.as_micros())))
    }

    fn from_value(value: Value) -> Result<Self, Cause> {
        from_int(value).map(Timestamp::from_micros)
    }
}

/// Kept in microseconds, as instants are.
impl Column for Duration {
    const NULL: Value = Value::Int(None);

    fn to_value(&self) -> Result<Value, Cause> {
        Ok(Value::Int(Some(i64::try_from(self.as_micros())?)))
    }

    fn from_value(value: Value) -> Result<Self, Cause> {
        Ok(Duration::from_micros(u64::try_from(from_int(value)?)?))
    }
}
