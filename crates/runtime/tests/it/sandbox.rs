//! The runtime as process 1 of its namespace, under a user without rights, as a launcher starts it.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use stead_link::ExitReason;

use crate::runtime::{PLENTY, Runtime, limited, script};

/// Tests that need root say so; where nothing may be skipped they fail instead.
macro_rules! need_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("STEAD_NO_SKIP").is_none(), "root is needed");
            println!("skipped: needs root");
            return;
        }
    };
}

/// Starts the runtime from a file that is gone by the time it serves: in a sandbox it has no name either.
async fn start(user: &str) -> Runtime {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("program");
    std::fs::copy(env!("CARGO_BIN_EXE_stead-runtime"), &program).unwrap();
    let (uid, gid) = (format!("--reuid={user}"), format!("--regid={user}"));
    let wrapper = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--net",
        "--ipc",
        "prlimit",
        "--nproc=150",
        "setpriv",
        &uid,
        &gid,
        "--clear-groups",
        "--no-new-privs",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ];
    let runtime = Runtime::spawn(folder, &wrapper, &program, &[]);
    runtime.client().await.ping().await.unwrap();
    std::fs::remove_file(program).unwrap();
    runtime
}

#[tokio::test]
async fn process_1_cannot_be_touched_from_inside() {
    need_root!();
    let mut runtime = start("64321").await;
    let client = runtime.client().await;
    let text = "echo $PPID $(id -u)
        for file in environ mem fd/0 exe root/etc/passwd; do
            (exec 3</proc/1/$file) 2>/dev/null && echo opened 1 $file
            (exec 3</proc/$PPID/$file) 2>/dev/null && echo opened supervisor $file
        done
        python3 -c 'import ctypes
libc = ctypes.CDLL(None)
one = libc.syscall(434, 1, 0)
print(one > 0, libc.syscall(438, one, 0, 0), libc.ptrace(16, 1, 0, 0))'
        kill -TERM 1; kill -KILL 1; kill -INT 1
        # Queued signals that claim to come from outside: as sigqueue, as asynchronous I/O, as a descriptor.
        python3 -c 'import ctypes
libc = ctypes.CDLL(None)
for code in (-1, -3, -4, -5, -60):
    libc.syscall(129, 1, 15, (ctypes.c_int * 32)(15, 0, code))'
        sleep 0.2; echo alive";
    let outcome = client.exec(script(text)).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), "2 64321\nTrue -1 -1\nalive\n");
    client.ping().await.unwrap();
    // The same signal ends it in order when it comes from outside.
    let pid = runtime.wrapped().unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(runtime.child.wait().unwrap().success());
}

/// Who takes the descriptors of the supervisor away has no more time than its limit, and who takes those of process 1 ends
/// everything, itself as well.
#[tokio::test]
async fn taking_means_away_saves_nobody() {
    need_root!();
    let mut runtime = start("64323").await;
    let client = runtime.client().await;
    let text = |victim: &str| {
        format!(
            "(setsid sleep 987.821 &); python3 -c 'import resource
resource.prlimit({victim}, resource.RLIMIT_NOFILE, (0, 0))' && echo taken; sleep 987.821"
        )
    };
    let began = Instant::now();
    let limit = Duration::from_millis(800);
    let outcome = client.exec(limited(text("'$PPID'"), limit)).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!((outcome.exit.reason, outcome.stdout.as_slice()), (ExitReason::TimeLimit, &b"taken\n"[..]));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(crate::runtime::running(&["sleep 987.821"]), Vec::<String>::new());
    assert!(client.exec(limited(text("1"), limit)).await.unwrap().collect(PLENTY).await.is_err());
    runtime.child.wait().unwrap();
    assert_eq!(crate::runtime::running(&["sleep 987.821"]), Vec::<String>::new());
}

/// When memory runs out the command goes, and everything that it has started with it, before its watchers.
#[tokio::test]
async fn the_kernel_takes_the_command_first() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    // Its own before anything else: it is born with it. The supervisor has it as well for a moment, so that is waited for.
    let text = "read own </proc/self/oom_score_adj; bash -c 'cat /proc/self/oom_score_adj'
        while read watcher </proc/$PPID/oom_score_adj && [ $watcher = 800 ]; do :; done; echo $watcher $own";
    let outcome = client.exec(script(text)).await.unwrap().collect(PLENTY).await.unwrap();
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), format!("800\n{} 800\n", own.trim()));
}

/// A bomb that fills the user's processes is ended by its time limit, and one that has left its command by the kill of everything.
#[tokio::test]
async fn fork_bombs_are_ended() {
    need_root!();
    let runtime = start("64322").await;
    let client = runtime.client().await;
    let bomb = "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 100";
    let began = Instant::now();
    let limit = Duration::from_millis(800);
    let outcome = client.exec(limited(bomb, limit)).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!((outcome.exit.reason, outcome.exit.survivors), (ExitReason::TimeLimit, 0));
    assert!(began.elapsed() < Duration::from_secs(5));
    let count = "set -- /proc/[0-9]*; echo $#";
    // Process 1, the supervisor and the shell. What was ended is there until process 1 has reaped it.
    let mut after = client.exec(script(count)).await.unwrap().collect(PLENTY).await.unwrap();
    while after.stdout != b"3\n" && began.elapsed() < Duration::from_secs(10) {
        after = client.exec(script(count)).await.unwrap().collect(PLENTY).await.unwrap();
    }
    assert_eq!(after.stdout, b"3\n");

    let loose = "bomb() { bomb | bomb & }; export -f bomb; setsid bash -c 'bomb 2>/dev/null' & sleep 0.3; exit 4";
    let outcome = client.exec(script(loose)).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!(outcome.exit.code, Some(4));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(client.kill_all().await.unwrap(), 0);
    let after = client.exec(script(count)).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!(after.stdout, b"3\n");
}
