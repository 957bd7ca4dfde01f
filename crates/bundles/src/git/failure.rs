//! What git's error text means. Git has no other way of saying it; the text is that of the C locale.

/// Why git did not fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitFailure {
    /// The host wants credentials, or refuses those it was given.
    Credentials,
    /// There is no repository there, as far as the host says.
    NotFound,
    /// The host leads to another host or port, which is not followed.
    Redirected,
    /// The repository has no such ref, or gives no commit out by its id.
    NoSuchRef,
    /// The host cannot leave the history out.
    NotShallow,
    /// The key of an ssh host is not the one that the caller knows.
    HostKey,
    /// The certificate of a TLS host is not trusted.
    Certificate,
    /// The host does not answer, or stopped answering.
    Unreachable,
    /// More came than may be written.
    TooLarge,
    /// Something else, in words that are not to be shown.
    Unquoted,
    /// Something else, in git's words: one line, bounded, without control characters.
    Other(String),
}

/// The first match decides: a refusal of ssh is followed by git's guess that the repository may not exist.
const WORDS: &[(&str, GitFailure)] = &[
    ("dumb http transport does not support shallow", GitFailure::NotShallow),
    ("does not support shallow", GitFailure::NotShallow),
    ("does not support --depth", GitFailure::NotShallow),
    ("not our ref", GitFailure::NoSuchRef),
    ("unadvertised object", GitFailure::NoSuchRef),
    ("couldn't find remote ref", GitFailure::NoSuchRef),
    ("no such remote ref", GitFailure::NoSuchRef),
    ("file too large", GitFailure::TooLarge),
    ("no space left on device", GitFailure::TooLarge),
    ("died of signal 25", GitFailure::TooLarge),
    ("host key verification failed", GitFailure::HostKey),
    ("certificate", GitFailure::Certificate),
    ("could not read username", GitFailure::Credentials),
    ("unable to get password", GitFailure::Credentials),
    ("could not read password", GitFailure::Credentials),
    ("authentication failed", GitFailure::Credentials),
    ("permission denied", GitFailure::Credentials),
    ("too many authentication failures", GitFailure::Credentials),
    // What the egress proxy answers for any host but the one that it was opened for.
    ("returned error: 470", GitFailure::Redirected),
    ("response 470", GitFailure::Redirected),
    ("http code 470 from proxy", GitFailure::Redirected),
    ("returned error: 401", GitFailure::Credentials),
    ("returned error: 403", GitFailure::Credentials),
    ("returned error: 404", GitFailure::NotFound),
    ("returned error: 410", GitFailure::NotFound),
    ("connection refused", GitFailure::Unreachable),
    ("connection reset", GitFailure::Unreachable),
    ("connection timed out", GitFailure::Unreachable),
    ("connection closed by", GitFailure::Unreachable),
    ("could not resolve", GitFailure::Unreachable),
    ("failed to connect", GitFailure::Unreachable),
    ("couldn't connect", GitFailure::Unreachable),
    ("connect tunnel failed", GitFailure::Unreachable),
    ("response 403 from proxy", GitFailure::Unreachable),
    ("from proxy after connect", GitFailure::Unreachable),
    ("non-properly terminated", GitFailure::Unreachable),
    ("operation too slow", GitFailure::Unreachable),
    ("operation timed out", GitFailure::Unreachable),
    ("empty reply from server", GitFailure::Unreachable),
    ("returned error: 50", GitFailure::Unreachable),
    ("early eof", GitFailure::Unreachable),
    ("' not found", GitFailure::NotFound),
    ("repository not found", GitFailure::NotFound),
    ("not appear to be a git repository", GitFailure::NotFound),
    ("not valid: is this a git repository", GitFailure::NotFound),
    ("could not read from remote repository", GitFailure::NotFound),
];

impl GitFailure {
    /// Reads git's standard error. What the remote side says (`remote: …`) decides nothing, except that it has no such object.
    pub fn of(text: &str) -> Self {
        let own =
            |line: &&str| !line.starts_with("remote:") || line.contains("not our ref") || line.contains("unadvertised");
        let lines: Vec<String> = text.lines().filter(own).map(str::to_ascii_lowercase).collect();
        let found = WORDS.iter().find(|(words, _)| lines.iter().any(|line| line.contains(words)));
        if let Some((_, failure)) = found {
            return failure.clone();
        }
        let last = |start: &str| text.lines().rev().find_map(|line| line.strip_prefix(start));
        let line = last("fatal: ").or_else(|| last("error: ")).unwrap_or("git failed without a word");
        Self::Other(line.chars().filter(|character| !character.is_control()).take(300).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_git_are_understood() {
        for (text, expected) in [
            (
                "error: unable to read askpass response from '/bin/false'\nfatal: could not read Username for 'http://h': terminal prompts disabled",
                GitFailure::Credentials,
            ),
            ("fatal: unable to get password from user", GitFailure::Credentials),
            ("remote: Not Found\nfatal: Authentication failed for 'https://h/x/'", GitFailure::Credentials),
            (
                "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.",
                GitFailure::Credentials,
            ),
            ("fatal: repository 'http://h/x/' not found", GitFailure::NotFound),
            ("fatal: unable to access 'http://h/x/': The requested URL returned error: 470", GitFailure::Redirected),
            ("fatal: unable to access 'https://h/x/': CONNECT tunnel failed, response 470", GitFailure::Redirected),
            ("fatal: couldn't find remote ref nope", GitFailure::NoSuchRef),
            ("fatal: remote error: upload-pack: not our ref ffff", GitFailure::NoSuchRef),
            ("error: Server does not allow request for unadvertised object ffff", GitFailure::NoSuchRef),
            ("fatal: dumb http transport does not support shallow capabilities", GitFailure::NotShallow),
            ("Host key verification failed.\nfatal: Could not read from remote repository.", GitFailure::HostKey),
            (
                "fatal: unable to access 'https://h/': server certificate verification failed. CAfile: none",
                GitFailure::Certificate,
            ),
            (
                "fatal: unable to access 'https://h/': Failed to connect to h port 443: Connection refused",
                GitFailure::Unreachable,
            ),
            (
                "fatal: unable to access 'https://h/': gnutls_handshake() failed: The TLS connection was non-properly terminated.",
                GitFailure::Unreachable,
            ),
            ("remote: certificate\nfatal: the \u{7}bell", GitFailure::Other("the bell".to_owned())),
            ("", GitFailure::Other("git failed without a word".to_owned())),
        ] {
            assert_eq!(GitFailure::of(text), expected, "{text}");
        }
    }
}
