//! Bounds hold, the service learns of it, and nothing is left behind.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use stead_sandbox::cgroup::Controller;
use stead_sandbox::{Exit, features, identity};

use crate::fixture::{Bench, Groups, LAUNCHER, Mode, mode, skip};

#[test]
fn a_fork_bomb_stops_at_its_bound() {
    let groups = Groups::new("fork");
    let mut bench = Bench::new();
    bench.plan.cgroup = Some(groups.manager.create("one", &bench.plan.limits).unwrap());
    let ran = bench.python(
        "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            time.sleep(100)\n        n += 1\nexcept BlockingIOError:\n    print('refused after', n)",
    );
    println!("{}", ran.output);
    assert!(ran.output.starts_with("refused after"), "{}", ran.output);
    let stats = groups.manager.stats("one").unwrap();
    println!("{stats:?}");
    assert_eq!(groups.manager.pids("one").unwrap(), Vec::<i32>::new(), "pid 1 ended and took all with it");
    groups.manager.remove("one").unwrap();
    assert!(!groups.manager.list().contains(&"one".to_string()));
}

#[test]
fn a_memory_bomb_is_killed_and_counted() {
    let groups = Groups::new("memory");
    if groups.manager.version_of(Controller::Memory).is_none() {
        skip("no memory controller");
        return;
    }
    let mut bench = Bench::new();
    bench.plan.limits.memory_bytes = 64 << 20;
    bench.plan.cgroup = Some(groups.manager.create("one", &bench.plan.limits).unwrap());
    let ran = bench.run("python3 -c \"x = bytearray(1 << 28)\"; echo status $?");
    println!("{}", ran.output);
    assert!(ran.output.contains("status 137"), "{}", ran.output);
    let stats = groups.manager.stats("one").unwrap();
    println!("{stats:?}");
    assert!(stats.out_of_memory_kills.unwrap() >= 1 && stats.memory_peak_bytes.unwrap() <= 64 << 20);
    groups.manager.remove("one").unwrap();
}

#[test]
fn a_hog_gets_its_share_of_processor_time() {
    let groups = Groups::new("cpu");
    if groups.manager.version_of(Controller::Cpu).is_none() {
        skip("no cpu controller");
        return;
    }
    let mut bench = Bench::new();
    bench.plan.limits.cpu_millis = 100;
    bench.plan.cgroup = Some(groups.manager.create("one", &bench.plan.limits).unwrap());
    let ran = bench.run(
        "timeout 1 sh -c 'while :; do :; done'; cat /proc/self/cgroup; awk '{print $14+$15+$16+$17}' /proc/1/stat",
    );
    println!("{}", ran.output);
    let ticks: u64 = ran.output.lines().last().unwrap().parse().unwrap();
    assert!(ticks < 50, "a tenth of a core for a second is about 10 ticks, not {ticks}");
    groups.manager.remove("one").unwrap();
}

#[test]
fn files_descriptors_and_memory_file_systems_are_bounded() {
    let mut bench = Bench::new();
    bench.plan.limits.file_size = Some(1 << 20);
    let cases = [
        ("n = 0\nl = []\nwhile True: l.append(open('/dev/null'))", "Errno 24"),
        ("[open(f'/tmp/{i}', 'w').close() for i in range(10000)]", "Errno 28"),
        ("[open(f'/tmp/{i}', 'wb').write(b'x' * 900000) for i in range(100)]", "Errno 28"),
        ("[open(f'/dev/shm/{i}', 'wb').write(b'x' * 900000) for i in range(100)]", "Errno 28"),
        ("open('/workspace/large', 'wb').write(b'x' * (2 << 20))", "Errno 27"),
        ("import os, mmap\nf = os.memfd_create('x'); os.ftruncate(f, 2 << 20)", "Errno 27"),
    ];
    for (program, refusal) in cases {
        let ran = bench.python(program);
        println!("{program:?}: {}", ran.output.lines().last().unwrap_or(""));
        assert!(ran.output.contains(refusal), "{program}: {}", ran.output);
    }
}

#[test]
fn nothing_is_left_after_a_kill() {
    let groups = Groups::new("kill");
    let mut bench = Bench::new();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = mounts();
    bench.plan.cgroup = Some(groups.manager.create("one", &bench.plan.limits).unwrap());
    let (launched, _reader) =
        bench.start("for i in 1 2 3 4 5; do (setsid sleep 1000 &) ; done; exec sleep 1000").unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let all = || identity::descendants(launched.pid).unwrap();
    let sleeping = |pids: &[i32]| {
        let named = |pid: &&i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
        pids.iter().filter(named).count()
    };
    // Shells come and go before there are six programs that stay.
    while sleeping(&all()) != 6 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pids = all();
    assert_eq!(pids.len(), 6, "{pids:?}");
    assert!(pids.contains(&launched.pid));
    if groups.manager.kills_at_once() || bench.mode == Mode::Root {
        assert_eq!(groups.manager.pids("one").unwrap(), pids);
    }

    let begun = Instant::now();
    identity::kill_tree(
        launched.pid,
        launched.start_time_ticks,
        Some((&groups.manager, "one")),
        Duration::from_secs(5),
    )
    .unwrap();
    println!("killed and removed in {:?}", begun.elapsed());
    assert_eq!(launched.wait(Duration::from_secs(5)).unwrap(), Some(Exit::Signal(9)));
    assert!(groups.manager.list().is_empty());
    assert_eq!(mounts(), before, "no mount of a sandbox is the host's");
    for pid in pids {
        assert!(!identity::start_time(pid).is_ok_and(|start| identity::is_alive(pid, start)));
    }
}

#[test]
fn a_group_is_emptied_without_its_first_process() {
    let groups = Groups::new("group");
    let mut bench = Bench::new();
    let group = groups.manager.create("one", &bench.plan.limits).unwrap();
    if group.unified.is_none() && group.legacy.is_empty() {
        skip("this user has no control groups here");
        return;
    }
    bench.plan.cgroup = Some(group);
    let (launched, _reader) = bench.start("sleep 1000 & sleep 1000").unwrap();
    assert!(groups.manager.pids("one").unwrap().contains(&launched.pid));
    let begun = Instant::now();
    groups.manager.kill("one").unwrap();
    println!("group killed in {:?}, at once: {}", begun.elapsed(), groups.manager.kills_at_once());
    assert_eq!(launched.wait(Duration::from_secs(5)).unwrap(), Some(Exit::Signal(9)));
    groups.manager.remove("one").unwrap();
    groups.manager.remove("one").unwrap();
    assert!(groups.manager.create("../x", &bench.plan.limits).is_err());
}

#[test]
fn every_feature_is_explained_and_obstacles_are_named() {
    let groups = Groups::new("probe");
    let features = features::probe(Path::new(LAUNCHER), &groups.manager, Path::new("/tmp")).unwrap();
    for feature in &features.all {
        println!("{:<18} {:?}: {} {:?}", feature.name, feature.state, feature.explanation, feature.fix);
    }
    assert_eq!(features.obstacle(), None, "sandboxes are made here, so nothing required is missing");
    assert_eq!(features.all.len(), 15);
    let ids = features.get("user ids").unwrap();
    let expected = if mode() == Mode::Root { features::State::Enforced } else { features::State::Partial };
    assert!(ids.state == expected && !ids.required, "{ids:?}");
    for name in ["namespaces", "mount_setattr", "id-mapped mounts", "overlay", "seccomp"] {
        assert_eq!(features.get(name).unwrap().state, features::State::Enforced, "{name}");
    }
    let mut without = features.clone();
    for feature in &mut without.all {
        feature.state = if feature.name == "seccomp" { features::State::Missing } else { features::State::Enforced };
    }
    assert_eq!(without.obstacle().unwrap().name, "seccomp");
}

#[test]
fn a_host_that_covers_its_process_file_system_is_told_so() {
    // An ordinary user may cover it in namespaces of its own, in which it then is an ordinary user again.
    let (namespaces, back) = match mode() {
        Mode::Root => ("-m", ""),
        Mode::User => ("-Urm", "unshare -U --map-user=1000 --map-group=1000"),
    };
    let script = format!(
        "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && \
         exec {back} bash -c 'exec -a stead-launcher \"$0\" probe /tmp' \"$0\""
    );
    let output = Command::new("unshare").args([namespaces, "bash", "-c", &script, LAUNCHER]).output().unwrap();
    let found: Vec<features::Feature> = serde_json::from_slice(&output.stdout).unwrap();
    let obstacle = features::Features { all: found }.obstacle().cloned().unwrap();
    println!("{obstacle:?}");
    assert_eq!(obstacle.name, "namespaces");
    assert!(obstacle.explanation.contains("process file system") && obstacle.fix.unwrap().contains("/proc"));
}

#[test]
fn one_process_cannot_have_more_memory_than_all_should_where_nothing_else_bounds_it() {
    let mut bench = Bench::new();
    bench.plan.limits.memory_bytes = 128 << 20;
    assert_eq!(bench.plan.cgroup, None);
    let ran = bench.python(
        "import resource\nprint(resource.getrlimit(resource.RLIMIT_DATA))\ntry:\n    bytearray(1 << 28)\n\
         except MemoryError:\n    print('refused')\nprint(len(bytearray(1 << 20)))",
    );
    println!("{}", ran.output);
    assert_eq!(ran.output, "(134217728, 134217728)\nrefused\n1048576\n");
    let groups = Groups::new("data");
    if groups.manager.version_of(Controller::Memory).is_none() {
        skip("no memory controller");
        return;
    }
    bench.plan.cgroup = Some(groups.manager.create("one", &bench.plan.limits).unwrap());
    let ran = bench.python("import resource\nprint(resource.getrlimit(resource.RLIMIT_DATA))");
    assert_eq!(ran.output, "(-1, -1)\n", "with the group's bound the limit would only be in the way");
    groups.manager.remove("one").unwrap();
}

#[test]
fn what_is_counted_for_the_whole_machine_is_bounded_for_each() {
    let ran = Bench::new().python(
        "import ctypes\nlibc = ctypes.CDLL(None)\nn = 0\nwhile libc.inotify_init() >= 0: n += 1\nprint(n)\n\
         print(open('/proc/sys/user/max_user_namespaces').read())",
    );
    println!("instances for watching files, user namespaces: {}", ran.output);
    let [instances, namespaces] = ran.output.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{}", ran.output)
    };
    assert!((1..=32).contains(&instances.parse::<u32>().unwrap()));
    assert_eq!(namespaces, "0");
}
