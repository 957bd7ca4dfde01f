//! Where probes run: sessions of a server, and outside of any.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, makedev};
use serde_json::{Value, json};

use super::{Control, Probe};
use crate::api::Api;
use crate::objects::{process, said, text, wait_for_file};
use crate::server::TestServer;

/// What came of each probe, by name.
pub(super) type Answers = BTreeMap<String, String>;

/// What a build runs.
const BUILD: &str = "PARENT=$PPID python3 probe.py";

const STAGE: &str = include_str!("stage.py");

macro_rules! calls {
    ($($name:ident),+ $(,)?) => { &[$((stringify!($name), libc::$name)),+] };
}

/// Numbers of the calls that probes make by name.
#[rustfmt::skip]
const CALLS: &[(&str, i64)] = calls![
    SYS_acct, SYS_add_key, SYS_adjtimex, SYS_bpf, SYS_capset, SYS_clock_adjtime, SYS_clock_settime, SYS_clone, SYS_clone3,
    SYS_delete_module, SYS_fanotify_init, SYS_finit_module, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick,
    SYS_get_robust_list, SYS_init_module, SYS_io_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup,
    SYS_ioctl, SYS_ioprio_set, SYS_kcmp, SYS_kexec_file_load, SYS_kexec_load, SYS_keyctl,
    SYS_landlock_add_rule, SYS_landlock_create_ruleset, SYS_landlock_restrict_self, SYS_linkat, SYS_lookup_dcookie,
    SYS_migrate_pages, SYS_mknodat, SYS_mlock, SYS_mlockall, SYS_mount, SYS_mount_setattr, SYS_move_mount, SYS_move_pages,
    SYS_mq_open, SYS_msgget, SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_open_tree, SYS_perf_event_open,
    SYS_personality, SYS_pidfd_getfd, SYS_pidfd_open, SYS_pivot_root, SYS_prlimit64, SYS_process_madvise,
    SYS_process_mrelease, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace, SYS_quotactl, SYS_quotactl_fd, SYS_reboot,
    SYS_renameat2, SYS_request_key, SYS_rt_sigqueueinfo, SYS_sched_setattr, SYS_seccomp, SYS_semget, SYS_setdomainname,
    SYS_setns, SYS_settimeofday, SYS_shmget, SYS_socket, SYS_socketpair, SYS_swapoff, SYS_swapon, SYS_syslog, SYS_tgkill,
    SYS_timer_create, SYS_umount2, SYS_unshare, SYS_userfaultfd, SYS_vhangup,
];

/// Calls of this architecture alone.
#[cfg(target_arch = "x86_64")]
const MORE_CALLS: &[(&str, i64)] = calls![SYS_ioperm, SYS_iopl, SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const MORE_CALLS: &[(&str, i64)] = &[("SYS_ioperm", 9998), ("SYS_iopl", 9998), ("SYS_modify_ldt", 9998)];

/// What is on the host for probes to look for.
pub(super) struct Bait {
    place: tempfile::TempDir,
    listener: TcpListener,
    abstract_name: String,
    _abstract: UnixListener,
    _named: UnixListener,
}

impl Bait {
    pub(super) fn lay() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "bait\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        let abstract_name = format!("stead-probe-{}", std::process::id());
        let abstract_socket =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
        let named = place.path().join("socket");
        let socket = UnixListener::bind(&named).unwrap();
        std::fs::set_permissions(&named, std::fs::Permissions::from_mode(0o666)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { place, listener, abstract_name, _abstract: abstract_socket, _named: socket }
    }

    /// What probes are told.
    fn facts(&self, place: &Place<'_>, layer: &Path, work: &Path) -> Value {
        let server = place.server;
        let (disk, disk_path) = disk();
        json!({
            "LAYER": layer,
            "WORK": work,
            "SETUID": work.join("setuid"),
            "DEVICE": work.join("device"),
            "HOST_FILE": self.place.path().join("file"),
            "HOST_SOCKET": self.place.path().join("socket"),
            "HOST_ABSTRACT": self.abstract_name,
            "HOST_PORT": self.listener.local_addr().unwrap().port(),
            "HOST_PID": std::process::id(),
            "OTHER_PID": place.victim_pid,
            "HELPER_PID": place.helper,
            "SERVER_PORT": server.url().rsplit(':').next().unwrap().trim_end_matches('/').parse::<u16>().unwrap(),
            "DATA": server.data(),
            "DISK": disk,
            "DISK_PATH": disk_path,
        })
    }

    /// Whether anybody came by the network.
    pub(super) fn visited(&self) -> bool {
        self.listener.set_nonblocking(true).unwrap();
        self.listener.accept().is_ok()
    }
}

/// The first disk there is, or the one that most machines have.
fn disk() -> (u64, PathBuf) {
    let partitions = std::fs::read_to_string("/proc/partitions").unwrap_or_default();
    let mut lines = partitions.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found =
        lines.find_map(|words| Some((words.first()?.parse().ok()?, words.get(1)?.parse().ok()?, *words.get(3)?)));
    let (major, minor, name) =
        found.map_or((8, 0, "sda".to_owned()), |(major, minor, name)| (major, minor, name.to_owned()));
    (makedev(major, minor), Path::new("/dev").join(name))
}

/// What no session made and none must gain by: a device, and a program that runs as its owner.
fn plant(work: &Path, owner: u32) {
    let device = work.join("device");
    rustix::fs::mknodat(CWD, &device, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 5)).unwrap();
    std::fs::set_permissions(&device, std::fs::Permissions::from_mode(0o666)).unwrap();
    let setuid = work.join("setuid");
    std::fs::copy("/usr/bin/id", &setuid).unwrap();
    chown(&setuid, Some(owner), Some(owner)).unwrap();
    std::fs::set_permissions(&setuid, std::fs::Permissions::from_mode(0o6755)).unwrap();
}

fn program(control: bool, facts: &Value, probes: &[&Probe]) -> String {
    // A text of JSON within a text of JSON is a text of Python.
    let literal = |value: &Value| Value::from(value.to_string()).to_string();
    let calls = CALLS.iter().chain(MORE_CALLS);
    let calls: serde_json::Map<String, Value> =
        calls.map(|(name, number)| (name.trim_start_matches("SYS_").to_owned(), Value::from(*number))).collect();
    let rows: Vec<Value> = probes.iter().map(|probe| json!([probe.name, probe.code])).collect();
    format!(
        "import json\nCONTROL = {}\nCALL = json.loads({})\nWHERE = json.loads({})\nROWS = json.loads({})\n{STAGE}",
        if control { "True" } else { "False" },
        literal(&Value::Object(calls)),
        literal(facts),
        literal(&Value::Array(rows)),
    )
}

fn answers(output: &str, probes: &[&Probe]) -> Answers {
    let lines = output.lines().filter_map(|line| line.split_once("probe\t")?.1.split_once('\t'));
    let found: Answers = lines.map(|(name, answer)| (name.to_owned(), answer.to_owned())).collect();
    assert!(found.contains_key("end") && found.len() == probes.len() + 1, "{output}");
    found
}

/// Runs the controls of probes, as this process's user, in namespaces that are thrown away.
pub(super) fn control(bait: &Bait, of: &Place<'_>, probes: &[&Probe]) -> Answers {
    let mut found = Answers::new();
    let apart: &[&str] = &["-m", "-p", "-f", "--mount-proc", "-n", "-i", "-u", "-C"];
    for (control, namespaces) in [(Control::Succeeds, apart), (Control::SucceedsOnHost, &["-m"])] {
        let of_this = |probe: &&&Probe| match probe.control {
            Control::Reaches => control == Control::Succeeds,
            other => other == control,
        };
        let probes: Vec<&Probe> = probes.iter().filter(of_this).copied().collect();
        let place = tempfile::tempdir().unwrap();
        let (layer, work) = (place.path().join("layer"), place.path().join("work"));
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir_all(layer.join("d")).unwrap();
        std::fs::create_dir(&work).unwrap();
        for name in ["own", "scratch"] {
            std::fs::write(layer.join(name), "the layer's own\n").unwrap();
        }
        plant(&work, 0);
        let file = place.path().join("probe.py");
        std::fs::write(&file, program(true, &bait.facts(of, &layer, &work), &probes)).unwrap();
        // A default route into nothing shows that only the lack of one is in the way.
        let script = match control {
            Control::Succeeds => {
                "ip link set lo up; ip route add default dev lo; ip -6 route add default dev lo; exec python3 \"$0\""
            }
            _ => "exec python3 \"$0\"",
        };
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", script]).arg(&file).env_remove("PYTHONPATH");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        found.extend(answers(&said, &probes));
    }
    found
}

/// The host's number of a server's egress proxy.
fn helper(server: &TestServer) -> i32 {
    let helper = server.children().into_iter().find(|(_, command)| command.starts_with("stead-egress"));
    helper.expect("the proxy is a process of its own").0
}

/// A server with a project that is built, and with a session that others look for.
pub(super) struct Place<'a> {
    pub(super) who: &'a str,
    server: &'a TestServer,
    api: Api,
    harness: String,
    project: String,
    victim: Value,
    /// The host's number of the victim's process.
    victim_pid: i32,
    /// The host's number of the egress proxy.
    helper: i32,
}

impl<'a> Place<'a> {
    pub(super) fn make(who: &'a str, server: &'a TestServer) -> Self {
        let api = Api::of(server);
        let harness = api.harness();
        let files = [("own", "the layer's own\n"), ("scratch", "s\n"), ("d/file", "f\n")];
        let project = api.environment("probed", &files);
        api.build(&project);
        let victim = api.begin(&harness, "echo secret > only-victims; exec -a victims-process sleep 300");
        wait_for_file(server, "only-victims");
        let victim_pid = process(server, "victims-process").expect("the victim runs");
        let helper = helper(server);
        Self { who, server, api, harness, project, victim, victim_pid, helper }
    }

    /// Runs probes in one new session.
    pub(super) fn session(&self, bait: &Bait, probes: &[&Probe]) -> Answers {
        let mark = format!("here-{}", std::process::id());
        let task = json!({"harness_id": self.harness, "environment": self.project});
        let first = self.api.ask(&json!({"input": format!("touch {mark}"), "metadata": task})).ok();
        let environments = std::fs::read_dir(self.server.data().join("environments")).unwrap().flatten();
        let work = environments.map(|entry| entry.path().join("work")).find(|work| work.join(&mark).exists()).unwrap();
        // The sandbox's own root, where it has one.
        let owner = work.join(&mark).metadata().unwrap().uid();
        plant(&work, if self.server.uids().len() > 1 { owner - 1000 } else { 0 });
        let facts = bait.facts(self, Path::new("/env/probed"), Path::new("/workspace"));
        let script = format!(
            "cat > /tmp/probe.py <<'END OF PROBES'\n{}\nEND OF PROBES\nPARENT=$PPID exec python3 /tmp/probe.py\n",
            program(false, &facts, probes)
        );
        let ran = self.api.go_on(&first, &script);
        assert_eq!(ran["status"], "completed", "{ran:#}");
        let found = answers(&said(&ran), probes);
        // The session is what it was: process 1 lives, and the next turn runs.
        let after = self.api.go_on(&ran, "echo alive");
        assert_eq!((said(&after).trim_end(), text(&after["status"])), ("alive", "completed"));
        found
    }

    /// Runs probes in a build, all but those that need a sealed version.
    pub(super) fn build(&self, bait: &Bait, probes: &[&Probe]) -> Answers {
        let sealed = |probe: &&&Probe| !probe.code.contains("LAYER + ");
        let probes: Vec<&Probe> = probes.iter().filter(sealed).copied().collect();
        let facts = bait.facts(self, Path::new("/usr"), Path::new("/tmp"));
        let program = program(false, &facts, &probes);
        let project = self.api.environment("probing", &[("probe.py", program.as_str()), ("setup.sh", BUILD)]);
        answers(text(&self.api.build(&project)["log"]), &probes)
    }

    /// The session that was looked for is what it was, and no user of it is the host's root.
    pub(super) fn is_whole(&self) {
        let victim = self.api.get(&format!("/v1/responses/{}", text(&self.victim["id"]))).ok();
        assert_eq!(victim["status"], "in_progress", "{}: {victim:#}", self.who);
        // The helper could do no harm if somebody took it over.
        assert_eq!(helper(self.server), self.helper, "{}", self.who);
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.helper)).unwrap();
        for line in ["CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{}: {line}: {status}", self.who);
        }
        assert!(!status.contains("Uid:\t0\t"), "{}: {status}", self.who);
        for map in ["uid_map", "gid_map"] {
            let map = std::fs::read_to_string(format!("/proc/{}/{map}", self.victim_pid)).unwrap();
            for line in map.lines() {
                let host: u32 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
                assert!(self.server.uids().contains(&host), "{}: {map}", self.who);
            }
        }
    }
}
