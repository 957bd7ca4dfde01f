//! Projects and commands, through the client alone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Ran, needs_root};
use crate::server::TestServer;

type Lines = std::io::Lines<std::io::BufReader<std::process::ChildStderr>>;

/// A small project on disk: a script, an executable, and what must not travel.
fn project(root: &Path) {
    for (path, text) in [
        ("only/run.py", "print('from the project')\n"),
        ("only/tools/hi.sh", "#!/bin/sh\necho hi from $0\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("node_modules/x/index.js", "1\n"),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(root.join("only/tools/hi.sh"), executable).unwrap();
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn session_of(ran: &Ran) -> String {
    let line = ran.stderr.lines().find_map(|line| line.strip_prefix("session ")).unwrap();
    line.to_owned()
}

fn send(process: &std::process::Child, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(process), signal).unwrap();
}

#[test]
fn a_directory_becomes_a_version_and_its_files_can_be_edited() {
    needs_root!();
    let server = TestServer::start(&[]);
    let here = tempfile::tempdir().unwrap();
    project(here.path());
    let directory = here.path().to_str().unwrap();
    assert!(server.ran(&["project", "create", "Demo App"]).stdout.starts_with("henv_"));
    let again = server.ran(&["project", "create", "demo app"]);
    assert!(again.status == 1 && again.stderr.contains("hint: two projects"), "{}", again.stderr);
    let unbuilt = server.ran(&["run", "demo-app", "--", "true"]);
    assert!(unbuilt.status == 125, "{}", unbuilt.stderr);
    let built_first =
        "demo-app has no version yet that could be read\n\nhint: build it first: stead project build demo-app\n";
    assert!(unbuilt.stderr.ends_with(built_first), "{}", unbuilt.stderr);
    let empty = server.ran(&["project", "build", "demo-app"]);
    assert!(empty.status == 1 && empty.stderr.contains("stead project import demo-app"), "{}", empty.stderr);

    let imported = server.ran(&["project", "import", "demo-app", directory]);
    assert!(imported.status == 0 && imported.stderr.contains("left out: .git, node_modules"), "{}", imported.stderr);
    let paths = |server: &TestServer| -> Vec<String> {
        let tree = json(&server.ran(&["project", "files", "Demo App", "--json"]));
        let entries = tree["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    };
    // The one directory at the root is the project's own: it is kept.
    assert_eq!(paths(&server), ["only", "only/run.py", "only/tools", "only/tools/hi.sh"]);

    let file = here.path().join("bytes.bin");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(server.ran(&["project", "put", "demo-app", file.to_str().unwrap(), "data/a b.bin"]).status, 0);
    let fetched = server.command(&["project", "get", "demo-app", "data/a b.bin"]).output().unwrap();
    assert!(fetched.status.success() && fetched.stdout == bytes);
    assert_eq!(server.ran(&["project", "rm", "demo-app", "data"]).status, 0);
    assert_eq!(paths(&server).len(), 4);
    let gone = server.ran(&["project", "get", "demo-app", "data/a b.bin"]);
    assert!(
        gone.status == 1 && gone.stderr.starts_with("error: there is no `data/a b.bin` in demo-app"),
        "{}",
        gone.stderr
    );
    assert!(server.ran(&["project", "ls", "demo-app"]).stdout.contains("only/run.py"));

    let built = server.ran(&["project", "build", "demo-app"]);
    assert_eq!(built.status, 0, "{}", built.stderr);
    assert!(!built.stdout.is_empty() && built.stderr.contains("build 1 of demo-app is ready"), "{}", built.stderr);
    let log = server.ran(&["project", "log", "demo-app"]);
    assert_eq!(log.stdout, built.stdout);

    std::fs::write(here.path().join("only/setup.sh"), "").unwrap();
    std::fs::write(here.path().join("setup.sh"), "echo about to fail\nexit 3\n").unwrap();
    assert_eq!(server.ran(&["project", "import", "demo-app", directory, "--replace"]).status, 0);
    let failed = server.ran(&["project", "build", "demo-app"]);
    assert!(failed.status == 1 && failed.stdout.contains("about to fail"), "{}\n{}", failed.stdout, failed.stderr);
    assert!(failed.stderr.contains("error: build 2 of demo-app failed: "), "{}", failed.stderr);
    assert!(failed.stderr.contains("hint: version 1 stays active; "), "{}", failed.stderr);
    let versions = json(&server.ran(&["project", "versions", "demo-app", "--json"]));
    assert_eq!((&versions["active"], versions["versions"].as_array().unwrap().len()), (&1.into(), 2));
    for version in ["2", "7"] {
        let refused = server.ran(&["project", "activate", "demo-app", version]);
        let hint = "hint: `stead project versions demo-app`";
        assert!(refused.status == 1 && refused.stderr.contains(hint), "{}", refused.stderr);
        assert!(!refused.stderr.contains("environment"), "{}", refused.stderr);
    }
    assert_eq!(server.ran(&["project", "delete", "demo-app"]).status, 0);
    assert_eq!(json(&server.ran(&["project", "list", "--json"]))["environments"].as_array().unwrap().len(), 0);
}

#[test]
fn a_command_runs_as_if_it_ran_here() {
    needs_root!();
    let server = TestServer::start(&[]);
    let here = tempfile::tempdir().unwrap();
    project(here.path());
    server.ran(&["project", "create", "demo"]);
    server.ran(&["project", "import", "demo", here.path().to_str().unwrap()]);
    assert_eq!(server.ran(&["project", "build", "demo"]).status, 0);

    let hello = server.ran(&["run", "demo", "--", "python3", "/env/demo/only/run.py"]);
    assert_eq!((hello.status, hello.stdout.as_str()), (0, "from the project\n"), "{}", hello.stderr);
    let script = "printf 'a\\000\\377' ; printf err >&2; /env/demo/only/tools/hi.sh; touch /env/demo/x; exit 7";
    let both = server.command(&["run", "demo", "--", "bash", "-c", script]).output().unwrap();
    assert_eq!(both.status.code(), Some(7));
    assert_eq!(both.stdout, b"a\0\xffhi from /env/demo/only/tools/hi.sh\n");
    let errors = String::from_utf8(both.stderr).unwrap();
    assert!(errors.contains("err") && errors.contains("Read-only file system"), "{errors}");

    let words = ["a b", "$HOME", "it's", "*", "", "\\"];
    let mut arguments = vec!["run", "-", "--", "printf", "%s\\n"];
    arguments.extend(words);
    assert_eq!(server.ran(&arguments).stdout, words.map(|word| word.to_owned() + "\n").concat());
    assert_eq!(server.ran(&["run", "-", "--", "bash", "-c", "kill -9 $$"]).status, 137);
    let began = Instant::now();
    let slow = server.ran(&["run", "-", "--time-limit", "1s", "--", "sleep", "60"]);
    assert!(slow.status == 124 && began.elapsed() < Duration::from_secs(20), "{} {}", slow.status, slow.stderr);
    assert!(slow.stderr.contains("the script took longer than the 1 second that it was given"), "{}", slow.stderr);
}

#[test]
fn sessions_keep_their_files_and_hand_them_out_beneath_one_directory() {
    needs_root!();
    let server = TestServer::start(&[]);
    let here = tempfile::tempdir().unwrap();
    let out = here.path().join("out");
    let save = out.to_str().unwrap();
    let first = server.ran(&[
        "run",
        "-",
        "--save",
        save,
        "--",
        "bash",
        "-c",
        "mkdir -p d; echo one > d/a; ln -s /etc/passwd l",
    ]);
    assert_eq!(first.status, 0, "{}", first.stderr);
    assert_eq!(std::fs::read_to_string(out.join("d/a")).unwrap(), "one\n");
    assert!(!out.join("l").exists());
    let session = session_of(&first);
    let second = server.ran(&["run", "-", "--session", &session, "--", "cat", "d/a"]);
    assert_eq!((second.stdout.as_str(), session_of(&second)), ("one\n", session.clone()));
    let shown = json(&server.ran(&["session", "show", &session, "--json"]));
    assert_eq!(shown["turns"].as_array().unwrap().len(), 2);
    let later = here.path().join("later");
    assert_eq!(server.ran(&["session", "files", &session, "--save", later.to_str().unwrap()]).status, 0);
    assert_eq!(std::fs::read_to_string(later.join("d/a")).unwrap(), "one\n");
    let text = server.ran(&["session", "show", &session]).stdout;
    for part in ["turn 1   completed, exit status 0\n", "  file     d/a (4 B)\n", "turn 2 ", "  output\n    one\n"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert_eq!(server.ran(&["session", "output", &session]).stdout, "one\n");
    assert_eq!(server.ran(&["session", "output", &session, "--turn", "1"]).stdout, "");
    assert_eq!(server.ran(&["session", "output", &session, "--turn", "3"]).status, 1);
    let title = "y".repeat(300);
    let other = session_of(&server.ran(&["run", "-", "--", "echo", &title]));
    let listed = server.ran(&["session", "ls", "--limit", "1"]);
    assert!(listed.stderr.contains("`--all` every one"), "{}", listed.stderr);
    assert!(listed.stdout.lines().all(|line| line.chars().count() <= 110), "{}", listed.stdout);
    assert!(listed.stdout.contains('…') && server.ran(&["session", "list", "--all"]).stderr.is_empty());
    let removed = server.ran(&["session", "rm", "sess_nothing", &session, &other]);
    assert!(removed.status == 1 && removed.stderr.contains("error: sess_nothing: "), "{}", removed.stderr);
    assert_eq!(server.ran(&["session", "show", &session]).status, 1);
    let passing = server.ran(&["run", "-", "--rm", "--", "true"]);
    assert!(passing.status == 0 && !passing.stderr.contains("session "), "{}", passing.stderr);
    let listed = json(&server.ran(&["session", "list", "--json"]));
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 0);
}

#[test]
fn a_server_that_goes_away_is_not_mistaken_for_the_command() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let arguments = ["--patience", "1", "run", "-", "--", "bash", "-c", "echo started; sleep 100"];
    let mut process = server.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 8];
    std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut line).unwrap();
    server.kill();
    let ended = process.wait_with_output().unwrap();
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(125), "{errors}");
    let session = errors.lines().find_map(|line| line.strip_prefix("session ")).unwrap();
    assert!(errors.contains("error: the server went away during the task: "), "{errors}");
    assert!(errors.contains(&format!("`stead session show {session}`")), "{errors}");
    server.start_again();
}

#[test]
fn a_reader_that_goes_away_ends_the_task() {
    needs_root!();
    let server = TestServer::start(&[]);
    let mut command = server.command(&["run", "-", "--", "bash", "-c", "while echo y; do sleep 0.1; done"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 2];
    std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut line).unwrap();
    drop(process.stdout.take());
    let ended = process.wait_with_output().unwrap();
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!((ended.status.code(), errors.lines().count()), (Some(141), 1), "{errors}");
    let session = errors.lines().find_map(|line| line.strip_prefix("session ")).unwrap();
    // This follows the task to its end.
    assert_eq!(server.ran(&["session", "output", session]).status, 0);
    let shown = json(&server.ran(&["session", "show", session, "--json"]));
    assert_eq!(shown["turns"][0]["stead"]["state"], "cancelled");
}

#[test]
fn programs_read_what_a_run_left_and_input_is_not_swallowed_silently() {
    needs_root!();
    let server = TestServer::start(&[]);
    let here = tempfile::tempdir().unwrap();
    let save = here.path().join("out");
    let ran = server.ran(&["run", "-", "--json", "--save", save.to_str().unwrap(), "--", "touch", "a"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["session"].is_string() && lines[0]["turn"].is_string(), "{}", ran.stdout);
    assert_eq!(lines.last().unwrap()["artifacts"][0]["path"], "a");
    let input = here.path().join("input");
    std::fs::write(&input, "data").unwrap();
    let mut command = server.command(&["run", "-", "--time-limit", "30", "--", "cat"]);
    let output = command.stdin(std::fs::File::open(&input).unwrap()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), errors.matches("standard input is not passed on").count()),
        (Some(0), 1),
        "{errors}"
    );
    assert!(!server.ran(&["run", "-", "--", "true"]).stderr.contains("standard input"));
}

#[test]
fn keys_go_by_their_names_and_what_is_skipped_by_its_own() {
    needs_root!();
    let server = TestServer::start(&[("limits.file", "1MiB")]);
    let secret = server.ran(&["key", "create", "ci", "--verb", "run"]).stdout;
    let refused = server.ran(&["key", "create", "twice"]);
    assert_eq!((refused.status, server.ran(&["key", "create", "twice"]).status), (0, 0));
    server.ran(&["project", "create", "demo"]);
    let mut alone = crate::program::stead();
    alone.args(["--url", server.url(), "run", "demo", "--", "true"]).env("STEAD_KEY", secret.trim());
    let alone = crate::program::ran(&mut alone);
    assert!(alone.status == 125 && alone.stderr.contains("the verbs `run` and `read`"), "{}", alone.stderr);
    let revoked = server.ran(&["key", "revoke", "ci"]);
    assert_eq!(revoked.status, 0, "{}", revoked.stderr);
    let again = server.ran(&["key", "revoke", "ci"]);
    assert!(again.status == 1 && again.stderr.contains("revoked already"), "{}", again.stderr);
    let ambiguous = server.ran(&["key", "revoke", "twice"]);
    assert!(
        ambiguous.status == 1 && ambiguous.stderr.contains("hint: name one by its id: key_"),
        "{}",
        ambiguous.stderr
    );

    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("fine"), "1").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", here.path().join("out")).unwrap();
    let put = server.ran(&["project", "put", "demo", here.path().to_str().unwrap(), "in"]);
    assert!(put.stderr.contains("skipped in/out: ") && put.stderr.contains("1 file written"), "{}", put.stderr);
    let large = here.path().join("large");
    std::fs::write(&large, vec![0; 3 << 20]).unwrap();
    for arguments in [&["put", "demo", large.to_str().unwrap()], &["import", "demo", here.path().to_str().unwrap()]] {
        let refused = server.ran(&[&["project"], &arguments[..]].concat());
        let said = format!("error: {} is too large: 3.0 MiB, and the server takes at most 1.0 MiB", large.display());
        assert!(refused.status == 1 && refused.stderr.starts_with(&said), "{}", refused.stderr);
    }
}

#[test]
fn an_interrupt_cancels_and_a_crash_is_told() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let started = |server: &TestServer| {
        let mut command = server.command(&["run", "-", "--", "bash", "-c", "echo started; sleep 100"]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 8];
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut line).unwrap();
        assert_eq!(&line, b"started\n");
        process
    };
    for signal in [Signal::INT, Signal::TERM] {
        let process = started(&server);
        send(&process, signal);
        let ended = process.wait_with_output().unwrap();
        let errors = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(130), "{signal:?}: {errors}");
        assert!(errors.contains("the task was cancelled"), "{signal:?}: {errors}");
    }

    let process = started(&server);
    server.kill();
    server.start_again();
    let ended = process.wait_with_output().unwrap();
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(125), "{errors}");
    assert!(errors.contains("the task was interrupted"), "{errors}");
    let session = errors.lines().find_map(|line| line.strip_prefix("session ")).unwrap();
    let shown = server.ran(&["session", "show", session]).stdout;
    assert!(shown.contains("turn 1   interrupted") && shown.contains("  failure  "), "{shown}");
    assert_eq!(server.ran(&["session", "output", session]).stdout, "started\n");
    assert_eq!(server.ran(&["run", "-", "--", "echo", "back"]).stdout, "back\n");
}

#[test]
fn a_build_can_be_cancelled_and_a_crash_of_the_server_ends_it_with_its_reason() {
    needs_root!();
    let mut server = TestServer::start(&[]);
    let here = tempfile::tempdir().unwrap();
    let script = here.path().join("setup.sh");
    std::fs::write(&script, "echo installing; sleep 100\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    server.ran(&["project", "create", "slow"]);
    assert_eq!(server.ran(&["project", "put", "slow", script.to_str().unwrap()]).status, 0);
    let unbuilt = server.ran(&["project", "cancel", "slow"]);
    assert!(unbuilt.stderr.contains("hint: `stead project build slow`"), "{}", unbuilt.stderr);
    // A client that has said that the script runs, and the rest of what it says.
    let building = |server: &TestServer| {
        let mut command = server.command(&["project", "build", "slow"]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(process.stderr.take().unwrap()));
        assert!(lines.any(|line| line.unwrap() == "==> setup.sh"));
        (process, lines)
    };
    let errors_with = |(mut process, lines): (std::process::Child, Lines), status: i32| {
        let errors: Vec<String> = lines.map(Result::unwrap).collect();
        assert_eq!(process.wait().unwrap().code(), Some(status), "{errors:?}");
        errors.join("\n")
    };
    // The log's end is the build's.
    let ended_build = |server: &TestServer| json(&server.ran(&["project", "log", "slow", "--json"]));
    let first = building(&server);
    let busy = server.ran(&["project", "build", "slow"]);
    assert!(busy.status == 1 && busy.stderr.contains("`stead project cancel slow` ends it"), "{}", busy.stderr);
    let early = server.ran(&["run", "slow", "--", "true"]);
    let running = "hint: its first build is running: stead project log slow\n";
    assert!(early.status == 125 && early.stderr.ends_with(running), "{}", early.stderr);
    // Ctrl-C ends a client that follows, and the build goes on.
    send(&first.0, Signal::INT);
    let left = errors_with(first, 130);
    let said = "build 1 goes on: `stead project log slow` follows it, `stead project cancel slow` ends it";
    assert!(left.contains(said), "{left}");
    let versions = json(&server.ran(&["project", "versions", "slow", "--json"]));
    assert_eq!(versions["versions"][0]["status"], "building");
    assert_eq!(server.ran(&["project", "cancel", "slow"]).status, 0);
    let ended = ended_build(&server);
    assert!(ended["status"] == "failed" && ended["error"].as_str().unwrap().contains("cancelled"), "{ended}");

    let second = building(&server);
    server.kill();
    server.start_again();
    let errors = errors_with(second, 1);
    assert!(errors.contains("build 2 of slow failed: interrupted"), "{errors}");
    assert!(errors.contains("hint: no version is active yet"), "{errors}");
    std::fs::write(&script, "cp setup.sh tool; echo 'echo tool' > tool\n").unwrap();
    assert_eq!(server.ran(&["project", "put", "slow", script.to_str().unwrap()]).status, 0);
    let built = server.ran(&["project", "build", "slow", "--fresh", "--json"]);
    assert_eq!(json(&built)["status"], "ready", "{}", built.stderr);
    // The file kept its executable bit on its way in, and its copy did in the build.
    assert_eq!(server.ran(&["run", "slow", "--", "/env/slow/tool"]).stdout, "tool\n");
}
