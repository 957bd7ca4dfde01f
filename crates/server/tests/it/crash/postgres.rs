//! A PostgreSQL of a test's own, to be stopped in the middle of things.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A cluster that ends with the test.
pub(super) struct Postgres {
    programs: PathBuf,
    directory: tempfile::TempDir,
    server: Child,
}

/// A command of the cluster's, as the user that it runs as.
fn as_postgres(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--clear-groups", "--reuid", "postgres", "--regid", "postgres", program]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Postgres {
    /// Starts one; none where PostgreSQL is not installed.
    pub(super) fn start() -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("bin")).find(|path| path.join("initdb").exists());
        let Some(programs) = programs else {
            assert!(std::env::var("STEAD_NO_SKIP").as_deref() != Ok("1"), "PostgreSQL is not installed");
            eprintln!("skipped: PostgreSQL is not installed");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("stead-pg-").tempdir().unwrap();
        let owned = Command::new("chown").arg("postgres:postgres").arg(directory.path()).status().unwrap();
        assert!(owned.success());
        let data = directory.path().join("data");
        let mut made = as_postgres(&programs.join("initdb").display().to_string());
        made.arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]);
        assert!(made.status().unwrap().success(), "no cluster can be made");
        let server = spawn(&programs, directory.path());
        let mut postgres = Self { programs, directory, server };
        postgres.wait();
        postgres.run("CREATE DATABASE stead");
        Some(postgres)
    }

    /// Where it is.
    pub(super) fn url(&self) -> String {
        format!("postgres://postgres@localhost/stead?host={}", self.directory.path().display())
    }

    fn run(&self, sql: &str) -> bool {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.arg("-h")
            .arg(self.directory.path())
            .args(["-U", "postgres", "-qtAc", sql])
            .stderr(Stdio::null())
            .stdout(Stdio::null());
        psql.status().unwrap().success()
    }

    fn wait(&mut self) {
        let began = Instant::now();
        while !self.run("SELECT 1") {
            assert!(began.elapsed() < Duration::from_secs(30), "the cluster does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its first process and those that serve connections.
    fn processes(&self) -> Vec<i32> {
        let first = i32::try_from(self.server.id()).unwrap();
        let parent = format!("PPid:\t{first}\n");
        let all =
            std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut found: Vec<i32> = all
            .filter(|pid: &i32| {
                std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.contains(&parent))
            })
            .collect();
        found.insert(0, first);
        found
    }

    fn signal(&self, signal: Signal) {
        for pid in self.processes().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Nothing of it answers any more.
    pub(super) fn hang(&mut self) {
        self.signal(Signal::STOP);
    }

    /// It answers again.
    pub(super) fn go_on(&mut self) {
        self.signal(Signal::CONT);
    }

    /// It is gone.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.server.wait().unwrap();
    }

    /// It is back.
    pub(super) fn start_again(&mut self) {
        let _ = std::fs::remove_file(self.directory.path().join("data/postmaster.pid"));
        self.server = spawn(&self.programs, self.directory.path());
        self.wait();
    }

    /// Every connection is cut; the next ones are served.
    pub(super) fn drop_connections(&mut self) {
        self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        self.signal(Signal::KILL);
        let _ = self.server.wait();
    }
}

fn spawn(programs: &std::path::Path, directory: &std::path::Path) -> Child {
    let mut command = as_postgres(&programs.join("postgres").display().to_string());
    command.arg("-D").arg(directory.join("data")).arg("-k").arg(directory);
    command.args(["-c", "listen_addresses=", "-c", "shared_buffers=32MB", "-c", "max_parallel_workers=0"]);
    command.spawn().unwrap()
}
