//! Trees on disk: sharing, sealing, mounting, removing.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use stead_domain::build::PlacedLayer;
use stead_domain::ports::MountSource;
use stead_domain::source::{EntryKind, SourceEntry};
use stead_domain::{BlobId, LayerId, Slug, SourcePath};
use stead_projects::environment::{Installed, SystemPackages};
use stead_projects::layout::{PreviousVersion, SourceTree, Whiteouts, remove_tree, seal_tree};
use stead_projects::plan::{self, BuildSettings};
use stead_projects::toolchain::{NodeTools, PYTHON, Python};
use stead_projects::{InstallPlan, Toolchain, snapshot};

use crate::needs_root;
use crate::project::{Project, project, workspace};

fn lay_out(
    target: &Project,
    number: u32,
    previous: Option<PreviousVersion<'_>>,
) -> Vec<stead_domain::source::SourceEntry> {
    let all: Vec<_> = target.source.values().cloned().collect();
    let entries = snapshot::for_build(&all);
    let tree =
        SourceTree { workspace: workspace(), project: project(), number, entries: &entries, blobs: &target.blobs };
    let plan = InstallPlan { steps: Vec::new(), log: Vec::new() };
    target.layout.lay_out_version(&tree, &plan, previous).unwrap();
    entries
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn unchanged_files_are_links_to_the_previous_version() {
    let mut target = Project::new();
    for (path, bytes, executable) in [("same.txt", "a", false), ("run.sh", "b", true), ("d/edited.txt", "c", false)] {
        target.put(path, bytes, executable);
    }
    target.put("flips.sh", "e", false);
    target.put_directory("empty");
    target.put("node_modules/x/i.js", "no", false);
    let first = lay_out(&target, 1, None);
    assert_eq!(target.blobs.opened(), 4);
    target.put("d/edited.txt", "C", false);
    target.put("flips.sh", "e", true);
    lay_out(&target, 2, Some(PreviousVersion { number: 1, entries: &first }));
    assert_eq!(target.blobs.opened(), 2);
    let source = |number| target.layout.version_source(workspace(), project(), number);
    let (one, two) = (source(1), source(2));
    let inode = |root: &Path, path: &str| std::fs::metadata(root.join(path)).unwrap().ino();
    for (path, shared) in [("same.txt", true), ("run.sh", true), ("d/edited.txt", false), ("flips.sh", false)] {
        assert_eq!(inode(&one, path) == inode(&two, path), shared, "{path}");
    }
    assert_eq!(std::fs::read_to_string(one.join("d/edited.txt")).unwrap(), "c");
    assert_eq!(std::fs::read_to_string(two.join("d/edited.txt")).unwrap(), "C");
    assert_eq!(
        (mode(&two.join("same.txt")), mode(&two.join("run.sh")), mode(&two.join("empty"))),
        (0o444, 0o555, 0o755)
    );
    assert_eq!((mode(&one.join("flips.sh")), mode(&two.join("flips.sh"))), (0o444, 0o555));
    assert!(!two.join("node_modules").exists());
    assert_eq!(std::fs::metadata(two.join("same.txt")).unwrap().mtime(), 1_700_000_000);

    remove_tree(&target.layout.version(workspace(), project(), 1)).unwrap();
    assert_eq!(std::fs::read_to_string(two.join("same.txt")).unwrap(), "a");
}

/// Sources from before there were limits are laid out, too.
#[test]
fn deep_and_long_paths_cost_what_they_are_long() {
    let mut target = Project::new();
    target.put("a", "deep", false);
    let file = target.source.remove("a").unwrap();
    let longest = format!("{}{}", format!("{}/", "l".repeat(199)).repeat(20), "y".repeat(90));
    let deep = format!("{}f", "d/".repeat(1900));
    let mut entries = Vec::new();
    for text in [longest.as_str(), &deep] {
        let path = SourcePath::recorded(text).unwrap();
        entries.extend(path.ancestors().map(|above| SourceEntry {
            path: above,
            kind: EntryKind::Directory,
            modified_at: file.modified_at,
        }));
        entries.push(SourceEntry { path, ..file.clone() });
    }
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let before = peak();
    for number in [1, 2] {
        let tree =
            SourceTree { workspace: workspace(), project: project(), number, entries: &entries, blobs: &target.blobs };
        let plan = InstallPlan { steps: Vec::new(), log: Vec::new() };
        let previous = (number == 2).then_some(PreviousVersion { number: 1, entries: &entries });
        target.layout.lay_out_version(&tree, &plan, previous).unwrap();
    }
    assert!(peak() - before < 200_000, "{} KiB more", peak() - before);
    assert_eq!(target.blobs.opened(), 2, "the second version shares both files");
    let top = target.layout.version_source(workspace(), project(), 2);
    let root = rustix::fs::openat(CWD, &top, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    for path in [longest, deep] {
        assert_eq!(rustix::fs::statat(&root, path, rustix::fs::AtFlags::empty()).unwrap().st_size, 4);
    }
    remove_tree(&target.layout.version(workspace(), project(), 2)).unwrap();
}

#[test]
fn a_file_whose_contents_are_lost_is_named() {
    let mut target = Project::new();
    target.put("src/there.txt", "a", false);
    let mut entries: Vec<_> = target.source.values().cloned().collect();
    let lost = SourceEntry {
        path: SourcePath::parse("src/lost.txt").unwrap(),
        kind: EntryKind::File { executable: false, size: 3, blob: BlobId::from_bytes([7; 32]) },
        modified_at: entries[0].modified_at,
    };
    entries.push(lost);
    let tree =
        SourceTree { workspace: workspace(), project: project(), number: 1, entries: &entries, blobs: &target.blobs };
    let plan = InstallPlan { steps: Vec::new(), log: Vec::new() };
    let error = target.layout.lay_out_version(&tree, &plan, None).unwrap_err();
    assert!(error.is_of_an_entry() && error.to_string().contains("`src/lost.txt` are damaged or lost"), "{error}");
}

#[test]
fn sealing_takes_everything_over_and_follows_nothing() {
    needs_root!();
    let directory = tempfile::tempdir().unwrap();
    let (tree, outside) = (directory.path().join("tree"), directory.path().join("outside"));
    std::fs::create_dir_all(tree.join("bin")).unwrap();
    std::fs::write(&outside, "precious").unwrap();
    std::fs::create_dir(directory.path().join("elsewhere")).unwrap();
    std::fs::write(directory.path().join("elsewhere/f"), "x").unwrap();
    let set_mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    set_mode(&outside, 0o666);
    set_mode(&directory.path().join("elsewhere/f"), 0o666);
    std::fs::write(tree.join("bin/tool"), "12345").unwrap();
    std::fs::write(tree.join("hidden"), "1").unwrap();
    for (name, bits) in [("bin/tool", 0o6777), ("hidden", 0o000), ("bin", 0o7777)] {
        std::os::unix::fs::chown(tree.join(name), Some(54321), Some(54321)).unwrap();
        set_mode(&tree.join(name), bits);
    }
    symlink(&outside, tree.join("link")).unwrap();
    symlink(directory.path().join("elsewhere"), tree.join("linked-directory")).unwrap();
    let fifo = Mode::from_raw_mode(0o666);
    mknodat(CWD, tree.join("pipe"), FileType::Fifo, fifo, 0).unwrap();
    mknodat(CWD, tree.join("bin/null"), FileType::CharacterDevice, fifo, makedev(1, 3)).unwrap();
    mknodat(CWD, tree.join("whiteout"), FileType::CharacterDevice, fifo, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();

    let sealed = seal_tree(&tree, Whiteouts::Keep).unwrap();
    let mut removed = sealed.removed;
    removed.sort_unstable();
    assert_eq!(removed, ["null", "pipe", "socket"]);
    // Two files, a directory, two links and what says "removed": none is free.
    assert_eq!((sealed.size.files, sealed.size.bytes), (2, 6 * 4096));
    for (name, bits) in [("bin/tool", 0o555), ("hidden", 0o444), ("bin", 0o755)] {
        let metadata = std::fs::metadata(tree.join(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid(), mode(&tree.join(name))), (0, 0, bits), "{name}");
    }
    assert!(tree.join("link").is_symlink() && tree.join("linked-directory").is_symlink());
    assert_eq!((mode(&outside), mode(&directory.path().join("elsewhere/f"))), (0o666, 0o666));
    assert!(std::fs::symlink_metadata(tree.join("whiteout")).is_ok());
    assert_eq!(seal_tree(&tree, Whiteouts::Remove).unwrap().removed, ["whiteout"]);

    let link = directory.path().join("root-link");
    symlink(&tree, &link).unwrap();
    assert!(seal_tree(&link, Whiteouts::Remove).is_err());
    assert!(remove_tree(&link).is_err());
    remove_tree(&tree).unwrap();
    assert!(!tree.exists() && outside.exists() && directory.path().join("elsewhere/f").exists());
    remove_tree(&tree).unwrap();
}

#[test]
fn trees_of_any_depth_are_removed_and_too_deep_ones_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("deep");
    std::fs::create_dir(&root).unwrap();
    let open = |path: &Path| std::fs::File::open(path).unwrap();
    let mut at: rustix::fd::OwnedFd = open(&root).into();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
    }
    std::fs::create_dir(root.join("shut")).unwrap();
    std::fs::set_permissions(root.join("shut"), PermissionsExt::from_mode(0o000)).unwrap();
    let error = seal_tree(&root, Whiteouts::Remove).unwrap_err();
    assert!(error.is_of_the_step(), "{error}");
    remove_tree(&root).unwrap();
    assert!(!root.exists());
}

#[test]
fn an_installation_directory_that_became_a_link_is_refused() {
    let mut target = Project::new();
    target.put("requirements.txt", "demo\n", false);
    let entries: Vec<_> = target.source.values().cloned().collect();
    let tree =
        SourceTree { workspace: workspace(), project: project(), number: 1, entries: &entries, blobs: &target.blobs };
    let tools = Toolchain {
        architecture: "x86_64".into(),
        libc: String::new(),
        pythons: vec![Python { program: PYTHON.into(), version: "3.11.2".into(), pip: Some("23.0.1".into()) }],
        node: None,
        uv: None,
        apt: None,
        node_tools: NodeTools::default(),
    };
    let settings = BuildSettings::new(Slug::from_name("studio").unwrap());
    let plan = plan::plan(&entries, &|_| Ok(b"demo\n".to_vec()), &tools, &settings).unwrap();
    let place = target.layout.prepare_step(&tree, "/env/studio", 0, &plan.steps[0], &[]).unwrap();
    assert_eq!((place.writable.len(), &place.writable[0].1), (2, &place.result));
    assert_eq!(mode(&place.result.join("requirements.txt")), 0o644);
    symlink("/etc", place.result.join(".venv")).unwrap();
    let layer: LayerId = "layer_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap();
    let error = target.layout.keep_layer(&tree, &place, &plan.steps[0], layer).unwrap_err();
    assert!(error.is_of_the_step() && error.to_string().contains("`.venv`"), "{error}");
    std::fs::remove_file(place.result.join(".venv")).unwrap();
    target.layout.keep_layer(&tree, &place, &plan.steps[0], layer).unwrap();
    assert!(target.layout.layer_tree(workspace(), layer).join(".venv").is_dir());
}

/// What a script of the project made of `apt` decides nothing but what its sessions are told, and says nothing of this machine.
#[test]
fn links_in_a_layer_lead_nowhere() {
    let target = Project::new();
    let layer: LayerId = "layer_018f3c2a7b4c7d3e9f6a5b4c3d2e1f01".parse().unwrap();
    let tree = target.layout.layer_tree(workspace(), layer);
    let group = |at: &str| PlacedLayer { target: at.to_owned(), layers: vec![layer] };
    let layers = [group("apt"), group("")];
    let installed = || target.layout.installed(workspace(), &layers).unwrap();
    let outside = target.layout.layer(workspace(), layer).join("outside");
    let parts = ["apt", "usr", "lib", &format!("{}-linux-gnu", std::env::consts::ARCH), "graphviz"];
    std::fs::create_dir_all(outside.join(parts.join("/"))).unwrap();
    std::fs::create_dir_all(tree.join(parts.join("/"))).unwrap();
    assert!(installed().apt.is_some_and(|packages| packages.graphviz));
    for level in 1..=parts.len() {
        let place = parts[..level].join("/");
        for link in [outside.join(&place), "/etc/shadow".into(), "/nonexistent".into(), parts[level - 1].into()] {
            remove_tree(&tree).unwrap();
            std::fs::create_dir_all(tree.join(&place).parent().unwrap()).unwrap();
            symlink(&link, tree.join(&place)).unwrap();
            let said = Installed { venv: false, apt: Some(SystemPackages::default()) };
            assert_eq!(installed(), said, "{place} → {}", link.display());
            assert!(target.layout.mounts(workspace(), project(), 1, "/env/studio", &layers).is_ok());
        }
    }
}

#[test]
fn mounts_nest_and_merge_only_where_a_whole_layer_touched() {
    let target = Project::new();
    let slug = Slug::from_name("studio").unwrap();
    let layer = |n: u8| -> LayerId { format!("layer_018f3c2a7b4c7d3e9f6a5b4c3d2e1f{n:02x}").parse().unwrap() };
    let group = |at: &str, layers: &[u8]| PlacedLayer {
        target: at.to_owned(),
        layers: layers.iter().map(|n| layer(*n)).collect(),
    };
    let make = |n: u8, path: &str| {
        std::fs::create_dir_all(target.layout.layer_tree(workspace(), layer(n)).join(path)).unwrap();
    };
    make(1, ".venv");
    make(2, ".venv");
    make(3, "node_modules");
    make(4, "out");
    make(5, ".venv/bin");
    let shown = |layers: &[PlacedLayer]| -> Vec<String> {
        let mounts = target.layout.mounts(workspace(), project(), 7, &slug.mount(), layers).unwrap();
        let name = |path: &Path| {
            let text = path.to_str().unwrap();
            if text.ends_with("versions/7/source") {
                return "source".to_owned();
            }
            let (before, beneath) = text.split_once("/tree").unwrap();
            format!("{}{beneath}", &before[before.len() - 1..])
        };
        let list = |source: &MountSource| match source {
            MountSource::Directory(path) => name(path),
            MountSource::Overlay(paths) => paths.iter().map(|path| name(path)).collect::<Vec<_>>().join(":"),
        };
        mounts.iter().map(|mount| format!("{} {}", mount.target, list(&mount.source))).collect()
    };
    assert_eq!(shown(&[]), ["/env/studio source"]);
    let (python, node) = (group(".venv", &[2, 1]), group("node_modules", &[3]));
    assert_eq!(
        shown(&[python.clone(), node.clone()]),
        ["/env/studio source", "/env/studio/.venv 2/.venv:1/.venv", "/env/studio/node_modules 3/node_modules"]
    );
    assert_eq!(
        shown(&[python.clone(), node.clone(), group("", &[4])]),
        ["/env/studio 4:source", "/env/studio/.venv 2/.venv:1/.venv", "/env/studio/node_modules 3/node_modules"]
    );
    make(6, "apt/usr/bin");
    make(7, "apt/usr/bin");
    let system = group("apt", &[6]);
    let every = [system.clone(), python.clone(), node.clone()];
    let places =
        ["/env/studio/.venv 2/.venv:1/.venv", "/env/studio/apt 6/apt", "/env/studio/node_modules 3/node_modules"];
    assert_eq!(shown(&every), [["/env/studio source"].as_slice(), &places].concat());
    // A script that put something into `apt` makes it part of the overlay, and that alone.
    assert_eq!(
        shown(&[every.as_slice(), &[group("", &[7])]].concat()),
        ["/env/studio 7:6:source", places[0], places[2]]
    );
    let installed = |layers: &[PlacedLayer]| target.layout.installed(workspace(), layers).unwrap();
    assert_eq!(installed(&every), Installed { venv: true, apt: Some(SystemPackages::default()) });
    assert_eq!(installed(&[node.clone(), group("", &[7])]), Installed::default());
    let triplet =
        std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    if let Some(triplet) =
        triplet.into_iter().find(|name| name.starts_with(std::env::consts::ARCH) && name.contains("-linux-gnu"))
    {
        make(6, &format!("apt/usr/lib/{triplet}/graphviz"));
        assert!(installed(&[system]).apt.is_some_and(|packages| packages.graphviz && !packages.magick));
    }
    assert_eq!(
        shown(&[python, node, group("", &[5])]),
        ["/env/studio 5:2:1:source", "/env/studio/node_modules 3/node_modules"]
    );
    let mixed = [group("", &[5]), group(".venv", &[2]), group("", &[4])];
    assert_eq!(shown(&mixed), ["/env/studio 4:2:5:source"]);
}
