//! Import from git: what lands, what is reported, what is refused, and where a credential never goes.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{Answer, Api, Framing};
use crate::git_server::{GitServer, SshServer, needs_program};
use crate::objects::{belongings, eventually, names, processes, text};
use crate::program::needs_root;
use crate::server::TestServer;

const ALLOWED: &[(&str, &str)] = &[("git.allowed_hosts", "127.0.0.1")];
const TOKEN: &str = "s3cret/tok-CANARY";
const IN_URL: &str = "user:s3cret%2Ftok-CANARY";

/// Imports what a JSON object names, in place of what is there.
fn import(api: &Api, environment: &str, git: &Value) -> Answer {
    api.post(&format!("/v1/environments/{environment}/import"), &json!({ "git": git, "replace": true }))
}

fn refused(answer: &Answer, status: u16, code: &str) -> String {
    let body = answer.json();
    assert_eq!((answer.status, &body["error"]["code"]), (status, &json!(code)), "{body}");
    text(&body["error"]["message"]).to_owned()
}

fn invalid(answer: &Answer) -> String {
    refused(answer, 422, "environment_invalid")
}

fn read(api: &Api, environment: &str, path: &str) -> String {
    api.get(&format!("/v1/environments/{environment}/files/{path}")).text()
}

fn paths(api: &Api, environment: &str) -> Vec<String> {
    let tree = api.get(&format!("/v1/environments/{environment}/files")).ok();
    tree["entries"].as_array().unwrap().iter().map(|entry| text(&entry["path"]).to_owned()).collect()
}

/// Nothing of an import is left, soon.
fn nothing_is_left(server: &TestServer) {
    eventually("the end of an import", || {
        let mut left = belongings(server);
        left.extend(names(server, "builds/imports"));
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
}

/// Whether a file beneath a directory holds the text.
fn holds(directory: &Path, needle: &[u8]) -> Option<String> {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let found = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            holds(&path, needle)
        } else {
            let bytes = std::fs::read(&path).unwrap_or_default();
            bytes.windows(needle.len()).any(|part| part == needle).then(|| path.display().to_string())
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

#[test]
fn every_sort_of_ref_is_taken_from_plain_files_and_from_a_git_server() {
    needs_root!();
    let (server, git) = (TestServer::start(ALLOWED), GitServer::start(None));
    git.unpack("C029-repo.git.tar", "repo.git");
    let api = Api::of(&server);
    for kind in ["dumb", "smart"] {
        let environment = api.environment(kind, &[("old.txt", "old")]);
        let url = git.url(kind, "repo.git");
        let old = "2f37528e03fce6dab831249e9744c8789fbf3eb9";
        for (reference, version, full) in [
            (Some("main"), "main\n", Some("refs/heads/main")),
            (Some("feature/x"), "feature\n", Some("refs/heads/feature/x")),
            (Some("v0.9"), "old\n", Some("refs/tags/v0.9")),
            (Some("v1.0"), "old\n", Some("refs/tags/v1.0")),
            (Some(old), "old\n", None),
            (None, "main\n", Some("refs/heads/main")),
            (Some("refs/heads/feature/x"), "feature\n", Some("refs/heads/feature/x")),
        ] {
            let answer = import(&api, &environment, &json!({"url": url, "ref": reference})).ok();
            let report = &answer["stead_report"];
            assert_eq!(read(&api, &environment, "VERSION"), version, "{kind} {reference:?}");
            assert_eq!(report["ref"].as_str(), full, "{kind} {reference:?}");
            assert_eq!(text(&report["commit"]).len(), 40, "{report}");
            if version == "old\n" {
                assert_eq!(text(&report["commit"]), old, "a tag is peeled to its commit");
            }
        }
        // Both a branch and a tag: a branch comes first, and the answer says so.
        let same = import(&api, &environment, &json!({"url": url, "ref": "same"})).ok();
        assert_eq!(same["stead_report"]["ref"], "refs/heads/same");
        let tree = api.get(&format!("/v1/environments/{environment}/files")).ok();
        let executable = |path: &str| {
            let mut entries = tree["entries"].as_array().unwrap().iter();
            entries.find(|entry| entry["path"] == path).unwrap()["stead_executable"].clone()
        };
        assert_eq!((executable("a/run.sh"), executable("VERSION")), (json!(true), Value::Null));
        assert!(paths(&api, &environment).iter().all(|path| path != "old.txt" && !path.contains(".git")), "{tree}");
        let missing = "f".repeat(40);
        for reference in ["nope", &missing, &old[..8]] {
            let message = invalid(&import(&api, &environment, &json!({"url": url, "ref": reference})));
            assert!(message.contains(reference), "{message}");
            assert_eq!(message.contains("40 or 64 digits"), reference == &old[..8], "{message}");
        }
        assert_eq!(
            api.get(&format!("/v1/environments/{environment}/files")).ok(),
            tree,
            "a refused import changes nothing"
        );
    }
    nothing_is_left(&server);
}

#[test]
fn the_report_names_what_is_not_there_as_it_seems() {
    needs_root!();
    let (server, git) = (TestServer::start(ALLOWED), GitServer::start(None));
    let pointer = "version https://git-lfs.github.com/spec/v1\\noid sha256:4d7a\\nsize 9\\n";
    git.make(
        "odd.git",
        &format!(
            "mkdir data web .hidden; printf '{pointer}' >data/model.bin; echo hi >'größe ü.txt'; ln -s /etc/passwd link
             echo '{{}}' >package.json; echo '{{}}' >web/package.json; echo >Gemfile; printf 'a\\n$Id$' >kept.txt
             printf '* text eol=crlf ident\\ndata export-ignore\\n' >.gitattributes
             printf '[submodule \"lib\"]\\n\\tpath = vendor/lib\\n\\turl = https://me:hidden@host.invalid/lib.git\\n' >.gitmodules
             git add -A; git update-index --add --cacheinfo 160000,{},vendor/lib; git commit -qm one;",
            "1".repeat(40)
        ),
    );
    git.unpack("C031-repo.git.tar", "lfs.git");
    let api = Api::of(&server);
    let environment = api.environment("odd", &[]);
    let answer = import(&api, &environment, &json!({"url": git.url("smart", "odd.git")})).ok();
    assert_eq!(answer["skipped"], 2, "{answer}");
    let skipped = json!([
        {"name": "link", "reason": "it is a symbolic link"},
        {"name": "vendor/lib", "reason": "it is a submodule, which is not followed"},
    ]);
    assert_eq!(answer["stead_skipped"], skipped);
    let report = &answer["stead_report"];
    assert_eq!(report["submodules"], json!([{"path": "vendor/lib", "url": "https://host.invalid/lib.git"}]));
    assert_eq!(report["lfs_pointers"], json!(["data/model.bin"]));
    let ignored: Vec<&str> =
        report["ignored_manifests"].as_array().unwrap().iter().map(|ignored| text(&ignored["name"])).collect();
    assert_eq!(ignored, ["Gemfile", "web/package.json"]);
    // No attribute of the repository has a say: bytes are as they were committed.
    assert_eq!(read(&api, &environment, "kept.txt"), "a\n$Id$");
    assert!(paths(&api, &environment).contains(&"größe ü.txt".to_owned()));

    let lfs = import(&api, &environment, &json!({"url": git.url("dumb", "lfs.git")})).ok();
    assert_eq!((&lfs["skipped"], &lfs["stead_report"]["lfs_pointers"]), (&json!(0), &json!(["model.bin"])));

    // An archive is reported on as well.
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("setup.py"), "").unwrap();
    std::fs::write(here.path().join("weights.bin"), pointer.replace("\\n", "\n")).unwrap();
    let tar = std::process::Command::new("tar").arg("-C").arg(here.path()).args(["-c", "."]).output().unwrap().stdout;
    let path = format!("/v1/environments/{environment}/import?replace=1");
    let answer = api.send("POST", &path, &[("Content-Type", "application/x-tar")], &tar).ok();
    let report = &answer["stead_report"];
    assert_eq!((&report["lfs_pointers"], &report["commit"]), (&json!(["weights.bin"]), &Value::Null));
    assert_eq!(report["ignored_manifests"][0]["name"], "setup.py");
}

#[test]
fn what_would_run_a_command_or_reach_this_machine_is_refused_at_once() {
    needs_root!();
    let (server, git) = (TestServer::start(&[]), GitServer::start(None));
    let api = Api::of(&server);
    let environment = api.environment("guarded", &[("kept.txt", "kept")]);
    let here = tempfile::tempdir().unwrap();
    let canary = here.path().join("canary");
    let touch = format!("touch {}", canary.display());
    let good = "https://example.invalid/x";
    let began = Instant::now();
    for body in [
        json!({"url": format!("ext::sh -c {}", touch.replace(' ', "% "))}),
        json!({"url": "fd::17/foo"}),
        json!({"url": "file:///etc"}),
        json!({"url": "/etc"}),
        json!({"url": "../.."}),
        json!({"url": format!("--upload-pack={touch}")}),
        json!({"url": "-u"}),
        json!({"url": "ssh://-oProxyCommand=touch/x"}),
        json!({"url": "git://example.invalid/x"}),
        json!({"url": "https://example.invalid/x\nfile:///etc"}),
        json!({"url": ""}),
        json!({"url": "https://"}),
        json!({"url": "http::ext::sh -c id"}),
        json!({"url": "javascript:alert(1)"}),
        json!({"url": good, "ref": format!("--upload-pack={touch}")}),
        json!({"url": good, "ref": "-x"}),
        json!({"url": good, "ref": "a..b"}),
        json!({"url": good, "ref": "x\ny"}),
        json!({"url": good, "ref": ""}),
        json!({"url": good, "stead_ssh_key": "-----BEGIN "}),
        json!({"ref": "main"}),
    ] {
        let message = invalid(&import(&api, &environment, &body));
        assert!(!message.contains("touch"), "{message}");
    }
    // Local addresses are refused unless the operator names the host; the answer says why, and no address that was resolved.
    for url in [git.url("smart", "x.git"), git.url("smart", "x").replace("127.0.0.1", "localhost")] {
        let message = invalid(&import(&api, &environment, &json!({ "url": url })));
        assert!(message.contains("the address is not allowed"), "{message}");
        assert!(url.contains("127.0.0.1") || !message.contains("127.0.0.1"), "{message}");
    }
    invalid(&import(&api, &environment, &json!({"url": "http://169.254.169.254/x"})));
    invalid(&import(&api, &environment, &json!({"url": "http://127.1/x"})));
    let message = refused(&import(&api, &environment, &json!({"url": good})), 503, "environment_unavailable");
    assert!(message.contains("example.invalid"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert!(git.hits().is_empty() && !canary.exists());
    assert_eq!(paths(&api, &environment), ["kept.txt"]);
    nothing_is_left(&server);
}

#[test]
fn a_token_opens_a_repository_and_goes_nowhere_else() {
    needs_root!();
    let server = TestServer::start(&[ALLOWED[0], ("log.level", "debug")]);
    let other = GitServer::start(None);
    let git = GitServer::start(Some(&other));
    for server in [&git, &other] {
        server.make("r.git", "echo private >file.txt; git add -A; git commit -qm one;");
    }
    let api = Api::of(&server);
    let environment = api.environment("private", &[]);
    let began = Instant::now();
    let mut answers = Vec::new();
    let message = invalid(&import(&api, &environment, &json!({"url": git.url("private", "r.git")})));
    assert!(message.contains("needs credentials"), "{message}");
    let wrong = git.url_with("user:wrong-CANARY", "private", "r.git");
    let message = invalid(&import(&api, &environment, &json!({"url": wrong})));
    assert!(message.contains("credentials were refused"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());

    for kind in ["private", "moved"] {
        let answer = import(&api, &environment, &json!({"url": git.url_with(IN_URL, kind, "r.git")}));
        assert_eq!(
            (answer.ok()["written"].as_u64(), read(&api, &environment, "file.txt").as_str()),
            (Some(1), "private\n")
        );
        answers.push(answer.text());
    }
    // Another port is another host: nothing is asked of it, and so nothing told.
    let answer = import(&api, &environment, &json!({"url": git.url_with(IN_URL, "away", "r.git")}));
    let message = invalid(&answer);
    assert!(message.contains("redirects to another host"), "{message}");
    answers.push(answer.text());
    // A host that says back what it was sent is not quoted.
    let answer = import(&api, &environment, &json!({"url": git.url_with(IN_URL, "echo", "r.git")}));
    assert!(git.hits().iter().any(|hit| hit.path.starts_with("/echo/") && hit.authorization.is_some()));
    let message = invalid(&answer);
    assert!(!message.contains("leaked"), "{message}");
    answers.push(answer.text());
    assert!(other.hits().is_empty(), "{:?}", other.hits());

    // While it is used, no process has it among its arguments or in its environment.
    let body = json!({"git": {"url": git.url_with(IN_URL, "slow", "r.git")}}).to_string();
    let path = format!("/v1/environments/{environment}/import");
    let headers = [("Content-Type", "application/json")];
    let slow = std::thread::scope(|scope| {
        let asking = scope.spawn(|| api.send("POST", &path, &headers, body.as_bytes()));
        eventually("a slow request with the token", || {
            let found = git.hits().iter().any(|hit| hit.path.starts_with("/slow/") && hit.authorization.is_some());
            if found { Ok(()) } else { Err("none".to_owned()) }
        });
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            for name in ["cmdline", "environ"] {
                let bytes = std::fs::read(entry.path().join(name)).unwrap_or_default();
                let shown = String::from_utf8_lossy(&bytes).into_owned();
                assert!(!shown.contains("tok-CANARY"), "{}/{name}: {shown}", entry.path().display());
            }
        }
        // Nor is it in a file of the import, a configuration of git's above all.
        assert_eq!(holds(&server.data().join("builds"), b"tok-CANARY"), None);
        asking.join().unwrap()
    });
    answers.push(slow.text());
    slow.ok();
    // The last two are in base64 what the header holds, and a part of it.
    for needle in ["tok-CANARY", "wrong-CANARY", "dXNlcjpzM2NyZXQv", "czNjcmV0L3Rvay", "dG9rLUNBTkFS"] {
        assert!(answers.iter().all(|answer| !answer.contains(needle)), "{answers:?}");
        assert!(!server.log().contains(needle), "the log holds it");
        assert_eq!(holds(server.data(), needle.as_bytes()), None);
    }
    nothing_is_left(&server);
}

#[test]
fn odd_repositories_are_refused_for_what_is_odd() {
    needs_root!();
    let (server, git) = (TestServer::start(ALLOWED), GitServer::start(None));
    // Ten objects that stand for ten thousand million directories.
    git.make(
        "bomb.git",
        "tree=$(git mktree </dev/null)
         for level in 1 2 3 4 5 6 7 8 9 10; do
           tree=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\\t%s\\n' $tree $n; done | git mktree)
         done
         git update-ref refs/heads/main $(git commit-tree -m bomb $tree);",
    );
    git.make("links.git", "ln -s a b; git add -A; git commit -qm one;");
    git.make("broken.git", "echo one >file.txt; git add -A; git commit -qm one;");
    let gone = "f".repeat(40);
    std::fs::write(git.path("broken.git").join("refs/heads/gone"), format!("{gone}\n")).unwrap();
    std::fs::write(git.path("broken.git").join("info/refs"), format!("{gone}\trefs/heads/gone\n")).unwrap();
    let api = Api::of(&server);
    let environment = api.environment("odd", &[("kept.txt", "kept")]);
    let began = Instant::now();
    let message = invalid(&import(&api, &environment, &json!({"url": git.url("smart", "bomb.git")})));
    assert!(message.contains("directories"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());

    let message = invalid(&import(&api, &environment, &json!({"url": git.url("smart", "links.git")})));
    assert!(message.contains("nothing would be left"), "{message}");

    let wanted = "1".repeat(40);
    let message = invalid(&import(&api, &environment, &json!({"url": git.url("dumb", "broken.git"), "ref": wanted})));
    assert!(message.contains(&wanted) && !message.contains(&gone), "{message}");
    assert_eq!(paths(&api, &environment), ["kept.txt"]);
    nothing_is_left(&server);
}

#[test]
fn a_key_opens_a_repository_over_ssh() {
    needs_root!();
    needs_program!("/usr/sbin/sshd");
    let (server, git, ssh) = (TestServer::start(ALLOWED), GitServer::start(None), SshServer::start());
    git.make("r.git", "echo over ssh >file.txt; git add -A; git commit -qm one; git tag v1;");
    let api = Api::of(&server);
    let environment = api.environment("ssh", &[]);
    let url = ssh.url(&git.path("r.git"));
    let with_key = |name: &str, known: &str| json!({"url": url, "ref": "v1", "stead_ssh_key": ssh.key(name), "stead_known_hosts": ssh.known_hosts(known)});
    let message = invalid(&import(&api, &environment, &json!({ "url": url })));
    assert!(message.contains("needs credentials"), "{message}\n{}", ssh.log());
    let message = invalid(&import(&api, &environment, &with_key("stranger", "host")));
    assert!(message.contains("credentials were refused"), "{message}\n{}", ssh.log());
    let message = invalid(&import(&api, &environment, &with_key("client", "stranger")));
    assert!(message.contains("key of the ssh host"), "{message}\n{}", ssh.log());
    let answer = import(&api, &environment, &with_key("client", "host"));
    assert_eq!(answer.status, 200, "{}\n{}", answer.text(), ssh.log());
    assert_eq!(answer.ok()["stead_report"]["ref"], "refs/tags/v1");
    assert_eq!(read(&api, &environment, "file.txt"), "over ssh\n");
    // Without keys of hosts, whatever the host shows is taken.
    import(&api, &environment, &json!({"url": url, "stead_ssh_key": ssh.key("client")})).ok();
    let secret = ssh.key("client").lines().nth(2).unwrap().to_owned();
    assert_eq!(holds(server.data(), secret.as_bytes()), None);
    nothing_is_left(&server);
}

#[test]
fn limits_hold_and_what_is_given_up_leaves_nothing() {
    needs_root!();
    let limits = [ALLOWED[0], ("limits.file", "64KiB"), ("limits.import", "4MiB"), ("limits.import_members", "50")];
    let mut server = TestServer::start(&limits);
    let git = GitServer::start(None);
    git.make("large.git", "head -c 70000 /dev/zero >zeros; git add -A; git commit -qm one;");
    git.make("many.git", "for n in $(seq 60); do echo $n >f$n; done; git add -A; git commit -qm one;");
    git.make("heavy.git", "for n in $(seq 50); do head -c 400000 /dev/urandom >f; git add -A; git commit -qm $n; done; rm f; git add -A; git commit -qm end --allow-empty;");
    git.make("r.git", "echo private >file.txt; git add -A; git commit -qm one;");
    let api = Api::of(&server);
    let environment = api.environment("limits", &[("kept.txt", "kept")]);
    for (repository, kind, detail) in [
        ("large.git", "smart", json!({"max_bytes": 65_536})),
        ("many.git", "smart", json!({"max_members": 50})),
        // A static server cannot leave the history out, so all of it comes.
        ("heavy.git", "dumb", json!({"max_bytes": 4 << 20})),
    ] {
        let answer = import(&api, &environment, &json!({"url": git.url(kind, repository)}));
        refused(&answer, 413, "file_too_large");
        assert_eq!(answer.json()["error"]["detail"], detail, "{repository}: {}", answer.text());
    }
    assert_eq!(paths(&api, &environment), ["kept.txt"]);
    nothing_is_left(&server);

    // A client that hangs up ends its import.
    let body = json!({"git": {"url": git.url_with(IN_URL, "slow", "r.git")}}).to_string();
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut connection = std::net::TcpStream::connect(&address).unwrap();
    let request = format!(
        "POST /v1/environments/{environment}/import HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        api.key(),
        body.len()
    );
    connection.write_all(request.as_bytes()).unwrap();
    eventually(
        "an import",
        || {
            if names(&server, "builds/imports").is_empty() { Err("none".to_owned()) } else { Ok(()) }
        },
    );
    drop(connection);
    nothing_is_left(&server);
    assert_eq!(paths(&api, &environment), ["kept.txt"]);

    // So does a stop in good order, which waits for that.
    std::thread::scope(|scope| {
        let api = Api::of(&server);
        let git = json!({"url": git.url_with(IN_URL, "slow", "r.git")}).to_string();
        let path = format!("/v1/environments/{environment}/import");
        let asking = scope.spawn(move || {
            let headers = [("Content-Type", "application/json")];
            let body = format!("{{\"git\": {git}}}");
            api.try_send("POST", &path, &headers, body.as_bytes()).map(|answer| answer.status)
        });
        eventually("an import", || if processes(&server).is_empty() { Err("none".to_owned()) } else { Ok(()) });
        assert_eq!(server.terminate().0, Some(0), "{}", server.log());
        assert_eq!((processes(&server), names(&server, "builds/imports")), (Vec::new(), Vec::new()));
        assert!(matches!(asking.join().unwrap(), None | Some(503)));
    });
    server.start_again();

    // So does the server's death, and the next start clears up.
    for moment in ["import.opened", "import.fetched"] {
        server.terminate();
        server.set("STEAD_CRASH_AT", moment);
        server.start_again();
        let body = json!({"git": {"url": git.url("smart", "r.git")}}).to_string();
        let path = format!("/v1/environments/{environment}/import");
        let headers = [("Content-Type", "application/json")];
        assert!(Api::of(&server).open("POST", &path, &headers, body.as_bytes(), Framing::Length).is_none());
        server.wait_for_death();
        server.set("STEAD_CRASH_AT", "");
        server.start_again();
        nothing_is_left(&server);
        assert_eq!(paths(&Api::of(&server), &environment), ["kept.txt"], "{moment}");
    }
}

#[test]
fn the_client_imports_with_a_token_that_is_no_argument() {
    needs_root!();
    let (server, git) = (TestServer::start(ALLOWED), GitServer::start(None));
    git.make(
        "r.git",
        "echo hi >file.txt; ln -s file.txt link; echo >go.mod; git add -A; git commit -qm one; git branch next;",
    );
    Api::of(&server).environment("cli", &[]);
    let url = git.url_with("user", "private", "r.git");
    let mut command = server.command(&["project", "import", "cli", "--git", &url, "--ref", "next", "--token-stdin"]);
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{TOKEN}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    for expected in
        ["skipped link: it is a symbolic link", "(refs/heads/next)", "builds ignore go.mod", "2 files written"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!said.contains("CANARY"), "{said}");
    let wrong = server.ran(&["project", "import", "cli", "--git", "git@host:x", "--ref", "a..b"]);
    assert!(wrong.status == 1 && wrong.stderr.contains("the ref is no name"), "{}", wrong.stderr);
}
