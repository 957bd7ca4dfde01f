//! What a session can not: reach another session, write a version, reach a network it was not given, read what is the server's,
//! be the host's root, or have anything handed out that does not lie in its working directory.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::{processes, said, text, wait_for_file};
use crate::program::needs_root;
use crate::server::TestServer;

/// Runs a script in a session of its own, which must end well.
fn run(api: &Api, harness: &str, script: &str) -> String {
    let response = api.run(harness, script);
    assert_eq!(response["status"], "completed", "{response:#}");
    said(&response)
}

#[test]
fn a_session_sees_neither_another_one_nor_the_server_nor_the_host() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let victim =
        api.begin(&harness, "mkdir -p d; echo victim-secret > d/only-victims; exec -a victims-process sleep 300");
    wait_for_file(&server, "d/only-victims");
    let pid = processes(&server)
        .into_iter()
        .find_map(|line| line.contains("victims-process").then(|| line.split(['/', ' ']).nth(2).unwrap().to_owned()));
    let pid = pid.unwrap();

    let seen = run(
        &api,
        &harness,
        &format!(
            "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c victims-proces[s]
         find / -xdev -name 'only-victim*' -not -path '/proc/*' 2>/dev/null | wc -l
         kill -0 {pid} 2>/dev/null && echo reached
         ls /proc/{pid} 2>/dev/null
         ls -d /proc/[0-9]* | wc -l"
        ),
    );
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[..2], ["0", "0"], "{seen}");
    assert!(lines.len() == 3 && lines[2].parse::<u32>().unwrap() < 12, "{seen}");

    // Nothing of the server's: its key, its token, its data directory, its environment. The words are put together inside, so
    // that looking for them does not find the looking.
    let (head, tail) = api.key().split_at(20);
    let data = server.data().file_name().unwrap().to_str().unwrap();
    let (first, rest) = data.split_at(3);
    let found = run(&api, &harness, &format!(
        "cat > scan.py <<'EOF'
import os
needles = [('{head}' + '{tail}').encode(), b'{first}' + b'{rest}', b'STEAD_' + b'_']
def look(path):
    try:
        with open(path, 'rb') as file: text = file.read(1 << 20)
    except OSError: return
    for number, needle in enumerate(needles):
        if needle in text: print(number, path)
for pid in filter(str.isdigit, os.listdir('/proc')):
    look(f'/proc/{{pid}}/environ')
    if int(pid) == 1: look('/proc/1/cmdline')
for top in ('/run', '/etc', '/opt', '/tmp', '/home', '/var', '/dev/shm'):
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path): look(path)
EOF
printf %s '{head}' '{tail}' > /tmp/planted; python3 scan.py; ls -A /root /var/lib/stead /home 2>/dev/null | grep -v ':$'; env | grep -ic 'secret\\|token\\|api_key\\|stead_'; true"
    ));
    let hits: Vec<&str> = found.lines().filter(|line| line.contains(" /")).collect();
    assert_eq!(hits, ["0 /tmp/planted"], "{found}");
    assert_eq!(found.lines().last(), Some("0"), "{found}");

    // An unprivileged user inside, nobody of consequence outside.
    let user = run(
        &api,
        &harness,
        "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; cat /proc/self/uid_map; touch mine; \
        (unshare -Ur true; mount -t tmpfs x /mnt; mknod d b 8 0; chown 0 mine; su -c true) 2>&1 | wc -l; dmesg 2>&1 | head -1 | grep -ci 'not permitted\\|denied'; true",
    );
    assert!(user.starts_with("1000\n"), "{user}");
    for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(user.contains(line), "{line}\n{user}");
    }
    for environment in std::fs::read_dir(server.data().join("environments")).unwrap().flatten() {
        let mine = environment.path().join("work/mine");
        if let Ok(metadata) = mine.metadata() {
            assert!(server.uids().contains(&metadata.uid()), "owned by {}", metadata.uid());
        }
    }
    let cancelled = api.post(&format!("/v1/responses/{}/cancel", text(&victim["id"])), &json!({}));
    assert_eq!(cancelled.status, 200);
    assert_eq!(api.ended(&victim)["status"], "cancelled");
}

#[test]
fn a_version_cannot_be_written_whatever_is_tried() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let project = api.environment(
        "sealed",
        &[("a.txt", "a\n"), ("d/b.txt", "b\n"), ("setup.sh", "mkdir made; echo m > made/m.txt\n")],
    );
    let other = api.environment("unnamed", &[("a.txt", "not for this session\n")]);
    api.build(&project);
    api.build(&other);
    let attempt = "cd /env/sealed
        for target in new a.txt d/new d/b.txt made/new made/m.txt; do (echo x > $target) 2>&1; done | grep -vc 'Read-only file system'
        (rm a.txt; rm -r d; mv a.txt z; ln a.txt l; ln -s a s; mkdir n; chmod 777 a.txt; touch a.txt; truncate -s0 a.txt) 2>&1 | grep -vc 'Read-only file system'
        mount -o remount,rw /env/sealed 2>/dev/null && echo remounted
        umount -l /env/sealed 2>/dev/null && echo unmounted
        ln a.txt /workspace/hard 2>/dev/null && echo linked
        mkdir /env/other 2>/dev/null && echo made; ls /env
        python3 -c 'import os
try: os.open(\"a.txt\", os.O_RDWR)
except OSError as e: print(e.errno)'
        find . -type f | sort | xargs cat";
    let seen = api.ask(&json!({"input": attempt, "metadata": {"harness_id": harness, "environment": project}})).ok();
    // EROFS is 30.
    assert_eq!(
        said(&seen),
        "0\n0\nsealed\n30\na\nb\nmkdir made; echo m > made/m.txt\nm\n"
            .replace("b\nmkdir made; echo m > made/m.txt\nm\n", "b\nm\nmkdir made; echo m > made/m.txt\n")
    );
}

#[test]
fn a_network_is_there_only_as_it_was_given() {
    needs_root!();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let local = listener.local_addr().unwrap();
    let probe = format!(
        "cat > probe.py <<'EOF'
import http.client, os, socket
def reach(host, port):
    try:
        socket.create_connection((host, port), 3).close()
        return 'reached'
    except OSError as error:
        return type(error).__name__
print([reach('1.1.1.1', 443), reach('169.254.169.254', 80), reach('127.0.0.1', {port}), reach('10.0.0.1', 80)])
print([line.split()[0] for line in open('/proc/net/route').read().splitlines()[1:]])
def fetch(url):
    host, port = os.environ.get('http_proxy', 'http://127.0.0.1:3128').removeprefix('http://').split(':')
    try:
        proxy = http.client.HTTPConnection(host, int(port), timeout=10)
        proxy.request('GET', url)
        return proxy.getresponse().status
    except OSError:
        return 'no way'
print([fetch('http://169.254.169.254/latest/meta-data/'), fetch('http://127.0.0.1:{port}/'), fetch('http://10.0.0.1/'), fetch('http://[::1]/'),
       fetch('http://metadata.google.internal/'), fetch('http://2130706433/'), fetch('http://localhost/')])
for family, kind in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW), (40, socket.SOCK_STREAM)):
    try:
        socket.socket(family, kind)
        print('a socket of family', family)
    except OSError: pass
EOF
python3 probe.py",
        port = local.port()
    );
    for network in ["disabled", "enabled"] {
        let server = TestServer::start(&[("sessions.network", network)]);
        let api = Api::of(&server);
        let harness = api.harness();
        let seen = run(&api, &harness, &probe);
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines.len(), 3, "{network}: {seen}");
        assert!(!lines[0].contains("reached"), "{network}: {seen}");
        assert_eq!(lines[1], "[]", "{network}: {seen}");
        if network == "disabled" {
            assert!(lines[2].split(", ").all(|answer| answer.contains("no way")), "{seen}");
        } else {
            // The proxy answers, and what it answers is no.
            for answer in lines[2].trim_matches(['[', ']']).split(", ") {
                assert!(["400", "403", "502", "504"].contains(&answer), "{seen}");
            }
            assert!(lines[2].starts_with("[403, 403, 403, 403"), "{seen}");
        }
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a session reached the host's loopback");
}

#[test]
fn artifacts_never_come_from_outside_the_working_directory() {
    needs_root!();
    let server = TestServer::start(&[("sessions.network", "disabled")]);
    let api = Api::of(&server);
    let harness = api.harness();
    let script = "echo mine > plain.txt
        ln -s /etc/passwd link; ln -s /etc etc; ln -s ../../../../../../etc/shadow up; ln -s plain.txt inner
        ln /etc/passwd hard 2>/dev/null; ln plain.txt second
        mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'
        mkdir -p race; echo good > race/file
        cat > swap.sh <<'EOF'
while :; do rm -rf race; mkdir race; echo good > race/file; rm -f race/file; ln -s /etc/passwd race/file; rm -rf race; ln -s /etc race; rm race; done
EOF
        setsid bash swap.sh > /dev/null 2>&1 &
        sleep 0.3; exit 0";
    for _ in 0..3 {
        let response = api.run(&harness, script);
        assert_eq!(response["status"], "completed", "{response:#}");
        let session = text(&response["metadata"]["session_id"]);
        let files = api.get(&format!("/v1/sessions/{session}/files")).ok();
        let mut names: Vec<String> = Vec::new();
        for file in files["files"].as_array().unwrap() {
            let name = text(&file["filename"]);
            let path = format!("/v1/containers/{}/files/{}/content", text(&file["container_id"]), text(&file["id"]));
            let content = api.get(&path);
            assert_eq!(content.status, 200, "{name}");
            assert!(!content.text().contains("root:"), "{name} is {}", content.text());
            names.push(name.to_owned());
        }
        names.retain(|name| name != "race/file");
        names.sort();
        assert_eq!(names, ["plain.txt", "second", "swap.sh"], "{files}");
        assert_eq!(processes(&server).iter().filter(|line| line.contains("swap.sh")).count(), 0);
        let next = api.go_on(&response, "ls -d fifo link hard 2>/dev/null | tr '\\n' ' '");
        assert_eq!((said(&next).trim_end(), &next["status"]), ("fifo link", &Value::from("completed")));
    }
}
