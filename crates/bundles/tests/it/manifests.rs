//! Manifests as they arrive inside real archives.

use stead_bundles::manifest::{
    LineKind, PackageJson, PackageLock, Pyproject, ReadPath, Requirements, TextError, normalise_for_bash,
};

use crate::collected::read_case;

fn file(case: &str, path: &str) -> Vec<u8> {
    read_case(case)
        .expect("the case is a good archive")
        .1
        .files
        .remove(path)
        .unwrap_or_else(|| panic!("{case} has no {path}"))
        .1
}

#[test]
fn includes_constraints_and_local_links_are_followed_without_the_whole_source() {
    let bytes = file("C033-includes.tar.gz", "requirements.txt");
    let requirements = Requirements::parse("requirements.txt", &bytes).unwrap();
    assert_eq!(
        requirements.reads,
        [
            ReadPath::Requirements("requirements/base.txt".into()),
            ReadPath::Constraints("constraints.txt".into()),
            ReadPath::Directory("vendor".into()),
        ]
    );
    assert!(!requirements.needs_whole_source);
    for case in ["C033-hash-ok.tar.gz", "C033-hash-bad.tar.gz"] {
        let requirements = Requirements::parse("requirements.txt", &file(case, "requirements.txt")).unwrap();
        assert!(requirements.lines.iter().any(|line| line.hashed), "{case}");
        assert!(requirements.is_pinned(), "{case}");
    }
}

#[test]
fn encodings_are_read_or_named() {
    let wide = Requirements::parse("requirements.txt", &file("C034-utf16.tar.gz", "requirements.txt"));
    assert_eq!(wide, Err(TextError::Utf16));
    assert!(TextError::Utf16.to_string().contains("encoding"));
    let marked = Requirements::parse("requirements.txt", &file("C034-utf8bom.tar.gz", "requirements.txt")).unwrap();
    let pinned = LineKind::Pinned { name: "demo-pkg".into(), version: "1.0".into() };
    assert!(marked.lines.iter().any(|line| line.kind == pinned));
}

#[test]
fn a_project_that_installs_itself_needs_its_source() {
    let requirements =
        Requirements::parse("requirements.txt", &file("C036-editable.tar.gz", "requirements.txt")).unwrap();
    assert!(requirements.needs_whole_source);
    let project = Pyproject::parse(&file("C036-editable.tar.gz", "pyproject.toml")).unwrap();
    assert_eq!(project.backend_path, ["."]);
    assert_eq!(project.static_dependencies(), Some(vec![]));
}

#[test]
fn local_npm_packages_are_seen_in_manifest_and_lock() {
    for case in ["C038-nolock.tar.gz", "C038-lock.tar.gz", "C038-stale.tar.gz"] {
        assert!(PackageJson::parse(&file(case, "package.json")).unwrap().needs_whole_source, "{case}");
    }
    let lock = PackageLock::parse(&file("C038-lock.tar.gz", "package-lock.json")).unwrap();
    assert!(lock.has_local_packages && lock.packages.is_empty());
}

#[test]
fn setup_scripts_lose_what_bash_cannot_read() {
    for case in ["C042-crlf.tar.gz", "C042-bom.tar.gz", "C042-noexec.tar.gz", "C042-noshebang.tar.gz"] {
        let bytes = file(case, "setup.sh");
        let script = normalise_for_bash(&bytes);
        assert!(!script.contains(&b'\r') && script.is_ascii(), "{case}: {}", script.escape_ascii());
    }
}
