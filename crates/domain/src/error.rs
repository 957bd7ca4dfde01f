//! What the core says when it refuses, in its own closed vocabulary.
//!
//! A [`Code`] is stable and machine-readable; its [`ErrorKind`] says what sort of fault it is. Each face renders codes
//! to its protocol's status, code and body in one file of its own. `message` is public: it never carries credentials,
//! host names, paths of this machine or stack traces.

use std::fmt;

/// The sort of fault, independent of any protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong in itself.
    Invalid,
    /// There is nothing of that name in the caller's workspace.
    NotFound,
    /// The request is right but the object is in another state.
    Conflict,
    /// The caller's key may not do this.
    Denied,
    /// The caller did not prove who it is.
    Unauthenticated,
    /// More bytes than the limit.
    TooLarge,
    /// More requests or objects than allowed.
    TooMany,
    /// A thing Stead does not do here.
    Unsupported,
    /// No capacity, or a part that is needed does not answer.
    Unavailable,
    /// A fault of the server itself.
    Internal,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $kind:ident;)*) => {
        /// The stable code of a refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {$(
            $(#[$doc])*
            $name,
        )*}

        impl Code {
            /// Every code, for tables and tests.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The code as text, snake_case.
            pub const fn as_str(self) -> &'static str {
                match self {$(Code::$name => $text,)*}
            }

            /// The sort of fault that the code stands for.
            pub const fn kind(self) -> ErrorKind {
                match self {$(Code::$name => ErrorKind::$kind,)*}
            }
        }
    };
}

codes! {
    /// A field, a body or a parameter is malformed.
    InvalidInput = "invalid_input", Invalid;
    /// A field asks for something that is not served; the message names it.
    Unsupported = "unsupported", Unsupported;
    /// No agent of that id.
    AgentNotFound = "agent_not_found", NotFound;
    /// No session of that id.
    SessionNotFound = "session_not_found", NotFound;
    /// No turn of that id.
    TurnNotFound = "turn_not_found", NotFound;
    /// No file, artifact or source path of that name.
    FileNotFound = "file_not_found", NotFound;
    /// No project of that id.
    ProjectNotFound = "project_not_found", NotFound;
    /// No build of that number.
    BuildNotFound = "build_not_found", NotFound;
    /// No key of that id.
    KeyNotFound = "key_not_found", NotFound;
    /// No workspace of that id or name that the caller may see.
    WorkspaceNotFound = "workspace_not_found", NotFound;
    /// Another workspace has that name; `detail.workspace` is its id.
    WorkspaceExists = "workspace_exists", Conflict;
    /// The continued session belongs to another agent.
    AgentMismatch = "agent_mismatch", Conflict;
    /// A turn is active in the session.
    SessionBusy = "session_busy", Conflict;
    /// The project's mount path is occupied.
    ProjectExists = "project_exists", Conflict;
    /// A build of the project is not ended.
    ProjectBusy = "project_busy", Conflict;
    /// The version is active, or a task reads it.
    VersionInUse = "version_in_use", Conflict;
    /// The project, or the version asked for, has nothing built.
    ProjectNotReady = "project_not_ready", Conflict;
    /// A project name without a path segment, or a path that leaves the root or is not a plain file or directory.
    ProjectInvalid = "project_invalid", Invalid;
    /// The harness of the agent does not exist here.
    HarnessUnsupported = "harness_unsupported", Invalid;
    /// No model can serve the turn.
    ModelUnavailable = "model_unavailable", Invalid;
    /// The file is not the one that the caller's precondition names.
    PreconditionFailed = "precondition_failed", Conflict;
    /// The workspace keeps as much as it may; `detail.quota` says of what, `detail.max_bytes` and `detail.used_bytes` (of
    /// what is counted, `detail.max` and `detail.used`) how much.
    QuotaExhausted = "quota_exhausted", TooMany;
    /// More bytes than the limit; `detail.max_bytes` says how many fit.
    FileTooLarge = "file_too_large", TooLarge;
    /// No credential.
    CredentialMissing = "credential_missing", Unauthenticated;
    /// A credential that is malformed, unknown or revoked.
    CredentialInvalid = "credential_invalid", Unauthenticated;
    /// The key lacks the verb that the route needs.
    ScopeInsufficient = "scope_insufficient", Denied;
    /// There is no capacity for another environment.
    CapacityExhausted = "capacity_exhausted", Unavailable;
    /// The place where builds run or files are kept does not answer.
    BackendUnavailable = "backend_unavailable", Unavailable;
    /// The bytes of a file are damaged or lost; uploading them again repairs it. Trying again does not.
    ContentsDamaged = "contents_damaged", Internal;
    /// A fault of the server itself; the cause is in its log under the request id.
    Internal = "internal", Internal;
}

/// A refusal of the core.
#[derive(Debug, Clone)]
pub struct Error {
    /// The stable code.
    pub code: Code,
    /// One safe sentence for the caller: lower-case start, no final stop.
    pub message: String,
    /// The field, parameter or path that is at fault, dotted.
    pub param: Option<String>,
    /// Structured facts that the code's documentation names.
    pub detail: Option<serde_json::Value>,
    /// What went wrong inside; for the log alone.
    pub cause: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

/// The result of a decision or a use case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A refusal with its public sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: None, detail: None, cause: None }
    }

    /// A malformed field.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidInput, message).at(param)
    }

    /// A field that asks for something not served.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::Unsupported, message).at(param)
    }

    /// A fault of the server itself: the cause goes to the log, the caller learns only that it happened.
    pub fn internal(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        let mut error = Self::new(Code::Internal, "the server failed to carry this out");
        error.cause = Some(std::sync::Arc::new(cause));
        error
    }

    /// Names the field at fault.
    pub fn at(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Adds the structured facts.
    pub fn detail(mut self, detail: serde_json::Value) -> Self {
        self.detail = Some(detail);
        self
    }

    /// Keeps what went wrong inside, for the log.
    pub fn because(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.cause = Some(std::sync::Arc::new(cause));
        self
    }

    /// The sort of fault.
    pub fn kind(&self) -> ErrorKind {
        self.code.kind()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}
