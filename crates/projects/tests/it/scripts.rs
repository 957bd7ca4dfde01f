//! The programs that look through what a build left, on what no installer leaves: pipes, devices and sizes without end.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Runs a script; one that hangs is ended, and fails.
fn run(program: &[&str], script: &str, arguments: &[&str], directory: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts").join(script);
    let mut command = Command::new("/usr/bin/timeout");
    command.args(["-k", "1", "30"]).args(program).arg(script).args(arguments).current_dir(directory);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

#[test]
fn compiling_passes_over_what_is_no_source() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    fs::create_dir_all(root.join("__pycache__")).unwrap();
    fs::write(root.join("good.py"), "x = 1\n").unwrap();
    fs::write(root.join("again.py"), "x = 2\n").unwrap();
    pipe(&root.join("stuck.py"));
    symlink("/dev/zero", root.join("endless.py")).unwrap();
    fs::File::create(root.join("sparse.py")).unwrap().set_len(8 << 30).unwrap();
    let mut interpreter = Command::new("/usr/bin/python3");
    let version = interpreter.args(["-c", "import sys; print(sys.implementation.cache_tag)"]).output().unwrap();
    let tag = String::from_utf8(version.stdout).unwrap().trim().to_owned();
    pipe(&root.join(format!("__pycache__/again.{tag}.pyc")));
    run(&["/usr/bin/python3", "-I"], "compile.py", &[root.to_str().unwrap()], root);
    assert!(root.join(format!("__pycache__/good.{tag}.pyc")).is_file());
    assert!(!root.join(format!("__pycache__/sparse.{tag}.pyc")).exists());
}

#[test]
fn listing_python_packages_passes_over_what_is_no_metadata() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    let package = |name: &str, text: Option<String>| {
        let place = root.join(format!("{name}-1.dist-info"));
        fs::create_dir(&place).unwrap();
        match text {
            Some(text) => fs::write(place.join("METADATA"), text).unwrap(),
            None => pipe(&place.join("METADATA")),
        }
    };
    package("good", Some("Metadata-Version: 2.1\nName: good\nVersion: 1.5\n".to_owned()));
    package("stuck", None);
    package("huge", Some(format!("Metadata-Version: 2.1\nName: huge\nVersion: {}\n", "9".repeat(15 << 20))));
    package("long", Some(format!("Metadata-Version: 2.1\nName: long\nVersion: {}\n", "9".repeat(1000))));
    pipe(&root.join("pipe.egg-info"));
    // As the interpreter of a virtual environment finds what lies in it.
    let front = "import sys; sys.path[:] = [sys.argv.pop(2)] + sys.path; exec(open(sys.argv[1]).read())";
    let output = run(&["/usr/bin/python3", "-I", "-c", front], "list_packages.py", &[root.to_str().unwrap()], root);
    let packages = stead_projects::packages::parse_pip(&output.stdout);
    let of_root: Vec<_> =
        packages.iter().filter(|package| ["good", "stuck", "huge", "long"].contains(&package.name.as_str())).collect();
    assert!(of_root.len() == 1 && of_root[0].version == "1.5", "{of_root:?}");
}

#[test]
fn listing_node_packages_passes_over_what_is_no_manifest() {
    let scratch = tempfile::tempdir().unwrap();
    let modules = scratch.path().join("node_modules");
    for name in ["good", "stuck", "link", "huge"] {
        fs::create_dir_all(modules.join(name)).unwrap();
    }
    fs::write(modules.join("good/package.json"), r#"{"name":"good","version":"1.5.0"}"#).unwrap();
    pipe(&modules.join("stuck/package.json"));
    symlink("/dev/zero", modules.join("link/package.json")).unwrap();
    fs::File::create(modules.join("huge/package.json")).unwrap().set_len(8 << 30).unwrap();
    // The script takes its arguments as `node -e` hands them over.
    let front = "const [file, ...rest] = process.argv.slice(1); process.argv = [process.argv[0], ...rest]; \
                 module.paths = []; eval(require('fs').readFileSync(file, 'utf8'))";
    let output = run(&["/usr/bin/node", "-e", front], "install_beside.js", &["list"], scratch.path());
    let packages = stead_projects::packages::parse_npm(&output.stdout);
    assert!(packages.len() == 1 && packages[0].version == "1.5.0", "{packages:?}");
}
