//! A provider on directories and names of its own, and short ways to use it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use stead_domain::network::NetworkPolicy;
use stead_domain::ports::{
    Exec, ExecEvent, ExecExit, ExecRequest, IdSource, Outcome, OutputStream, Program, Provider, Runtime, StartSpec,
};
use stead_outbound::Dialer;
use stead_provider_native::{
    LeftoverKind, NativeConfig, NativeProvider, Owner, RuntimeProgram, UIDS_PER_SLOT, leftovers,
};
use stead_sandbox::cgroup::CgroupManager;
use tempfile::TempDir;

/// Slots of each fixture.
pub(crate) const SLOTS: u32 = 4;
static FIXTURES: AtomicU32 = AtomicU32::new(0);

/// Where the binaries that the tests need lie; they are built when nobody says where they are.
fn program(name: &str, package: &str, variable: &str, once: &Once) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return PathBuf::from(path);
    }
    once.call_once(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo).args(["build", "--quiet", "-p", package, "--bin", name]).status().unwrap();
        assert!(built.success(), "{package} could not be built");
    });
    // The test itself lies in `deps` beneath the directory of binaries.
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join(name)
}

pub(crate) fn runtime() -> PathBuf {
    static ONCE: Once = Once::new();
    program("stead-runtime", "stead-runtime", "STEAD_RUNTIME", &ONCE)
}

/// Who this run of the tests is, and so how it makes sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The host's root: a range of ids for each sandbox.
    Root,
    /// An ordinary user: one id for all.
    User,
}

/// Prints the mode, so that a reader of the output knows which of the two runs it is of.
pub(crate) fn mode() -> Mode {
    let (mode, name) = match rustix::process::geteuid() {
        user if user.is_root() => (Mode::Root, "root".to_string()),
        user => (Mode::User, format!("ordinary user {user}")),
    };
    println!("mode: {name}");
    mode
}

/// The host user that the service is.
pub(crate) fn service_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Directories and names; providers come and go on them.
pub(crate) struct Fixture {
    pub(crate) scratch: Scratch,
    pub(crate) config: NativeConfig,
}

/// A directory that goes with the process that made it, and not with others that use it.
pub(crate) struct Scratch {
    path: PathBuf,
    owned: Option<TempDir>,
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let owned = tempfile::tempdir().unwrap();
        let scratch = Scratch { path: owned.path().to_owned(), owned: Some(owned) };
        let number = FIXTURES.fetch_add(1, Ordering::Relaxed);
        // Longer than a socket's address can be.
        let run = scratch.path().join("r".repeat(120));
        let program = RuntimeProgram::File { path: runtime(), sha256: None };
        let mut config = NativeConfig::new(scratch.path().join("data"), run, program);
        config.launcher = env!("CARGO_BIN_EXE_stead-native-helper").into();
        config.slots = SLOTS;
        // The id before them is used as well.
        let place = (std::process::id() % 64 * 32 + number % 32) * (SLOTS + 1);
        config.uid_base = Some(0x5000_0000 + place * UIDS_PER_SLOT);
        config.workspace_slots = Some(SLOTS);
        config.ranges = scratch.path().join("uids");
        config.cgroup_prefix = format!("{}-{number}", prefix_of(std::process::id()));
        Self { scratch, config }
    }

    /// Its directory, for another configuration on it.
    pub(crate) fn borrowed(&self) -> Scratch {
        Scratch { path: self.scratch.path.clone(), owned: None }
    }

    /// The same one for another process, in an argument or a variable.
    pub(crate) fn told(&self) -> String {
        let config = &self.config;
        let allowed: Vec<String> = config.extra_allowed.iter().map(ToString::to_string).collect();
        serde_json::json!({
            "scratch": self.scratch.path, "run": config.run, "uid_base": config.uid_base,
            "prefix": config.cgroup_prefix, "allowed": allowed, "grace": config.orphan_grace.as_secs(),
        })
        .to_string()
    }

    /// That of the process that told of it.
    pub(crate) fn of(told: &str) -> Self {
        let told: serde_json::Value = serde_json::from_str(told).unwrap();
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        let mut fixture = Self::new();
        fixture.scratch = Scratch { path: text("scratch").into(), owned: None };
        let config = &mut fixture.config;
        (config.data, config.ranges) = (fixture.scratch.path.join("data"), fixture.scratch.path.join("uids"));
        (config.run, config.cgroup_prefix) = (text("run").into(), text("prefix"));
        config.uid_base = Some(told["uid_base"].as_u64().unwrap() as u32);
        config.orphan_grace = Duration::from_secs(told["grace"].as_u64().unwrap());
        let allowed = told["allowed"].as_array().unwrap();
        config.extra_allowed = allowed.iter().map(|text| text.as_str().unwrap().parse().unwrap()).collect();
        fixture
    }

    pub(crate) fn open(&self) -> NativeProvider {
        NativeProvider::open(self.config.clone(), Arc::new(Dialer::system(Vec::new()))).unwrap()
    }

    /// A directory for the test's own files, readable by everyone.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.scratch.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Names of the sandboxes' control groups that exist.
    pub(crate) fn groups(&self) -> Vec<String> {
        let mut groups = self.manager().list();
        groups.retain(|name| !name.starts_with("egress"));
        groups
    }

    pub(crate) fn manager(&self) -> CgroupManager {
        CgroupManager::detect(&self.config.cgroup_prefix).unwrap()
    }

    /// What is there of this fixture, of one kind, with whose it is.
    pub(crate) fn left(&self, kind: LeftoverKind) -> Vec<(String, Owner)> {
        let NativeConfig { data, run, cgroup_prefix, slots, .. } = &self.config;
        let found = leftovers(data, run, cgroup_prefix, *slots).unwrap();
        let of_kind = found.into_iter().filter(|found| found.kind == kind);
        of_kind.map(|found| (found.name, found.owner)).collect()
    }

    /// The first host user id of slot 0.
    pub(crate) fn uid_base(&self) -> u32 {
        self.config.uid_base.unwrap()
    }

    /// The host user of a slot's files and processes.
    pub(crate) fn owner(&self, slot: u32) -> u32 {
        match mode() {
            Mode::Root => self.uid_base() + slot * UIDS_PER_SLOT + 1000,
            Mode::User => service_user(),
        }
    }

    /// Who has which slot, as written.
    pub(crate) fn leases(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.config.data.join("environments/slots")).unwrap();
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        entries.flatten().map(|entry| (entry.file_name().into_string().unwrap(), read(entry.path()))).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if self.scratch.owned.is_none() {
            return;
        }
        let Ok(manager) = CgroupManager::detect(&self.config.cgroup_prefix) else { return };
        for name in manager.list() {
            let _ = manager.kill(&name);
            let _ = manager.remove(&name);
        }
        remove_groups(&self.config.cgroup_prefix);
    }
}

/// Set for a test that runs in a process of its own: to what [`Fixture::told`] said, or to nothing.
const ALONE: &str = "STEAD_TEST_ALONE";

/// A process that runs one test. It ends with this.
pub(crate) struct Alone(pub(crate) Child);

/// Whether this process runs one test, which [`alone`] started; and for which fixture, where it was told.
pub(crate) fn is_alone() -> Option<String> {
    std::env::var(ALONE).ok()
}

/// Starts the test of that name once more, in a process that has no other: what its children are is then known, and it can be killed.
pub(crate) fn alone(name: &str, told: &str) -> Alone {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, told)
        .env("STEAD_RUNTIME", runtime())
        .stdout(Stdio::null());
    Alone(command.spawn().unwrap())
}

impl Drop for Alone {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
        remove_groups(&prefix_of(self.0.id()));
    }
}

/// What the names of the control groups of a process's fixtures begin with.
pub(crate) fn prefix_of(process: u32) -> String {
    format!("stead-native-test-{process}")
}

/// Removes the directories of control groups that have this name, or one that goes on after it. What is in use stays.
pub(crate) fn remove_groups(prefix: &str) {
    let ours = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    for line in fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines() {
        if !line.contains(" - cgroup") {
            continue;
        }
        let mount = Path::new(line.split(' ').nth(4).unwrap_or("/"));
        for entry in fs::read_dir(mount).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(ours) {
                let _ = fs::remove_dir(entry.path().join("egress"));
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// Ids that are unique in this process.
pub(crate) struct Ids;

impl IdSource for Ids {
    fn uuid_v7(&self) -> uuid::Uuid {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        uuid::Builder::from_unix_timestamp_millis(number, &[7; 10]).into_uuid()
    }

    fn secret(&self) -> [u8; 32] {
        [0; 32]
    }
}

/// What an environment runs with when a test does not care.
pub(crate) fn plain() -> StartSpec {
    StartSpec { mounts: Vec::new(), network: NetworkPolicy::Disabled }
}

/// The answer of a call that must have been carried out.
pub(crate) fn known<T: std::fmt::Debug>(outcome: Outcome<T>) -> Result<T, stead_domain::ports::ProviderError> {
    match outcome {
        Outcome::Known(answer) => answer,
        other => panic!("not carried out: {other:?}"),
    }
}

/// What a script left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: ExecExit,
}

pub(crate) fn script(text: &str) -> ExecRequest {
    ExecRequest {
        name: None,
        program: Program::Script(text.as_bytes().to_vec()),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        directory: "/".to_owned(),
        stdin: false,
        time_limit: Some(Duration::from_mins(1)),
        output_limit: None,
    }
}

/// Runs a script to its end.
pub(crate) async fn run(runtime: &dyn Runtime, text: &str) -> Ran {
    finish(runtime.exec(script(text)).await.unwrap()).await
}

pub(crate) async fn finish(mut exec: Box<dyn Exec>) -> Ran {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match exec.next().await.unwrap() {
            ExecEvent::Output(OutputStream::Stdout, bytes) => stdout.extend(bytes),
            ExecEvent::Output(OutputStream::Stderr, bytes) => stderr.extend(bytes),
            ExecEvent::Exited(exit) => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                return Ran { stdout: text(stdout), stderr: text(stderr), exit };
            }
        }
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("never happened: {what}");
}

/// Host pid of an environment's process 1.
pub(crate) async fn process(provider: &dyn Provider, environment: stead_domain::EnvironmentId) -> i32 {
    let handle = provider.inspect(environment).await.unwrap().handle.unwrap();
    let handle: serde_json::Value = serde_json::from_str(&handle).unwrap();
    handle["pid"].as_i64().unwrap() as i32
}
