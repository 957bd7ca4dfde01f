//! Killing what belongs to a command, and nothing else.

use std::time::{Duration, Instant};

use stead_link::{Client, ExecEvent, ExitReason, Token};

use crate::runtime::{PLENTY, Runtime, TOKEN, limited, running, script};

/// C062, twenty times: the whole tree goes, what it wrote before stays.
#[tokio::test]
async fn the_time_limit_ends_the_whole_tree() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    for _ in 0..20 {
        let began = Instant::now();
        let spec = limited(include_bytes!("../../../../tests/field-cases/C062-timeout.sh"), Duration::from_millis(400));
        let outcome = client.exec(spec).await.unwrap().collect(PLENTY).await.unwrap();
        assert!(outcome.stdout.starts_with(b"before\n"));
        assert_eq!(
            (outcome.exit.reason, outcome.exit.signal, outcome.exit.survivors),
            (ExitReason::TimeLimit, Some(9), 0)
        );
        assert!(began.elapsed() < Duration::from_secs(3));
        assert_eq!(running(&["sleep 987.62", "time.sleep(987.623)"]), Vec::<String>::new());
    }
}

/// A command that forks as fast as it can does not outrun its killer, and its neighbour does not notice.
#[tokio::test]
async fn a_fork_storm_is_ended() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let neighbour = client.exec(script("sleep 987.711")).await.unwrap();
    // Each copy starts two more in sessions of their own and ends; never more than some hundred live at a time.
    let storm = "storm() { local depth=$1; [ $depth -gt 60 ] && exec sleep 987.712; (setsid bash -c \"$(declare -f storm); storm $((depth+1))\" &) ; \
                 [ $((depth % 12)) = 0 ] && (setsid bash -c \"$(declare -f storm); storm $((depth+1))\" &); sleep 987.712; }; storm 0";
    let outcome = client.exec(limited(storm, Duration::from_millis(700))).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!((outcome.exit.reason, outcome.exit.survivors), (ExitReason::TimeLimit, 0));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(running(&["987.712", "declare -f storm", "storm "]), Vec::<String>::new());
    assert_eq!(running(&["sleep 987.711"]).len(), 1);
    neighbour.kill().unwrap();
    assert_eq!(neighbour.collect(PLENTY).await.unwrap().exit.reason, ExitReason::Killed);
}

#[tokio::test]
async fn dropping_a_command_kills_its_tree() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let mut exec = client.exec(script("(setsid sleep 987.721 &); echo up; sleep 987.721")).await.unwrap();
    while exec.next().await.unwrap() != Some(ExecEvent::Stdout("up\n".into())) {}
    drop(exec);
    let deadline = Instant::now() + Duration::from_secs(5);
    while !running(&["sleep 987.721"]).is_empty() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.ping().await.unwrap();
}

/// Code inside runs under the same user and may kill the supervisor; the tree is still ended.
#[tokio::test]
async fn killing_the_supervisor_saves_nobody() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let neighbour = client.exec(script("sleep 987.731")).await.unwrap();
    let text = "(setsid sleep 987.732 &); sleep 0.1; kill -9 $PPID; sleep 987.732";
    let outcome = client.exec(script(text)).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!(outcome.exit.reason, ExitReason::Lost);
    assert_eq!(running(&["sleep 987.732"]), Vec::<String>::new());
    assert_eq!(running(&["sleep 987.731"]).len(), 1);
    drop(neighbour);
}

/// A command is not under way for longer because it has stopped whoever watches it: that one goes on, and one that is stopped again and
/// again is killed, with its command.
#[tokio::test]
async fn stopping_the_supervisor_gains_no_time() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let began = Instant::now();
    let once = "kill -STOP $PPID; echo x; exit 3";
    let outcome = client.exec(script(once)).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!((outcome.exit.reason, outcome.exit.code), (ExitReason::Exited, Some(3)));
    assert_eq!(outcome.stdout, b"x\n");
    let again_and_again = "while :; do kill -STOP $PPID; sleep 0.02; done # 987.734";
    let outcome = client.exec(script(again_and_again)).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!(outcome.exit.reason, ExitReason::Killed);
    assert_eq!(running(&["987.734"]), Vec::<String>::new());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// A supervisor that was stopped from inside keeps no limit; process 1 does it instead.
#[tokio::test]
async fn stopping_the_supervisor_saves_nobody() {
    let runtime = Runtime::start();
    let client = runtime.client().await;
    let still = "(setsid sleep 987.735 &); kill -STOP $PPID; sleep 987.735";
    // One that is let go and stopped again, by a process that ignores what can be ignored.
    let now_and_then = "trap '' TERM INT HUP QUIT; one=$PPID; export one
        setsid bash -c 'while :; do kill -STOP $one; kill -CONT $one; kill -STOP $one; sleep 0.01; done # 987.735' & sleep 987.735";
    for text in [still, now_and_then] {
        let began = Instant::now();
        let spec = limited(text, Duration::from_millis(300));
        let outcome = client.exec(spec).await.unwrap().collect(PLENTY).await.unwrap();
        // The second may be taken for an attempt to go unwatched before its time is over.
        assert!(matches!(outcome.exit.reason, ExitReason::TimeLimit | ExitReason::Killed), "{:?}", outcome.exit);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(running(&["987.735"]), Vec::<String>::new());
    }
    // The server's kill and the output limit need no supervisor either.
    let mut flood = script("sleep 0.2; kill -STOP $PPID; yes 987.736");
    flood.output_limit = Some(1_000_000);
    let outcome = client.exec(flood).await.unwrap().collect(PLENTY).await.unwrap();
    assert_eq!(outcome.exit.reason, ExitReason::OutputLimit);
    let exec = client.exec(script("sleep 0.1; kill -STOP $PPID; sleep 987.736")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    exec.kill().unwrap();
    assert_eq!(exec.collect(PLENTY).await.unwrap().exit.reason, ExitReason::Killed);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(running(&["987.736"]), Vec::<String>::new());
}

/// A lost connection ends nothing; a new one may end everything.
#[tokio::test]
async fn a_new_connection_ends_what_the_old_one_left() {
    let runtime = Runtime::start();
    let socket = runtime.socket.clone();
    // The old server is a tokio of its own, which ends with everything it holds and without a word.
    let old = std::thread::spawn(move || {
        let old = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        old.block_on(async {
            let client = Client::connect(&socket, &Token::new(TOKEN)).await.unwrap();
            let text = "(setsid sleep 987.741 &); echo up; sleep 987.741";
            let mut exec = client.exec(script(text)).await.unwrap();
            while exec.next().await.unwrap() != Some(ExecEvent::Stdout("up\n".into())) {}
            std::mem::forget(exec);
        });
    });
    old.join().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while running(&["sleep 987.741"]).len() != 2 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let client = runtime.client().await;
    assert_eq!(client.kill_all().await.unwrap(), 0);
    assert_eq!(running(&["sleep 987.741"]), Vec::<String>::new());
}

#[tokio::test]
async fn the_end_is_orderly_on_request_and_on_sigterm() {
    let mut runtime = Runtime::start();
    let client = runtime.client().await;
    let exec = client.exec(script("(setsid sleep 987.751 &); echo up; sleep 987.751")).await.unwrap();
    client.shutdown().await.unwrap();
    assert!(runtime.child.wait().unwrap().success());
    assert!(exec.collect(PLENTY).await.is_err());
    assert!(client.ping().await.is_err());
    assert_eq!(running(&["sleep 987.751"]), Vec::<String>::new());

    let mut runtime = Runtime::start();
    let client = runtime.client().await;
    let mut exec = client.exec(script("echo up; exec sleep 987.752")).await.unwrap();
    while exec.next().await.unwrap() != Some(ExecEvent::Stdout("up\n".into())) {}
    let pid = rustix::process::Pid::from_raw(runtime.child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(runtime.child.wait().unwrap().success());
    assert_eq!(running(&["sleep 987.752"]), Vec::<String>::new());
}
