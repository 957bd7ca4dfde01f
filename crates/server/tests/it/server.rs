//! A real server in a directory of its own, for end-to-end tests: it can be killed and started again, and is gone afterwards.

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stead_store::DatabaseUrl;
use stead_testkit::TestDatabase;
use stead_testkit::database::{chosen, on_postgres};

use crate::program::{Ran, STEAD, ran, stead, stead_at};

static NUMBER: AtomicU32 = AtomicU32::new(0);
const PATIENCE: Duration = Duration::from_secs(30);

/// How many sandboxes a test's server may have at once, and how many user ids each takes.
const SLOTS: u32 = 32;
const UIDS_PER_SLOT: u32 = 65_536;
/// From one server's ids to the next one's: the id before the first slot's is used as well.
const PLACES_SLOTS: u32 = SLOTS + 1;
/// Where the user ids of tests begin: above those that servers take by default.
const UIDS: u32 = 0x9000_0000;
/// Where ordinary users of tests begin. They are no accounts.
const FIRST_USER: u32 = 54_000;

/// Where user ids begin that no other server has: servers of tests that run at the same time share none, two test processes hardly
/// ever do, and what a test run that was ended by force has left is left to it.
fn free_user_ids() -> u32 {
    const WIDTH: u32 = PLACES_SLOTS * UIDS_PER_SLOT;
    let claims = std::fs::read_dir("/var/lib/stead-uids").into_iter().flatten().flatten();
    let claimed: Vec<(u64, u64)> = claims
        .filter_map(|claim| {
            let claim: serde_json::Value = serde_json::from_slice(&std::fs::read(claim.path()).ok()?).ok()?;
            Some((claim["first"].as_u64()?, claim["count"].as_u64()?))
        })
        .collect();
    let is_free = |base: &u32| {
        let (first, end) = (u64::from(*base) - 1, u64::from(*base) + u64::from(WIDTH));
        claimed.iter().all(|(other, count)| end <= *other || other + count <= first)
    };
    let places = (u32::MAX - UIDS) / WIDTH;
    let numbers = std::iter::repeat_with(|| NUMBER.fetch_add(1, Ordering::Relaxed)).take(places as usize);
    let places = numbers.map(|number| std::process::id().wrapping_mul(97).wrapping_add(number) % places);
    places.map(|place| UIDS + place * WIDTH).find(is_free).expect("tests that ended have left no user ids")
}

/// Runs something of the test kit's, wherever the test itself runs.
pub(crate) fn wait_for<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let run = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// A server process.
pub(crate) struct TestServer {
    data: tempfile::TempDir,
    /// None when it is a file among the data, or the test's own.
    database: Option<TestDatabase>,
    uids: std::ops::Range<u32>,
    /// The ordinary user that it runs as.
    user: Option<u32>,
    settings: Vec<(String, String)>,
    process: Child,
    url: String,
    log: Arc<Mutex<String>>,
}

impl TestServer {
    /// Starts a server on a free port. `settings` are options as `section.key`, over those that all tests share; a name
    /// without a dot is an environment variable.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_prepared(settings, |_| {})
    }

    /// The same, after `prepare` has put something into the data directory.
    pub(crate) fn start_prepared(settings: &[(&str, &str)], prepare: impl FnOnce(&Path)) -> Self {
        let data = tempfile::tempdir().unwrap();
        prepare(data.path());
        Self::start_in(data, settings, None)
    }

    /// Starts a server that is an ordinary user of its own. Only root can.
    pub(crate) fn start_as_user(settings: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let user = FIRST_USER + std::process::id() % 1000 * 10 + NUMBER.load(Ordering::Relaxed) % 10;
        std::os::unix::fs::chown(data.path(), Some(user), Some(user)).unwrap();
        Self::start_in(data, settings, Some(user))
    }

    fn start_in(data: tempfile::TempDir, settings: &[(&str, &str)], user: Option<u32>) -> Self {
        let shared = [("server.listen", "127.0.0.1:0"), ("log.level", "info")];
        let uid_base = free_user_ids();
        let mut own = vec![("native.slots", SLOTS.to_string()), ("native.workspace_slots", SLOTS.to_string())];
        let uids = match user {
            Some(user) => user..user + 1,
            None => {
                own.push(("native.uid_base", uid_base.to_string()));
                uid_base..uid_base + SLOTS * UIDS_PER_SLOT
            }
        };
        let own: Vec<(&str, &str)> = own.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let mut runtime = std::env::var("STEAD_RUNTIME").ok();
        if user.is_some() {
            // Where the program was built, another user may not come.
            let built = runtime.unwrap_or_else(|| STEAD.replace("/stead", "/stead-runtime"));
            let copy = data.path().join("stead-runtime");
            std::fs::copy(built, &copy).unwrap();
            std::fs::copy(STEAD, data.path().join("stead")).unwrap();
            runtime = Some(copy.display().to_string());
        }
        let runtime: Vec<(&str, &str)> = runtime.iter().map(|path| ("runtime.path", path.as_str())).collect();
        let elsewhere = on_postgres() && settings.iter().all(|(key, _)| *key != "database.url");
        let database = elsewhere.then(|| wait_for(chosen()));
        let url = database.as_ref().map(|database| ("database.url", database.url_text()));
        let settings: Vec<(String, String)> = shared
            .iter()
            .chain(&own)
            .chain(&runtime)
            .chain(settings)
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .chain(url.map(|(key, value)| (key.to_owned(), value)))
            .collect();
        let log = Arc::new(Mutex::new(String::new()));
        let (process, url) = spawn(data.path(), &settings, user, &[], &log);
        Self { data, database, uids, user, settings, process, url, log }
    }

    /// Where its rows are.
    pub(crate) fn database(&self) -> DatabaseUrl {
        let set = self.settings.iter().rev().find(|(key, _)| key == "database.url").map(|(_, url)| url.clone());
        set.unwrap_or_else(|| format!("sqlite://{}/stead.db", self.data().display())).parse().unwrap()
    }

    /// Does something to its rows that no request can.
    pub(crate) fn sql(&self, sql: &'static str) {
        wait_for(stead_testkit::database::run(self.database(), sql));
    }

    /// Where it answers.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its data directory.
    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    /// The file that holds the first admin key.
    pub(crate) fn key_file(&self) -> PathBuf {
        self.data().join("admin.key")
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client command for this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stead();
        command.args(["--url", self.url(), "--key-file"]).arg(self.key_file()).args(arguments);
        command
    }

    /// Runs a client command to its end.
    pub(crate) fn ran(&self, arguments: &[&str]) -> Ran {
        ran(&mut self.command(arguments))
    }

    /// Ends the process as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Asks the process to end with all that it runs, and returns its exit status and how long that took.
    pub(crate) fn terminate(&mut self) -> (Option<i32>, Duration) {
        self.signal(rustix::process::Signal::INT);
        self.wait_for_end()
    }

    /// Asks the process to end and to leave its sessions to the next one, and returns as `terminate` does.
    pub(crate) fn hand_over(&mut self) -> (Option<i32>, Duration) {
        self.signal(rustix::process::Signal::TERM);
        self.wait_for_end()
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the process has ended in good order, and returns its exit status and how long that took.
    pub(crate) fn wait_for_end(&mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.process.try_wait().unwrap() {
                return (status.code(), began.elapsed());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server did not end\n{}", self.log());
    }

    /// Waits until the process dies by itself, which it must.
    pub(crate) fn wait_for_death(&mut self) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if self.process.try_wait().unwrap().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the server did not die");
    }

    /// The user ids of its sandboxes.
    pub(crate) fn uids(&self) -> std::ops::Range<u32> {
        self.uids.clone()
    }

    /// The processes that it has started itself, each with its number and command.
    pub(crate) fn children(&self) -> Vec<(i32, String)> {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let parent = format!("PPid:\t{}\n", self.process.id());
        let own = numbers.filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.contains(&parent))
        });
        let command = |pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        own.map(|pid| (pid, command(pid).replace('\0', " "))).collect()
    }

    /// The most memory that its process has had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The directories of its control groups, one per hierarchy.
    pub(crate) fn groups(&self) -> Vec<PathBuf> {
        let node = std::fs::read_to_string(self.data().join("node")).unwrap_or_default();
        let Some(tail) = node.trim().len().checked_sub(12).map(|start| &node.trim()[start..]) else {
            return Vec::new();
        };
        let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        hierarchies.map(|hierarchy| hierarchy.path().join(format!("stead-{tail}"))).collect()
    }

    /// Changes a setting for the next start.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.settings.push((key.to_owned(), value.to_owned()));
    }

    /// Starts the server again on the same data and the same port, so that clients find it again.
    pub(crate) fn start_again(&mut self) {
        let address = self.url.trim_start_matches("http://").to_owned();
        self.settings.push(("server.listen".to_owned(), address));
        let (process, url) = spawn(self.data.path(), &self.settings, self.user, &[], &self.log);
        self.process = process;
        self.url = url;
    }

    /// Starts another process, which takes this one's place; returns when it is ready, with the exit status of the one that went.
    pub(crate) fn take_over(&mut self) -> Option<i32> {
        let (process, url) = spawn(self.data.path(), &self.settings, self.user, &["--take-over"], &self.log);
        assert_eq!(url, self.url, "the new process answers where the old one did");
        std::mem::replace(&mut self.process, process).wait().unwrap().code()
    }

    /// Starts another process with these arguments on the same data, which is expected to end by itself.
    pub(crate) fn tried(&self, arguments: &[&str]) -> Ran {
        ran(&mut serving(self.data.path(), &self.settings, self.user, arguments))
    }

    /// Another process that tries to take this one's place when it is called, and is no concern of this one meanwhile.
    pub(crate) fn rival(&self) -> impl FnOnce() -> Ran + use<> {
        let (data, settings, user) = (self.data.path().to_owned(), self.settings.clone(), self.user);
        move || ran(&mut serving(&data, &settings, user, &["--take-over"]))
    }

    /// The same with other settings for that process alone.
    pub(crate) fn tried_with(&self, settings: &[(&str, &str)], arguments: &[&str]) -> Ran {
        let own = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let settings: Vec<_> = self.settings.iter().cloned().chain(own).collect();
        ran(&mut serving(self.data.path(), &settings, self.user, arguments))
    }

    /// The same where it may die before it is ready; whether it is.
    pub(crate) fn start_if_it_lives(&mut self) -> bool {
        let address = self.url.trim_start_matches("http://").to_owned();
        self.settings.push(("server.listen".to_owned(), address));
        match try_spawn(self.data.path(), &self.settings, self.user, &[], &self.log) {
            Ok((process, url)) => {
                self.process = process;
                self.url = url;
                true
            }
            Err(_) => false,
        }
    }

    /// Whether the process has ended.
    pub(crate) fn is_dead(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }
}

impl TestServer {
    /// Removes the control groups of a server that is gone; a live one keeps its own for the next start.
    fn remove_groups(&self) {
        for group in self.groups() {
            let _ = std::fs::remove_dir(group);
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // A stop in good order lets the server take its sandboxes down; a crash test has ended it already.
        if self.process.try_wait().ok().flatten().is_none() {
            self.signal(rustix::process::Signal::INT);
            let began = Instant::now();
            while began.elapsed() < PATIENCE && self.process.try_wait().ok().flatten().is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
        self.remove_groups();
        if let Some(database) = self.database.take() {
            wait_for(database.remove());
        }
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

/// The command of a server process.
fn serving(data: &Path, settings: &[(String, String)], user: Option<u32>, arguments: &[&str]) -> Command {
    let mut command = stead();
    if let Some(user) = user {
        command = stead_at(&data.join("stead"));
        command.uid(user).gid(user).current_dir(data);
    }
    command.arg("serve").arg("--data").arg(data).args(arguments).stderr(Stdio::piped()).stdout(Stdio::null());
    for (key, value) in settings {
        match key.contains('.') {
            true => command.env(format!("STEAD__{}", key.replace('.', "__").to_uppercase()), value),
            false => command.env(key, value),
        };
    }
    command
}

fn spawn(
    data: &Path,
    settings: &[(String, String)],
    user: Option<u32>,
    arguments: &[&str],
    log: &Arc<Mutex<String>>,
) -> (Child, String) {
    try_spawn(data, settings, user, arguments, log).unwrap_or_else(|ended| {
        let log = log.lock().unwrap_or_else(PoisonError::into_inner);
        panic!("the server did not become ready ({ended}); is stead-runtime built beside it?\n{log}");
    })
}

/// The process and where it answers, or how it ended before it was ready.
fn try_spawn(
    data: &Path,
    settings: &[(String, String)],
    user: Option<u32>,
    arguments: &[&str],
    log: &Arc<Mutex<String>>,
) -> Result<(Child, String), String> {
    let mut command = serving(data, settings, user, arguments);
    let mut process = command.spawn().unwrap();
    let lines = BufReader::new(process.stderr.take().unwrap());
    let (ready, url) = std::sync::mpsc::channel();
    let lines_of = Arc::clone(log);
    std::thread::spawn(move || {
        // For whoever looks into a test that hangs.
        let kept = std::env::var("STEAD_TEST_LOG").ok();
        let mut kept = kept.and_then(|path| std::fs::File::options().create(true).append(true).open(path).ok());
        for line in lines.lines().map_while(Result::ok) {
            if let Some((_, url)) = line.split_once("Stead is ready at ") {
                let url = url.split([' ', '"']).next().unwrap_or_default();
                let _ = ready.send(url.to_owned());
            }
            if let Some(kept) = &mut kept {
                let _ = writeln!(kept, "{line}");
            }
            let mut log = lines_of.lock().unwrap();
            log.push_str(&line);
            log.push('\n');
        }
    });
    let began = Instant::now();
    loop {
        if let Ok(url) = url.recv_timeout(Duration::from_millis(50)) {
            return Ok((process, url));
        }
        let ended = process.try_wait().unwrap();
        if ended.is_some() || began.elapsed() > PATIENCE {
            // The process must not outlive the test that gave up on it.
            let _ = process.kill();
            let _ = process.wait();
            return Err(format!("{ended:?}"));
        }
    }
}
