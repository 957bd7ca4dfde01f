//! What environments are to each other: two sessions of one project, of two projects, of two workspaces, and a build beside them.
//! None reads, signals, traces or connects to another, and none can take what another is to have.
//!
//! Every attempt is first made in the session that it is meant against, where it must succeed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{eventually, process, said, text, wait_for_file};
use crate::program::needs_root;
use crate::server::TestServer;

/// Offers everything that another could come by.
const HOUSE: &str = include_str!("apart/house.py");
/// Tries to come by it, and says for each way what came of it.
const VISIT: &str = include_str!("apart/visit.py");
/// Takes as much as it can of everything that is counted, and keeps it.
const HOG: &str = include_str!("apart/hog.py");
/// Takes all instances for watching files that there are.
const WATCHES: &str = "import ctypes, time; c = ctypes.CDLL(None); any(c.inotify_init() < 0 for _ in range(2000))";
/// Takes a modest share of the same.
const MODEST: &str = include_str!("apart/modest.py");

/// What the host's root sees of the victim, for those that look for it.
fn visit(pid: i32) -> String {
    format!("OTHER = {pid}\n{VISIT}")
}

fn written(name: &str, content: &str) -> String {
    format!("cat > {name} <<'END OF FILE'\n{content}\nEND OF FILE\n")
}

/// What came of each attempt.
fn outcomes(output: &str) -> BTreeMap<String, String> {
    let lines = output.lines().filter_map(|line| line.split_once("visit\t")?.1.split_once('\t'));
    lines.map(|(name, outcome)| (name.to_owned(), outcome.trim_end().to_owned())).collect()
}

fn reached(outcomes: &BTreeMap<String, String>) -> Vec<&String> {
    outcomes.iter().filter(|(_, outcome)| *outcome == "reached").map(|(name, _)| name).collect()
}

/// A second workspace and a caller of it.
fn other_workspace(server: &TestServer) -> Api {
    let made = server.ran(&["workspace", "create", "other"]);
    assert_eq!(made.status, 0, "{}", made.stderr);
    let key = server.ran(&["key", "create", "other", "--workspace", "other", "--verb", "read,run,write"]);
    assert_eq!(key.status, 0, "{}", key.stderr);
    Api::with_key(server, key.stdout.trim())
}

/// A session in which everything stands open, and the host's number of its process.
fn open_house(server: &TestServer, api: &Api, harness: &str, project: &str) -> (Value, i32) {
    let script = [
        written("house.py", HOUSE),
        written("visit.py", &visit(0)),
        "python3 house.py & while [ ! -e open ]; do sleep 0.05; done\n".to_owned(),
        // The control: in its own session, all of it can be come by.
        "OTHER=$! python3 visit.py > control; touch only-victims; exec -a victims-process sleep 300".to_owned(),
    ];
    let task = json!({"harness_id": harness, "environment": project});
    let victim = api.ask(&json!({"input": script.concat(), "background": true, "metadata": task})).ok();
    wait_for_file(server, "only-victims");
    let environments = std::fs::read_dir(server.data().join("environments")).unwrap().flatten();
    let control = environments.map(|entry| entry.path().join("work/control")).find(|path| path.exists()).unwrap();
    let control = outcomes(&std::fs::read_to_string(control).unwrap());
    assert_eq!(reached(&control).len(), control.len(), "the control: {control:#?}");
    assert!(control.len() > 15, "{control:#?}");
    (victim, process(server, "victims-process").unwrap())
}

fn nothing_of_each_other(server: &TestServer, projects: [&str; 2]) {
    let ours = Api::of(server);
    let theirs = other_workspace(server);
    let harness = ours.harness();
    let [first, second] = projects.map(|name| {
        let id = ours.environment(name, &[("name.txt", name)]);
        ours.build(&id);
        id
    });
    let (victim, pid) = open_house(server, &ours, &harness, &first);

    let script = written("visit.py", &visit(pid)) + "python3 visit.py";
    let their_harness = theirs.harness();
    let their_project = theirs.environment(projects[0], &[("name.txt", "theirs")]);
    theirs.build(&their_project);
    let visitors = [
        ("of the same project", &ours, &harness, &first),
        ("of another project", &ours, &harness, &second),
        ("of another workspace", &theirs, &their_harness, &their_project),
    ];
    for (who, api, harness, project) in visitors {
        let metadata = json!({"harness_id": harness, "environment": project});
        let ran = api.ask(&json!({"input": script, "metadata": metadata})).ok();
        assert_eq!(ran["status"], "completed", "{ran:#}");
        let seen = outcomes(&said(&ran));
        assert!(seen.len() > 15 && reached(&seen).is_empty(), "a session {who}: {seen:#?}");
    }

    // A build that visits the session, and a session that visits a build.
    let builder = ours.environment("builder", &[("setup.sh", script.as_str())]);
    let record = ours.build(&builder);
    let seen = outcomes(text(&record["log"]));
    assert!(seen.len() > 15 && reached(&seen).is_empty(), "a build: {record:#}");
    let house = [
        written("house.py", HOUSE),
        "python3 house.py & while [ ! -e open ]; do sleep 0.05; done\n".to_owned(),
        "exec -a builds-process sleep 60".to_owned(),
    ];
    let built = ours.environment("house", &[("setup.sh", house.concat().as_str())]);
    let version = ours.begin_build(&built);
    let pid = eventually("the build", || process(server, "builds-process").ok_or_else(|| "no such process".to_owned()));
    let script = written("visit.py", &visit(pid)) + "python3 visit.py";
    let seen = outcomes(&said(&ours.run(&harness, &script)));
    assert!(seen.len() > 15 && reached(&seen).is_empty(), "a session and a build: {seen:#?}");
    let stopped = ours.post(&format!("/stead/v1/projects/{built}/builds/{version}/cancel"), &json!({}));
    assert!((200..300).contains(&stopped.status), "{}", stopped.text());

    let victim = ours.get(&format!("/v1/responses/{}", text(&victim["id"]))).ok();
    assert_eq!(victim["status"], "in_progress", "{victim:#}");
}

#[test]
fn environments_of_root_have_nothing_of_each_other() {
    needs_root!();
    nothing_of_each_other(&TestServer::start(&[]), ["first", "second"]);
}

#[test]
fn environments_of_a_user_have_nothing_of_each_other() {
    needs_root!();
    nothing_of_each_other(&TestServer::start_as_user(&[]), ["first", "second"]);
}

#[test]
fn a_session_has_no_project_that_its_task_did_not_name() {
    needs_root!();
    let server = TestServer::start(&[]);
    let api = Api::of(&server);
    let harness = api.harness();
    let named = api.environment("named", &[("name.txt", "named\n")]);
    let unnamed = api.environment("unnamed", &[("name.txt", "words-of-the-unnamed\n")]);
    api.build(&named);
    api.build(&unnamed);
    let layers = format!("{}/projects", server.data().display());
    let look = format!(
        "ls /env 2>/dev/null; cat /env/unnamed/name.txt /env/named/../unnamed/name.txt 2>/dev/null; ls {layers} 2>/dev/null
         grep -rs words-of-the-unname[d] /env /workspace /tmp /run /home /opt /var 2>/dev/null
         env | grep -c unname[d]; grep -c 'unname[d]\\|{}' /proc/self/mountinfo; true",
        unnamed.trim_start_matches("henv_")
    );
    let with = api.ask(&json!({"input": look, "metadata": {"harness_id": harness, "environment": named}})).ok();
    assert_eq!(said(&with), "named\n0\n0\n");
    let without = api.run(&harness, &look);
    assert_eq!(said(&without), "0\n0\n");
}

/// What a modest session got of each kind while another had taken all that it could.
fn left(server: &TestServer) -> BTreeMap<String, String> {
    let api = Api::of(server);
    let harness = api.harness();
    let hog = api.begin(&harness, &(written("hog.py", HOG) + "exec python3 hog.py"));
    wait_for_file(server, "taken");
    // What a sandbox has a small bound of takes several to empty the machine of.
    for number in 0..4 {
        let script = format!("python3 -c '{WATCHES}; open(\"taken-{number}\", \"w\"); time.sleep(300)'");
        api.begin(&harness, &script);
        wait_for_file(server, &format!("taken-{number}"));
    }
    let ran = api.run(&harness, &(written("modest.py", MODEST) + "python3 modest.py"));
    assert_eq!(ran["status"], "completed", "{ran:#}");
    let hog = api.get(&format!("/v1/responses/{}", text(&hog["id"]))).ok();
    assert_eq!(hog["status"], "in_progress", "{hog:#}");
    eprintln!("taken: {}", said(&hog));
    outcomes(&said(&ran))
}

#[test]
fn what_one_session_takes_the_other_keeps() {
    needs_root!();
    let settings = [("native.memory", "1GiB"), ("native.processes", "200"), ("native.disk", "64MiB")];
    let seen = left(&TestServer::start(&settings));
    let lacking: Vec<_> = seen.iter().filter(|(_, outcome)| *outcome != "enough").collect();
    assert!(seen.len() > 9 && lacking.is_empty(), "{seen:#?}");
    // Sessions of one user have one purse for what the kernel counts by user.
    let by_user = ["watches", "pipes", "descriptors in flight", "locked memory", "timers"];
    let seen = left(&TestServer::start_as_user(&settings));
    let lacking: Vec<_> =
        seen.iter().filter(|(name, outcome)| *outcome != "enough" && !by_user.contains(&name.as_str())).collect();
    assert!(seen.len() > 9 && lacking.is_empty(), "{seen:#?}");
}
