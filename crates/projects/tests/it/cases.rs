//! Real projects, built with the host's installers and looked at as a session does. No step reaches a network.

use crate::needs_root;
use crate::project::Project;

fn packages(project: &mut Project) -> Vec<String> {
    let built = project.build().unwrap();
    built.packages.iter().map(|package| format!("{} {} {}", package.manager, package.name, package.version)).collect()
}

#[test]
fn requirements_with_includes_hashes_and_a_byte_order_mark_install() {
    needs_root!();
    for case in ["C033-includes", "C033-hash-ok", "C034-utf8bom"] {
        let mut project = Project::of_case(case);
        assert_eq!(packages(&mut project), ["pip demo-pkg 1.0"], "{case}");
        assert_eq!(project.said("python -c 'import demo_pkg; print(demo_pkg.__version__)'"), "1.0\n", "{case}");
    }
    let error = Project::of_case("C033-hash-bad").build().map(|_| ()).unwrap_err();
    assert!(error.starts_with("pip install -r requirements.txt") && error.contains("demo-pkg"), "{error}");
    let error = Project::of_case("C034-utf16").build().map(|_| ()).unwrap_err();
    assert!(error.contains("UTF-16"), "{error}");
}

#[test]
fn console_scripts_work_read_only_and_byte_code_is_there() {
    needs_root!();
    let mut project = Project::of_case("C052-venv");
    project.build().unwrap();
    assert_eq!(project.said("demo-cli && /env/studio/.venv/bin/demo-cli"), "demo-cli 1.0\ndemo-cli 1.0\n");
    assert_eq!(project.said("head -1 /env/studio/.venv/bin/demo-cli"), "#!/env/studio/.venv/bin/python\n");
    let found = project.said("command -v python pip demo-cli");
    assert!(found.lines().all(|line| line.starts_with("/env/studio/.venv/bin/")), "{found}");
    assert_eq!(
        project.said("readlink -e /env/studio/.venv/bin/python >&2; python -c 'import sys; print(sys.prefix)'"),
        "/env/studio/.venv\n"
    );
    let flags = "import demo_pkg,sys; print(open(demo_pkg.__cached__,'rb').read()[4])";
    assert_eq!(project.said(&format!("python -c \"{flags}\"")), "1\n");
    let refused = project.session("touch /env/studio/x /env/studio/.venv/x; echo $?");
    assert!(String::from_utf8_lossy(&refused.stderr).matches("Read-only").count() == 2);

    project.put("notes.txt", "new", false);
    assert!(project.build().unwrap().ran.is_empty(), "an edit beside the manifest installs nothing");
    assert_eq!(project.said("cat /env/studio/notes.txt; demo-cli"), "newdemo-cli 1.0\n");
}

#[test]
fn an_editable_install_points_at_the_mount() {
    needs_root!();
    let mut project = Project::of_case("C036-editable");
    assert_eq!(packages(&mut project), ["pip demo-app 0.1.0"]);
    let file = project.said("python -c 'import demo_app; print(demo_app.__file__)'");
    assert_eq!(file, "/env/studio/src/demo_app/__init__.py\n");
    let lines = project.said("grep -rhoE '^/[^ ]+' /env/studio/.venv/lib/python*/site-packages/*.pth");
    assert_eq!(lines, "/env/studio/src\n");
    assert_eq!(project.said("echo $VIRTUAL_ENV"), "/env/studio/.venv\n");
}

#[test]
fn a_project_that_installs_itself_is_two_layers() {
    needs_root!();
    let mut project = Project::of_case("C036-editable");
    project.source.remove("requirements.txt");
    let built = project.build().unwrap();
    assert_eq!((built.ran.len(), built.layers.len(), built.layers[0].layers.len()), (2, 1, 2));
    let file = project.said("python -I -c 'import demo_app; print(demo_app.__file__)'");
    assert!(file.starts_with("/env/studio/.venv/lib/"), "{file}");
    project.put("src/demo_app/__init__.py", "NAME = 'changed'\n", false);
    assert_eq!(project.build().unwrap().ran, ["pip install . (pyproject.toml)"]);
    assert_eq!(project.said("python -I -c 'import demo_app; print(demo_app.NAME)'"), "changed\n");
}

#[test]
fn node_packages_with_and_without_a_lock() {
    needs_root!();
    for case in ["C038-nolock", "C038-lock"] {
        let mut project = Project::of_case(case);
        project.build().unwrap();
        assert_eq!(project.said("node -e \"console.log(require('dep'))\""), "dep\n", "{case}");
    }
    let error = Project::of_case("C038-stale").build().map(|_| ()).unwrap_err();
    assert!(error.starts_with("npm ci (package-lock.json)"), "{error}");
}

#[test]
fn a_packed_dependency_needs_only_itself() {
    needs_root!();
    let mut project = Project::new();
    let packed = project_archive();
    project.put(
        "package.json",
        r#"{"name":"app","version":"1.0.0","dependencies":{"dep":"file:dep-1.0.0.tgz"}}"#,
        false,
    );
    project.put("dep-1.0.0.tgz", packed, false);
    project.put("main.js", "console.log(require('dep'))", false);
    assert_eq!(packages(&mut project), ["npm dep 1.0.0"]);
    assert_eq!(project.said("node /env/studio/main.js"), "packed\n");
    assert_eq!(project.built[0].layers[0].target, "node_modules");
    project.put("main.js", "console.log(require('dep') + '!')", false);
    assert!(project.build().unwrap().ran.is_empty());
    assert_eq!(project.said("node /env/studio/main.js"), "packed!\n");
}

/// A package as `npm pack` makes it.
fn project_archive() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("package")).unwrap();
    std::fs::write(directory.path().join("package/package.json"), r#"{"name":"dep","version":"1.0.0"}"#).unwrap();
    std::fs::write(directory.path().join("package/index.js"), "module.exports = 'packed'").unwrap();
    let mut tar = std::process::Command::new("tar");
    tar.arg("czf").arg(directory.path().join("a.tgz")).arg("-C").arg(directory.path()).arg("package");
    assert!(tar.status().unwrap().success());
    std::fs::read(directory.path().join("a.tgz")).unwrap()
}

#[test]
fn setup_scripts_of_every_encoding_run_and_keep_the_source() {
    needs_root!();
    for case in ["C042-crlf", "C042-bom", "C042-noexec", "C042-noshebang"] {
        let mut project = Project::of_case(case);
        let sent = project.blobs.get(blob_of(&project, "setup.sh")).unwrap();
        project.build().unwrap();
        assert_eq!(project.said("cat /env/studio/built.txt; ls /env/studio"), "built\nbuilt.txt\nsetup.sh\n", "{case}");
        assert_eq!(project.session("cat /env/studio/setup.sh").stdout, sent, "{case}");
    }
    let mut project = Project::of_case("C043-prompt");
    project.build().unwrap();
    assert_eq!(project.said("cat /env/studio/answer.txt /env/studio/rest.txt"), "answer=eof\n");
    let error = Project::of_case("C035-2-setup-fails").build().map(|_| ()).unwrap_err();
    assert!(error.starts_with("setup.sh: exit status: 37") && error.contains("before"), "{error}");
}

fn blob_of(project: &Project, path: &str) -> stead_domain::BlobId {
    match project.source[path].kind {
        stead_domain::source::EntryKind::File { blob, .. } => blob,
        stead_domain::source::EntryKind::Directory => panic!("{path} is a directory"),
    }
}

#[test]
fn setup_may_change_everything_and_only_what_it_touched_is_merged() {
    needs_root!();
    let mut project = Project::of_case("C052-venv");
    let script = "set -e\necho more >> data.txt\nrm gone.txt\nmkdir -p data/made\nrm -r .venv/bin/demo-cli\n\
                  cp .venv/bin/python3 .venv/bin/mine 2>/dev/null || ln -s python3 .venv/bin/mine\nmkfifo pipe\n";
    project.put("setup.sh", script, false);
    project.put("data.txt", "some\n", false);
    project.put("gone.txt", "x", false);
    project.put("data/in.txt", "x", false);
    project.build().unwrap();
    let listing =
        project.said("cd /env/studio; cat data.txt; ls; ls data; ls .venv/bin | grep -c demo-cli; ls .venv/bin/mine");
    let expected = "some\nmore\ndata\ndata.txt\nrequirements.txt\nsetup.sh\nvendor\nin.txt\nmade\n0\n.venv/bin/mine\n";
    assert_eq!(listing, expected);
    assert_eq!(project.said("python -c 'import demo_pkg; print(demo_pkg.__version__)'"), "1.0\n");
    project.put("setup.sh", "touch built\n", false);
    assert_eq!(project.build().unwrap().ran, ["setup.sh"]);
    assert_eq!(project.said("ls /env/studio/built; demo-cli"), "/env/studio/built\ndemo-cli 1.0\n");
}

#[test]
fn what_setup_installs_is_listed_and_what_it_breaks_is_not_looked_at() {
    needs_root!();
    let install = "python3 -m venv --without-pip .venv\nsite=$(echo .venv/lib/python*/site-packages)\n\
                   mkdir -p $site/own-2.dist-info node_modules/a\n\
                   printf 'Metadata-Version: 2.1\\nName: own\\nVersion: 2\\n' >$site/own-2.dist-info/METADATA\n\
                   echo '{\"lockfileVersion\":3,\"packages\":{\"node_modules/a\":{\"version\":\"1.0.0\"}}}' \
                   >node_modules/.package-lock.json\n";
    for (then, listed) in [
        ("", &["npm a 1.0.0", "pip own 2"][..]),
        ("rm -r .venv node_modules", &[]),
        ("rm -r .venv; touch .venv", &["npm a 1.0.0"]),
        ("rm -r .venv; ln -s /etc/shadow .venv", &["npm a 1.0.0"]),
        ("rm .venv/bin/python; mkfifo .venv/bin/python", &["npm a 1.0.0"]),
        ("rm .venv/bin/python; mkdir .venv/bin/python", &["npm a 1.0.0"]),
        ("rm -r node_modules; ln -s /etc node_modules", &["pip own 2"]),
    ] {
        let mut project = Project::new();
        project.put("setup.sh", format!("set -e\n{install}{then}\n"), false);
        assert_eq!(packages(&mut project), listed, "{then}");
    }
}

#[test]
fn project_files_named_like_modules_do_not_break_the_build() {
    needs_root!();
    let mut project = Project::of_case("C057-shadow");
    project.put("requirements.txt", "--unknown-option\n", false);
    let error = project.build().map(|_| ()).unwrap_err();
    assert!(error.contains("unknown-option"), "pip itself answers: {error}");
    project.source.remove("requirements.txt");
    project.put("setup.sh", "echo alive > out\n", false);
    project.build().unwrap();
    // The package ships a `cat` of its own, which a session finds first, as the contract has it.
    assert_eq!(project.said("cat x; echo \"$(</env/studio/out)\""), "shadow\nalive\n");
}

#[test]
fn an_edit_of_an_editable_project_leaves_the_packages_of_others_alone() {
    needs_root!();
    let mut project = Project::of_case("C036-editable");
    let others = Project::of_case("C052-venv");
    for (path, entry) in others.source.iter().filter(|(path, _)| path.starts_with("vendor/")) {
        if !entry.is_directory() {
            project.put(path, others.blobs.get(blob_of(&others, path)).unwrap(), false);
        }
    }
    project.put("requirements.txt", "--no-index\n--find-links ./vendor\ndemo-pkg==1.0\n-e .\n", false);
    assert_eq!(packages(&mut project), ["pip demo-app 0.1.0", "pip demo-pkg 1.0"]);
    project.put("src/demo_app/__init__.py", "NAME = 'changed'\n", false);
    assert_eq!(project.build().unwrap().ran, ["pip install -r requirements.txt"]);
    assert_eq!(project.said("python -c 'import demo_app; print(demo_app.NAME)'; demo-cli"), "changed\ndemo-cli 1.0\n");
}
