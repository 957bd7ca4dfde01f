//! Servers of git repositories for tests: plain files, git's own backend, and hosts that want credentials, lead elsewhere or take
//! their time; and a real ssh daemon.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the private repositories want: `user` with the token `s3cret/tok-CANARY`.
const AUTHORIZATION: &str = "Basic dXNlcjpzM2NyZXQvdG9rLUNBTkFSWQ==";

/// Passes over a test that needs a program of this machine.
macro_rules! needs_program {
    ($path:literal) => {
        if !std::path::Path::new($path).exists() {
            assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "this test needs {}", $path);
            eprintln!("skipped: this test needs {}", $path);
            return;
        }
    };
}
pub(crate) use needs_program;

/// A request that reached the server.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
}

/// Serves the repositories in a directory at `/dumb/…`, `/smart/…`, `/private/…` (with credentials), `/moved/…` (leads to
/// `/private/…`), `/away/…` (leads to another server), `/slow/…` (private, and takes three seconds) and `/echo/…` (fails, and says
/// the credentials that it was sent).
pub(crate) struct GitServer {
    root: Arc<tempfile::TempDir>,
    port: u16,
    hits: Arc<Mutex<Vec<Hit>>>,
}

impl GitServer {
    pub(crate) fn start(away: Option<&GitServer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (root, hits) = (Arc::new(tempfile::tempdir().unwrap()), Arc::new(Mutex::new(Vec::new())));
        let (served, noted) = (Arc::clone(&root), Arc::clone(&hits));
        let away = away.map(|other| other.port).unwrap_or_default();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (root, hits) = (served.path().to_owned(), Arc::clone(&noted));
                std::thread::spawn(move || serve(connection, &root, port, away, &hits));
            }
        });
        Self { root, port, hits }
    }

    /// The address of a repository.
    pub(crate) fn url(&self, kind: &str, repository: &str) -> String {
        format!("http://127.0.0.1:{}/{kind}/{repository}", self.port)
    }

    /// The same with something before the host.
    pub(crate) fn url_with(&self, user: &str, kind: &str, repository: &str) -> String {
        format!("http://{user}@127.0.0.1:{}/{kind}/{repository}", self.port)
    }

    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.hits.lock().unwrap().clone()
    }

    pub(crate) fn path(&self, repository: &str) -> PathBuf {
        self.root.path().join(repository)
    }

    /// Unpacks a field case that holds a bare repository `repo.git`.
    pub(crate) fn unpack(&self, case: &str, repository: &str) {
        let tar = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/field-cases").join(case);
        let place = self.root.path().join(repository).with_extension("unpacked");
        std::fs::create_dir_all(&place).unwrap();
        assert!(Command::new("tar").arg("-xf").arg(tar).arg("-C").arg(&place).status().unwrap().success());
        std::fs::rename(place.join("repo.git"), self.path(repository)).unwrap();
        std::fs::create_dir_all(self.path(repository).join("refs")).unwrap();
    }

    /// Makes a bare repository with what `script` commits in its working directory.
    pub(crate) fn make(&self, repository: &str, script: &str) {
        let work = self.root.path().join(format!("{repository}.work"));
        let text = format!(
            "set -e; git init -q -b main '{work}'; cd '{work}'; {script}
             git clone -q --bare . '{bare}'; git -C '{bare}' update-server-info",
            work = work.display(),
            bare = self.path(repository).display(),
        );
        let mut command = git_command("bash");
        let made = command.args(["-c", &text]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

/// A command whose git knows nobody's configuration.
fn git_command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, value) in [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_NAME", "t"),
        ("GIT_AUTHOR_EMAIL", "t@t"),
        ("GIT_COMMITTER_NAME", "t"),
        ("GIT_COMMITTER_EMAIL", "t@t"),
    ] {
        command.env(name, value);
    }
    command
}

fn serve(connection: TcpStream, root: &Path, port: u16, away: u16, hits: &Mutex<Vec<Hit>>) -> Option<()> {
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = std::collections::BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length: u64 = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    let authorization = headers.get("authorization").cloned();
    hits.lock().ok()?.push(Hit { path: target.clone(), authorization: authorization.clone() });
    let (kind, rest) = target.trim_start_matches('/').split_once('/')?;
    let permitted = authorization.as_deref() == Some(AUTHORIZATION);
    let answer = match kind {
        "dumb" => file(root, rest),
        "smart" => backend(root, &method, rest, &headers, &body),
        "slow" | "private" if permitted => {
            std::thread::sleep(Duration::from_secs(if kind == "slow" { 3 } else { 0 }));
            backend(root, &method, rest, &headers, &body)
        }
        "moved" => redirect(port, &format!("private/{rest}")),
        "echo" if authorization.is_some() => echo(&authorization.unwrap_or_default()),
        "away" => redirect(away, &format!("private/{rest}")),
        _ => b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n".to_vec(),
    };
    let (head, body) = split(&answer);
    (&connection).write_all(head).ok()?;
    (&connection).write_all(b"Connection: close\r\n\r\n").ok()?;
    (&connection).write_all(body).ok()
}

/// Heads of answers here end before their empty line.
fn split(answer: &[u8]) -> (&[u8], &[u8]) {
    match answer.windows(4).position(|part| part == b"\r\n\r\n") {
        Some(end) => (&answer[..end + 2], &answer[end + 4..]),
        None => (answer, b""),
    }
}

/// What git shows of a server's failure: its own words.
fn echo(authorization: &str) -> Vec<u8> {
    let packet = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let words = format!("ERR leaked {authorization} and {}", &authorization["Basic ".len() + 8..]);
    let body = format!("{}0000{}", packet("# service=git-upload-pack\n"), packet(&words));
    let kind = "application/x-git-upload-pack-advertisement";
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn redirect(port: u16, path: &str) -> Vec<u8> {
    format!("HTTP/1.1 301 Moved Permanently\r\nLocation: http://127.0.0.1:{port}/{path}\r\nContent-Length: 0\r\n")
        .into_bytes()
}

fn file(root: &Path, path: &str) -> Vec<u8> {
    let path = path.split('?').next().unwrap_or_default();
    match std::fs::read(root.join(path)) {
        Ok(bytes) => {
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len()).into_bytes(), bytes].concat()
        }
        Err(_) => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n".to_vec(),
    }
}

fn backend(
    root: &Path,
    method: &str,
    target: &str,
    headers: &std::collections::BTreeMap<String, String>,
    body: &[u8],
) -> Vec<u8> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let mut command = git_command("git");
    command
        .args(["-c", "safe.directory=*", "http-backend"])
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{path}"))
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", method)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(body).unwrap();
    let said = child.wait_with_output().unwrap().stdout;
    let (head, body) = split(&said);
    let head = String::from_utf8_lossy(head).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    [format!("HTTP/1.1 {status}\r\n{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes(), body.to_vec()].concat()
}

/// A real ssh daemon that lets one key read repositories.
pub(crate) struct SshServer {
    directory: tempfile::TempDir,
    process: Child,
    port: u16,
}

impl SshServer {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        for name in ["host", "client", "stranger"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(place.join(name))
                .status()
                .unwrap();
            assert!(made.success());
        }
        let public = std::fs::read_to_string(place.join("client.pub")).unwrap();
        let forced = r#"restrict,command="git-shell -c \"$SSH_ORIGINAL_COMMAND\"""#;
        std::fs::write(place.join("authorized"), format!("{forced} {public}")).unwrap();
        // Nobody else takes the port between this and the daemon's start, as far as tests go.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile {0}/authorized\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nPidFile none\n",
            place.display()
        );
        std::fs::write(place.join("config"), config).unwrap();
        std::fs::create_dir_all("/run/sshd").unwrap();
        let log = std::fs::File::create(place.join("log")).unwrap();
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(place.join("config"))
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { directory, process, port };
        crate::objects::eventually("an ssh daemon", || {
            TcpStream::connect(("127.0.0.1", port)).map(|_| ()).map_err(|error| format!("{error}: {}", server.log()))
        });
        server
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn url(&self, repository: &Path) -> String {
        format!("ssh://root@127.0.0.1:{}{}", self.port, repository.display())
    }

    /// A private key: `client` is let in, `stranger` is not.
    pub(crate) fn key(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    /// Lines for known hosts that say the daemon has the key of that name.
    pub(crate) fn known_hosts(&self, name: &str) -> String {
        let public = std::fs::read_to_string(self.directory.path().join(format!("{name}.pub"))).unwrap();
        let key: Vec<&str> = public.split_whitespace().take(2).collect();
        format!("[127.0.0.1]:{} {}\n", self.port, key.join(" "))
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
