//! Projects and commands, through the client alone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

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
    assert!(unbuilt.status == 1 && unbuilt.stderr.contains("hint: `stead project build"), "{}", unbuilt.stderr);

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
    assert!(gone.status == 1 && gone.stderr.starts_with("error: "), "{}", gone.stderr);

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
    let versions = json(&server.ran(&["project", "versions", "demo-app", "--json"]));
    assert_eq!((&versions["active"], versions["versions"].as_array().unwrap().len()), (&1.into(), 2));
    assert_eq!(server.ran(&["project", "activate", "demo-app", "2"]).status, 1);
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
    assert_eq!(server.ran(&["session", "rm", &session]).status, 0);
    assert_eq!(server.ran(&["session", "show", &session]).status, 1);
    let passing = server.ran(&["run", "-", "--rm", "--", "true"]);
    assert!(passing.status == 0 && !passing.stderr.contains("session "), "{}", passing.stderr);
    let listed = json(&server.ran(&["session", "list", "--json"]));
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 0);
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
    let process = started(&server);
    rustix::process::kill_process(rustix::process::Pid::from_child(&process), rustix::process::Signal::INT).unwrap();
    let ended = process.wait_with_output().unwrap();
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{errors}");
    assert!(errors.contains("the task was cancelled"), "{errors}");

    let process = started(&server);
    server.kill();
    server.start_again();
    let ended = process.wait_with_output().unwrap();
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    assert!(errors.contains("the task was interrupted"), "{errors}");
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
    // A client that has said that the script runs, and the rest of what it says.
    let building = |server: &TestServer| {
        let mut command = server.command(&["project", "build", "slow"]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(process.stderr.take().unwrap()));
        assert!(lines.any(|line| line.unwrap() == "==> setup.sh"));
        (process, lines)
    };
    let errors_of = |(mut process, lines): (std::process::Child, Lines)| {
        let errors: Vec<String> = lines.map(Result::unwrap).collect();
        assert_eq!(process.wait().unwrap().code(), Some(1), "{errors:?}");
        errors.join("\n")
    };
    let first = building(&server);
    let busy = server.ran(&["project", "build", "slow"]);
    assert!(busy.status == 1 && busy.stderr.contains("hint: "), "{}", busy.stderr);
    assert_eq!(server.ran(&["project", "cancel", "slow"]).status, 0);
    let errors = errors_of(first);
    assert!(errors.contains("build 1 of slow failed: cancelled"), "{errors}");

    let second = building(&server);
    server.kill();
    server.start_again();
    let errors = errors_of(second);
    assert!(errors.contains("build 2 of slow failed: interrupted"), "{errors}");
    std::fs::write(&script, "cp setup.sh tool; echo 'echo tool' > tool\n").unwrap();
    assert_eq!(server.ran(&["project", "put", "slow", script.to_str().unwrap()]).status, 0);
    let built = server.ran(&["project", "build", "slow", "--fresh", "--json"]);
    assert_eq!(json(&built)["state"], "ready", "{}", built.stderr);
    // The file kept its executable bit on its way in, and its copy did in the build.
    assert_eq!(server.ran(&["run", "slow", "--", "/env/slow/tool"]).stdout, "tool\n");
}
