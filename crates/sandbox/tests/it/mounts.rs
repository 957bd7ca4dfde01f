//! Read-only means read-only, writable means writable, and a build's overlay keeps what was written.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use stead_sandbox::Exit;
use stead_sandbox::plan::Mount;

use crate::fixture::Bench;

#[test]
fn a_read_only_bind_refuses_every_way_of_writing() {
    let mut bench = Bench::new();
    // `own` belongs to the run user, so nothing but the mount is in the way.
    let attempts = [
        ": > /env/project/own",
        ": > /proc/self/root/env/project/own",
        ": > /proc/1/root/env/project/own",
        "chmod 777 /env/project/own",
        "touch /env/project/own",
        "rm -f /env/project/own",
        "mv /env/project/own /env/project/other",
        "mkdir /env/project/new",
        "ln /env/project/own /workspace/hard",
        "truncate -s 0 /env/project/own",
        "python3 -c \"import os; os.truncate('/env/project/own', 0)\"",
        "python3 -c \"import os; os.setxattr('/env/project/own', 'user.x', b'1')\"",
        "python3 -c \"import mmap,os; f=os.open('/env/project/own', os.O_RDONLY); mmap.mmap(f, 1, mmap.MAP_SHARED, mmap.PROT_WRITE)\"",
        "cd /env/project && : > ../project/./own",
        "ln -s /env/project /workspace/l && : > /workspace/l/own",
        ": > /usr/new",
        ": > /new",
        ": > /etc/passwd",
        ": > /dev/new",
        "chmod 777 /dev/null",
    ];
    for attempt in attempts {
        let ran = bench.run(attempt);
        println!("{attempt}: {}", ran.output.lines().last().unwrap_or(""));
        assert_ne!(ran.exit, Exit::Code(0), "{attempt} was not refused");
    }
    assert_eq!(fs::read_to_string(bench.path("layer/own")).unwrap(), "sealed\n");
    let ran = bench.run("cat /env/project/own && echo yes > /workspace/w && echo t > /tmp/t && echo s > /dev/shm/s && echo n > /dev/null && echo h > $0", );
    println!("{}", ran.output);
    assert_eq!(fs::read_to_string(bench.path("workspace/w")).unwrap(), "yes\n");
}

#[test]
fn layers_stack_and_a_build_writes_to_its_own() {
    let mut bench = Bench::new();
    for name in ["source", "dependencies", "upper", "work"] {
        fs::create_dir(bench.path(name)).unwrap();
    }
    fs::create_dir(bench.path("source/deep")).unwrap();
    fs::write(bench.path("source/deep/given"), "before\n").unwrap();
    fs::write(bench.path("source/both"), "source\n").unwrap();
    fs::write(bench.path("dependencies/both"), "dependencies\n").unwrap();
    bench.give("upper");
    let lowers = vec![bench.path("source"), bench.path("dependencies")];
    bench.plan.mounts.extend([
        Mount::OverlayReadOnly { lowers: lowers.clone(), target: "/env/stacked".into() },
        Mount::OverlayReadOnly { lowers: vec![bench.path("dependencies")], target: "/env/single".into() },
        Mount::Overlay {
            lowers,
            upper: bench.path("upper"),
            work: bench.path("work"),
            target: "/env/build".into(),
            lowers_as_run_user: true,
        },
    ]);
    let ran = bench.run(
        "cat /env/stacked/both /env/single/both; (: > /env/stacked/x) 2>&1; cd /env/build && ls -ln deep && \
         echo after >> deep/given && mkdir made && echo m > made/file && rm both && ls",
    );
    println!("{}", ran.output);
    assert_eq!(ran.exit, Exit::Code(0));
    assert!(ran.output.starts_with("source\ndependencies\n"));
    assert!(ran.output.contains("Read-only") && ran.output.contains(" 1000 "));
    assert_eq!(fs::read_to_string(bench.path("upper/deep/given")).unwrap(), "before\nafter\n");
    assert_eq!(fs::read_to_string(bench.path("upper/made/file")).unwrap(), "m\n");
    assert_eq!(fs::read_to_string(bench.path("source/deep/given")).unwrap(), "before\n", "the source is untouched");
}

#[test]
fn a_directory_with_mounts_beneath_can_be_shown_and_its_devices_stay_closed() {
    let mut bench = Bench::new();
    // An ordinary user cannot show it without them.
    bench.plan.mounts.push(Mount::OverlayReadOnly { lowers: vec!["/dev".into()], target: "/env/devices".into() });
    bench.plan.mounts.push(Mount::BindWritable { source: "/dev".into(), target: "/env/writable".into() });
    let ran = bench.run(
        "ls /env/devices/null; for d in devices writable; do (cat /env/$d/zero) 2>&1; (: > /env/$d/null) 2>&1; done; true",
    );
    println!("{}", ran.output);
    assert!(ran.output.starts_with("/env/devices/null\n"), "{}", ran.output);
    assert_eq!(ran.output.matches("ermission denied").count(), 4, "{}", ran.output);
}

#[test]
fn a_socket_of_the_service_can_be_shown_inside() {
    let mut bench = Bench::new();
    let socket = bench.path("run/egress.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    bench.plan.mounts.push(Mount::BindReadOnly { source: socket, target: "/run/egress.sock".into() });
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"through").unwrap();
    });
    let ran = bench.python(
        "import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('/run/egress.sock')\nprint(s.recv(100))\n\
         try:\n    os.unlink('/run/egress.sock')\nexcept OSError as e:\n    print(e)",
    );
    println!("{}", ran.output);
    assert!(ran.output.starts_with("b'through'\n") && ran.output.contains("/run/egress.sock"), "{}", ran.output);
    answering.join().unwrap();
}
