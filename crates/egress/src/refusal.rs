//! Refusals, and the answers that tell a program inside the sandbox what happened.

use std::borrow::Cow;
use std::io;

use stead_outbound::{DialError, Host};

use crate::socks::{self, Reply};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $status:literal, $text:literal;)*) => {
        /// Why the proxy did not do what was asked.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RefusalCode { $($(#[$doc])* $variant,)* }

        impl RefusalCode {
            /// The stable word in the `X-Stead-Egress` header and in the log.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            fn status(self) -> &'static str {
                match self { $(Self::$variant => $status,)* }
            }

            fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// The policy lists exact names without this one.
    NameNotAllowed = "name_not_allowed", "403 Forbidden", "the network policy does not allow this host";
    /// The policy lists exact names, and an address was asked for.
    AddressLiteral = "ip_literal", "403 Forbidden", "the network policy allows names, not addresses";
    /// The policy is for one host, and this is another host or port. Its status tells it from any answer of the host's: a
    /// redirect that is not followed is no refusal by the host.
    AnotherHost = "another_host", "470 Another Host", "only one host may be reached, and this is another host or port";
    /// The policy does not open the port.
    PortNotAllowed = "port_not_allowed", "403 Forbidden", "the network policy does not allow this port";
    /// No address of the host may be reached.
    AddressDenied = "address_denied", "403 Forbidden", "the host has no address that may be reached";
    /// The sandbox has used up its bytes.
    ByteLimit = "byte_limit", "403 Forbidden", "the transfer limit is used up";
    /// The tunnel names no server, or does not open with TLS.
    ServerNameMissing = "sni_missing", "403 Forbidden", "the tunnel does not open with a TLS server name";
    /// The tunnel's server name is not the host that was asked for.
    ServerNameMismatch = "sni_mismatch", "403 Forbidden", "the TLS server name is not the host of the tunnel";
    /// The tunnel hides its server name.
    ServerNameEncrypted = "sni_encrypted", "403 Forbidden", "an encrypted TLS server name is not allowed";
    /// The request cannot be understood.
    BadRequest = "bad_request", "400 Bad Request", "malformed request";
    /// The length of the request is said twice, or in a way that two readers may read differently.
    AmbiguousLength = "ambiguous_length", "400 Bad Request", "the length of the request is ambiguous";
    /// `Host` is missing, repeated, or differs from the URL.
    HostMismatch = "host_mismatch", "400 Bad Request", "the Host header does not equal the host of the URL";
    /// The request is one for an origin server.
    NotForAProxy = "not_a_proxy_request", "400 Bad Request", "this is a proxy: use CONNECT or an absolute http:// URL";
    /// A URL of another scheme.
    SchemeNotSupported = "scheme_not_supported", "400 Bad Request", "only http:// URLs and CONNECT are supported";
    /// SOCKS: the client insists on authentication.
    SocksMethod = "socks_method", "400 Bad Request", "no authentication is needed and none is offered";
    /// SOCKS: `BIND`, `UDP ASSOCIATE`, or nothing that exists.
    SocksCommand = "socks_command", "400 Bad Request", "only CONNECT is supported";
    /// SOCKS: neither IPv4, IPv6 nor a name.
    SocksAddress = "socks_address", "400 Bad Request", "the address type is not supported";
    /// The head exceeds its bound.
    HeadTooLarge = "head_too_large", "431 Request Header Fields Too Large", "the request head is too large";
    /// The head did not arrive in time.
    HeadTimeout = "head_timeout", "408 Request Timeout", "the request head did not arrive in time";
    /// Too many connections at once.
    TooManyConnections = "too_many_connections", "503 Service Unavailable", "too many connections at once";
    /// The name could not be resolved.
    ResolveFailed = "resolve_failed", "502 Bad Gateway", "could not resolve the host";
    /// The connection failed.
    ConnectFailed = "connect_failed", "502 Bad Gateway", "could not connect to the host";
    /// The answer cannot be understood.
    BadResponse = "bad_response", "502 Bad Gateway", "the host sent a malformed response";
    /// Nothing happened for too long.
    IdleTimeout = "idle_timeout", "504 Gateway Timeout", "the host did not answer in time";
    /// The proxy cannot judge addresses at present.
    Unavailable = "unavailable", "503 Service Unavailable", "the proxy is not ready";
}

impl RefusalCode {
    fn reply(self) -> Reply {
        match self {
            Self::NameNotAllowed
            | Self::AddressLiteral
            | Self::AnotherHost
            | Self::PortNotAllowed
            | Self::AddressDenied
            | Self::ByteLimit => Reply::NotAllowed,
            Self::ResolveFailed | Self::ConnectFailed => Reply::HostUnreachable,
            Self::SocksCommand => Reply::CommandNotSupported,
            Self::SocksAddress => Reply::AddressTypeNotSupported,
            _ => Reply::GeneralFailure,
        }
    }

    /// Whether this is a failure of the network rather than a decision of ours.
    pub(crate) fn is_failure(self) -> bool {
        matches!(
            self,
            Self::ResolveFailed | Self::ConnectFailed | Self::BadResponse | Self::IdleTimeout | Self::Unavailable
        )
    }
}

/// A code with the line of text that goes to the client.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: RefusalCode,
    text: Cow<'static, str>,
    reply: Reply,
}

/// How a client speaks, and so how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Http,
    /// SOCKS before the method is agreed on: there is one refusal, "no acceptable method".
    SocksGreeting,
    Socks,
}

impl From<RefusalCode> for Refusal {
    fn from(code: RefusalCode) -> Self {
        Self { code, text: Cow::Borrowed(code.text()), reply: code.reply() }
    }
}

impl From<DialError> for Refusal {
    fn from(error: DialError) -> Self {
        let code = match &error {
            // "Not allowed" would make its reader look for the address in a list that holds none.
            DialError::NameNotAllowed { host: Host::Literal(_) } => return RefusalCode::AddressLiteral.into(),
            DialError::NameNotAllowed { .. } => RefusalCode::NameNotAllowed,
            DialError::PortNotAllowed { .. } => RefusalCode::PortNotAllowed,
            DialError::AllDenied { .. } => RefusalCode::AddressDenied,
            DialError::Resolve { .. } => RefusalCode::ResolveFailed,
            DialError::Connect { .. } => RefusalCode::ConnectFailed,
            DialError::OwnAddresses { .. } => RefusalCode::Unavailable,
        };
        let reply = match &error {
            DialError::Connect { source, .. } => match source.kind() {
                io::ErrorKind::ConnectionRefused => Reply::ConnectionRefused,
                io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
                io::ErrorKind::TimedOut => Reply::TimeToLiveExpired,
                _ => Reply::HostUnreachable,
            },
            _ => code.reply(),
        };
        // The messages hold the host, whose alphabet is that of a parsed name, and no address we resolved.
        Self { code, text: Cow::Owned(error.to_string()), reply }
    }
}

impl Refusal {
    /// The answer in the client's way of speaking.
    pub(crate) fn answer_in(&self, dialect: Dialect) -> Vec<u8> {
        match dialect {
            Dialect::Http => self.answer(),
            Dialect::SocksGreeting => socks::NO_METHOD.to_vec(),
            Dialect::Socks => self.reply.message().to_vec(),
        }
    }

    /// The whole HTTP answer. It always closes the connection: what follows a refused head is not trusted to be a head.
    pub(crate) fn answer(&self) -> Vec<u8> {
        let verb = if self.code.is_failure() { "failed" } else { "refused" };
        let body = format!("stead: {}\n", self.text);
        format!(
            "HTTP/1.1 {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nX-Stead-Egress: {verb} {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.code.status(),
            body.len(),
            self.code.as_str(),
        )
        .into_bytes()
    }
}

/// Why an exchange ended early: with an answer for the client, or with a connection that is of no use any more.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(Refusal),
    Io(io::Error),
}

impl From<RefusalCode> for Failure {
    fn from(code: RefusalCode) -> Self {
        Self::Refused(code.into())
    }
}

impl From<DialError> for Failure {
    fn from(error: DialError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
