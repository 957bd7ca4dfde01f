//! The address of a repository. Accepted are `http://`, `https://` and `ssh://` URLs and the short form `user@host:path` of
//! ssh; everything else that git would understand (its helpers, local paths, other protocols) is refused by name.

use std::fmt;
use std::net::Ipv6Addr;

use super::percent;
use super::secret::Secret;

/// The longest address, in bytes.
const URL_MAX_BYTES: usize = 2048;
/// The user that code hosts take a bare token with.
const TOKEN_USER: &str = "x-access-token";
/// The user of ssh where an address names none: what code hosts take.
const SSH_USER: &str = "git";

/// How a repository is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// git over ssh.
    Ssh,
}

impl Transport {
    /// The scheme of its URLs.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Ssh => "ssh",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Ssh => 22,
        }
    }
}

/// What stood before the `@` of an http address, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user; the one that hosts take tokens with where the address holds a token alone.
    pub user: String,
    /// The password or token.
    pub password: Secret,
}

/// Where a repository is. `Display` shows what git is given: the address without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitUrl {
    transport: Transport,
    host: String,
    port: u16,
    address: String,
    credentials: Option<Credentials>,
}

/// Why an address is refused. Shows nothing of the address but a scheme of plain letters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefusal {
    /// Nothing was given.
    #[error("the url is empty")]
    Empty,
    /// More than 2048 bytes.
    #[error("the url is longer than {URL_MAX_BYTES} bytes")]
    TooLong,
    /// A control character or white space, as it is or encoded.
    #[error("the url holds a control character or white space")]
    Control,
    /// It, its host, user or path begins with `-`.
    #[error("the url, its host, its user or its path begins with `-`")]
    Dash,
    /// One of git's own helpers, such as `ext::`.
    #[error("the url names a helper program (`name::`)")]
    Helper,
    /// Another scheme.
    #[error("the scheme `{0}` is not fetched from")]
    Scheme(String),
    /// A path, or no address at all.
    #[error("the url is a local path or none that can be fetched from")]
    Local,
    /// No host, or one of characters that hosts do not have.
    #[error("the url names no host, or one that is malformed")]
    Host,
    /// A port that is no number from 1 to 65535.
    #[error("the port of the url is not a number from 1 to 65535")]
    Port,
    /// The port that mail is handed over at, which nobody serves repositories on.
    #[error("port 25 is not fetched from")]
    Mail,
    /// Nothing after the host.
    #[error("the url names no repository behind its host")]
    Path,
    /// A part after `?` or `#`.
    #[error("the url has a query or a fragment")]
    Fragment,
    /// A user or password that is not properly encoded, or a user that ssh would not take.
    #[error("the user or password in the url is malformed; encode special characters as %XX")]
    User,
    /// A password for ssh.
    #[error("a password in an ssh url is not used; send a key")]
    SshPassword,
}

impl GitUrl {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, UrlRefusal> {
        if text.is_empty() {
            return Err(UrlRefusal::Empty);
        }
        if text.len() > URL_MAX_BYTES {
            return Err(UrlRefusal::TooLong);
        }
        if text.chars().any(|character| character.is_control() || character.is_whitespace()) {
            return Err(UrlRefusal::Control);
        }
        if text.starts_with('-') {
            return Err(UrlRefusal::Dash);
        }
        let scheme_end = text.find(|character: char| !(character.is_ascii_alphanumeric() || "+-.".contains(character)));
        let (scheme, rest) = text.split_at(scheme_end.unwrap_or(text.len()));
        if rest.starts_with("::") {
            return Err(UrlRefusal::Helper);
        }
        let Some(rest) = rest.strip_prefix("://") else {
            return Self::parse_short(text);
        };
        let transport = match scheme.to_ascii_lowercase().as_str() {
            "http" => Transport::Http,
            "https" => Transport::Https,
            "ssh" => Transport::Ssh,
            _ => return Err(UrlRefusal::Scheme(scheme.chars().take(32).collect())),
        };
        if rest.contains(['#', '?']) {
            return Err(UrlRefusal::Fragment);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (host, port) = split_port(place)?;
        check_host(host)?;
        if path.trim_matches('/').is_empty() {
            return Err(UrlRefusal::Path);
        }
        let decoded = percent::decode(path).ok_or(UrlRefusal::Path)?;
        if decoded.chars().any(char::is_control) {
            return Err(UrlRefusal::Control);
        }
        let host = host.to_ascii_lowercase();
        let shown_port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let (address, credentials) = if transport == Transport::Ssh {
            let user = ssh_user(user)?;
            (format!("ssh://{user}@{host}{shown_port}{path}"), None)
        } else {
            let credentials = user.map(credentials).transpose()?.flatten();
            (format!("{}://{host}{shown_port}{path}", transport.scheme()), credentials)
        };
        Ok(Self { transport, host, port: port.unwrap_or(transport.port()), address, credentials })
    }

    /// `user@host:path`. Without the user it could be anything.
    fn parse_short(text: &str) -> Result<Self, UrlRefusal> {
        let (place, path) = text.split_once(':').ok_or(UrlRefusal::Local)?;
        let (user, host) = place.split_once('@').ok_or_else(|| {
            if place.contains('/') { UrlRefusal::Local } else { UrlRefusal::Scheme(place.chars().take(32).collect()) }
        })?;
        if place.contains('/') || path.starts_with(':') {
            return Err(UrlRefusal::Local);
        }
        let user = ssh_user(Some(user))?;
        check_host(host)?;
        if host.starts_with('[') {
            return Err(UrlRefusal::Host);
        }
        if path.starts_with('-') {
            return Err(UrlRefusal::Dash);
        }
        if path.trim_matches('/').is_empty() {
            return Err(UrlRefusal::Path);
        }
        let host = host.to_ascii_lowercase();
        let address = format!("{user}@{host}:{path}");
        Ok(Self { transport: Transport::Ssh, host, port: Transport::Ssh.port(), address, credentials: None })
    }

    /// How it is reached.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The host: a name, an IPv4 address, or an IPv6 address in brackets; lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, the transport's own where none is named.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The ports that fetching may need: one, and for plain HTTP on its own port that of TLS, which hosts redirect to.
    pub fn ports(&self) -> Vec<u16> {
        let tls = (self.transport, self.port) == (Transport::Http, Transport::Http.port());
        if tls { vec![self.port, Transport::Https.port()] } else { vec![self.port] }
    }

    /// The credentials that an http address held.
    pub fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// Host and port as git's credential protocol spells them: the port is left out where the address leaves it out.
    pub fn credential_host(&self) -> &str {
        let rest = self.address.split_once("://").map_or(self.address.as_str(), |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }
}

impl fmt::Display for GitUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.address)
    }
}

fn split_port(place: &str) -> Result<(&str, Option<u16>), UrlRefusal> {
    let end = if place.starts_with('[') {
        place.find(']').ok_or(UrlRefusal::Host)? + 1
    } else {
        place.find(':').unwrap_or(place.len())
    };
    let (host, port) = place.split_at(end);
    // `host:` is how some write the port that goes without saying.
    let Some(digits) = port.strip_prefix(':') else {
        return if port.is_empty() { Ok((host, None)) } else { Err(UrlRefusal::Host) };
    };
    if digits.is_empty() || digits.len() > 5 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(UrlRefusal::Port);
    }
    match digits.parse() {
        Ok(0) | Err(_) => Err(UrlRefusal::Port),
        Ok(25) => Err(UrlRefusal::Mail),
        Ok(port) => Ok((host, Some(port))),
    }
}

/// Names and addresses by their alphabet; what they mean is for whoever resolves them.
fn check_host(host: &str) -> Result<(), UrlRefusal> {
    if host.starts_with('-') {
        return Err(UrlRefusal::Dash);
    }
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').ok_or(UrlRefusal::Host)?;
        return address.parse::<Ipv6Addr>().map(|_| ()).map_err(|_| UrlRefusal::Host);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let label = |label: &str| !label.is_empty() && !label.starts_with('-');
    let name = host.strip_suffix('.').unwrap_or(host);
    if host.len() <= 253 && host.bytes().all(plain) && name.split('.').all(label) {
        Ok(())
    } else {
        Err(UrlRefusal::Host)
    }
}

fn ssh_user(user: Option<&str>) -> Result<String, UrlRefusal> {
    let Some(user) = user else { return Ok(SSH_USER.to_owned()) };
    if user.starts_with('-') {
        return Err(UrlRefusal::Dash);
    }
    if user.contains(':') {
        return Err(UrlRefusal::SshPassword);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'+');
    if user.is_empty() || user.len() > 64 || !user.bytes().all(plain) {
        return Err(UrlRefusal::User);
    }
    Ok(user.to_owned())
}

/// A name without a password is taken for a token: it is the shape that hosts hand tokens out for, and a name alone opens
/// nothing.
fn credentials(user: &str) -> Result<Option<Credentials>, UrlRefusal> {
    let (name, password) = match user.split_once(':') {
        Some((name, password)) => (name, password),
        None => (user, ""),
    };
    let decode = |text: &str| percent::decode(text).ok_or(UrlRefusal::User);
    let (name, password) = (decode(name)?, decode(password)?);
    // The credential protocol has one value per line.
    if name.chars().chain(password.chars()).any(char::is_control) {
        return Err(UrlRefusal::Control);
    }
    if name.starts_with('-') {
        return Err(UrlRefusal::Dash);
    }
    Ok(match (name.is_empty(), password.is_empty()) {
        (true, true) => None,
        (false, true) => Some(Credentials { user: TOKEN_USER.to_owned(), password: Secret::new(name) }),
        (true, false) => Some(Credentials { user: TOKEN_USER.to_owned(), password: Secret::new(password) }),
        (false, false) => Some(Credentials { user: name, password: Secret::new(password) }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_run_a_command_or_read_this_machine_is_refused_by_name() {
        use UrlRefusal::*;
        let scheme = |name: &str| Scheme(name.to_owned());
        for (url, expected) in [
            ("", Empty),
            ("ext::sh -c touch% /tmp/x", Control),
            ("ext::sh", Helper),
            ("fd::17/foo", Helper),
            ("http::ext::sh", Helper),
            ("http::ext::sh -c id", Control),
            ("file:///etc", scheme("file")),
            ("git://example.invalid/x", scheme("git")),
            ("git+ssh://example.invalid/x", scheme("git+ssh")),
            ("javascript:alert(1)", scheme("javascript")),
            ("host:path", scheme("host")),
            ("/etc", Local),
            ("../..", Local),
            ("./a:b", Local),
            ("/a@b:c", Local),
            ("--upload-pack=touch /tmp/x", Control),
            ("--upload-pack=x", Dash),
            ("-u", Dash),
            ("ssh://-oProxyCommand=touch/x", Dash),
            ("ssh://-o@host/x", Dash),
            ("ssh://git@-o/x", Dash),
            ("git@-oProxyCommand=x:y", Dash),
            ("-o@host:x", Dash),
            ("git@host:-x", Dash),
            ("https://example.invalid/x\nfile:///etc", Control),
            ("https://example.invalid/x%0ay", Control),
            ("https://u%0a:p@example.invalid/x", Control),
            ("https://", Host),
            ("https:///x", Host),
            ("https://user@/x", Host),
            ("https://a..b/x", Host),
            ("https://exämple.test/x", Host),
            ("https://a$b/x", Host),
            ("https://[::1/x", Host),
            ("https://[::1]x/x", Host),
            ("https://host", Path),
            ("https://host//", Path),
            ("git@host:", Path),
            ("https://host:/x", Port),
            ("https://host:0/x", Port),
            ("https://host:65536/x", Port),
            ("https://host:+1/x", Port),
            ("http://host:25/x", Mail),
            ("https://host/x#y", Fragment),
            ("https://host/x?y", Fragment),
            ("https://a%zz@host/x", User),
            ("ssh://a b@host/x", Control),
            ("ssh://a;b@host/x", User),
            ("ssh://git:secret@host/x", SshPassword),
        ] {
            assert_eq!(GitUrl::parse(url), Err(expected), "{url:?}");
        }
        assert_eq!(GitUrl::parse(&format!("https://h/{}", "x".repeat(2048))), Err(TooLong));
    }

    #[test]
    fn addresses_are_taken_apart() {
        for (url, shown, host, port) in [
            ("https://Code.Example/a/b.git", "https://code.example/a/b.git", "code.example", 443),
            ("http://10.0.0.1:8080/x", "http://10.0.0.1:8080/x", "10.0.0.1", 8080),
            ("HTTP://[::1]/x", "http://[::1]/x", "[::1]", 80),
            ("ssh://me@host:2222/~/x", "ssh://me@host:2222/~/x", "host", 2222),
            ("ssh://host/x", "ssh://git@host/x", "host", 22),
            ("git@host:team/x.git", "git@host:team/x.git", "host", 22),
            ("https://user:tok@host:444/x", "https://host:444/x", "host", 444),
        ] {
            let parsed = GitUrl::parse(url).unwrap();
            assert_eq!((parsed.to_string().as_str(), parsed.host(), parsed.port()), (shown, host, port), "{url}");
        }
        let credential_host = |url| GitUrl::parse(url).unwrap().credential_host().to_owned();
        assert_eq!(credential_host("https://a:b@host:444/x/y"), "host:444");
        assert_eq!(credential_host("https://host/x"), "host");
        assert_eq!(GitUrl::parse("http://host/x").unwrap().ports(), [80, 443]);
        assert_eq!(GitUrl::parse("http://host:8000/x").unwrap().ports(), [8000]);
    }

    #[test]
    fn credentials_are_split_off_decoded_and_never_shown() {
        for (url, expected) in [
            ("https://user:t%40k%3A@host/x", Some(("user", "t@k:"))),
            ("https://s3c@host/x", Some(("x-access-token", "s3c"))),
            ("https://:s3c@host/x", Some(("x-access-token", "s3c"))),
            ("https://s3c:@host/x", Some(("x-access-token", "s3c"))),
            ("https://a@b:s3c@host/x", Some(("a@b", "s3c"))),
            ("https://@host/x", None),
            ("https://host/x", None),
        ] {
            let parsed = GitUrl::parse(url).unwrap();
            let found = parsed.credentials().map(|found| (found.user.as_str(), found.password.reveal()));
            assert_eq!(found, expected, "{url}");
            assert_eq!(parsed.to_string(), "https://host/x");
            assert!(!format!("{parsed:?}").contains("s3c"), "{parsed:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn an_accepted_address_has_one_line_and_no_option(text in "(https?|ssh|ext)?(:|://|::)?[-a-z0-9@:/.\\[\\]%#?\n ]{0,30}") {
            if let Ok(url) = GitUrl::parse(&text) {
                let shown = url.to_string();
                proptest::prop_assert!(!shown.starts_with('-') && !url.host().starts_with('-'));
                proptest::prop_assert!(shown.chars().all(|character| !character.is_control() && character != ' '));
                proptest::prop_assert_eq!(GitUrl::parse(&shown).map(|again| again.to_string()), Ok(shown));
            }
        }
    }
}
