//! One project in a data directory of its own, built the way the engine builds.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use stead_domain::build::{Package, PlacedLayer};
use stead_domain::source::{EntryKind, SourceEntry};
use stead_domain::{BlobId, LayerId, ProjectId, Slug, SourcePath, Timestamp, WorkspaceId};
use stead_projects::environment::Installed;
use stead_projects::layout::{PreviousVersion, SourceTree};
use stead_projects::plan::{BuildSettings, PackageList};
use stead_projects::{Layout, Toolchain, environment, packages, plan, snapshot};

use crate::memory_blobs::MemoryBlobs;
use crate::namespace;

pub(crate) const SLUG: &str = "studio";

pub(crate) struct Project {
    pub(crate) data: tempfile::TempDir,
    pub(crate) layout: Layout,
    pub(crate) blobs: MemoryBlobs,
    pub(crate) source: BTreeMap<String, SourceEntry>,
    layers: HashMap<BlobId, (LayerId, Vec<Package>)>,
    numbers: u128,
    pub(crate) built: Vec<Version>,
}

pub(crate) struct Version {
    pub(crate) entries: Vec<SourceEntry>,
    pub(crate) layers: Vec<PlacedLayer>,
    pub(crate) packages: Vec<Package>,
    pub(crate) installed: Installed,
    /// Names of the steps that ran instead of being found.
    pub(crate) ran: Vec<String>,
}

pub(crate) fn workspace() -> WorkspaceId {
    "ws_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap()
}

pub(crate) fn project() -> ProjectId {
    "henv_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00".parse().unwrap()
}

impl Project {
    pub(crate) fn new() -> Self {
        // Making every build durable on a busy disk is most of the time, and nothing here is about that.
        let memory = Path::new("/dev/shm");
        let data = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        Self {
            layout: Layout::new(data.path().join("data")),
            data,
            blobs: MemoryBlobs::default(),
            source: BTreeMap::new(),
            layers: HashMap::new(),
            numbers: 0,
            built: Vec::new(),
        }
    }

    /// A project with the files of an archive of `tests/field-cases`.
    pub(crate) fn of_case(name: &str) -> Self {
        let mut project = Self::new();
        let unpacked = tempfile::tempdir().unwrap();
        let archive =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/field-cases").join(name).with_extension("tar.gz");
        let status =
            std::process::Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(unpacked.path()).status().unwrap();
        assert!(status.success());
        project.add_directory(unpacked.path(), "");
        project
    }

    fn add_directory(&mut self, from: &Path, prefix: &str) {
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                self.put_directory(&path);
                self.add_directory(&entry.path(), &format!("{path}/"));
            } else {
                let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
                self.put(&path, std::fs::read(entry.path()).unwrap(), executable);
            }
        }
    }

    pub(crate) fn put(&mut self, path: &str, bytes: impl Into<Vec<u8>>, executable: bool) {
        let bytes = bytes.into();
        let kind = EntryKind::File { executable, size: bytes.len() as u64, blob: self.blobs.store(bytes) };
        let modified_at = Timestamp::from_micros(1_700_000_000_000_000);
        self.source.insert(path.to_owned(), SourceEntry { path: SourcePath::parse(path).unwrap(), kind, modified_at });
    }

    pub(crate) fn put_directory(&mut self, path: &str) {
        let path_ = SourcePath::parse(path).unwrap();
        let entry = SourceEntry { path: path_, kind: EntryKind::Directory, modified_at: Timestamp::from_micros(0) };
        self.source.insert(path.to_owned(), entry);
    }

    /// Builds the next version; the error is what the build's failure would say.
    pub(crate) fn build(&mut self) -> Result<&Version, String> {
        let all: Vec<SourceEntry> = self.source.values().cloned().collect();
        let entries = snapshot::for_build(&snapshot::decode(&snapshot::encode(&all)).unwrap());
        let number = u32::try_from(self.built.len()).unwrap() + 1;
        let settings = BuildSettings::new(Slug::from_name(SLUG).unwrap());
        let read = |entry: &SourceEntry| {
            let EntryKind::File { blob, .. } = entry.kind else { panic!("{} is no file", entry.path) };
            self.blobs.get(blob)
        };
        let plan =
            plan::plan(&entries, &read, &Toolchain::detect(&[], &[]), &settings).map_err(|e| e.failure().message)?;
        let tree =
            SourceTree { workspace: workspace(), project: project(), number, entries: &entries, blobs: &self.blobs };
        let previous =
            self.built.last().map(|version| PreviousVersion { number: number - 1, entries: &version.entries });
        self.layout.lay_out_version(&tree, &plan, previous).unwrap();
        let mut ids: Vec<LayerId> = Vec::new();
        let (mut ran, mut listed) = (Vec::new(), Vec::new());
        for (index, step) in plan.steps.iter().enumerate() {
            let lowers: Vec<LayerId> = step.lower.iter().map(|lower| ids[*lower]).collect();
            let key = step.layer_key(&lowers);
            if let Some((layer, packages)) = self.layers.get(&key) {
                ids.push(*layer);
                listed.push(packages.clone());
                continue;
            }
            let place = self.layout.prepare_step(&tree, &settings.slug.mount(), index, step, &lowers).unwrap();
            let root = self.data.path().join("root");
            let mounts = namespace::step_mounts(&place);
            let mut output = None;
            let pip = step.packages.iter().filter_map(|list| match list {
                PackageList::Pip(command) => Some(command),
                PackageList::Npm | PackageList::NpmAll(_) | PackageList::Apt(_) => None,
            });
            let commands = step.commands.iter().map(|command| (command, false));
            for (command, is_list) in commands.chain(pip.map(|command| (command, true))) {
                let argv: Vec<&str> = command.argv.iter().map(String::as_str).collect();
                let said = namespace::run(&root, &mounts, &command.env, &command.directory, &argv);
                // What is said of a program that cannot be started would end a build; a list that fails does not.
                if !said.status.success() && (!is_list || said.status.code() == Some(127)) {
                    return Err(format!("{}: {}\n{}", step.name, said.status, text(&said)));
                }
                if is_list && said.status.success() {
                    output = Some(said.stdout);
                }
            }
            let mut packages = packages::parse_pip(&output.unwrap_or_default());
            if step.packages.contains(&PackageList::Npm) {
                packages.extend(packages::read_npm(&place.result));
            }
            self.numbers += 1;
            let layer: LayerId = format!("layer_018f3c2a7b4c7d3e9f6a{:012x}", self.numbers).parse().unwrap();
            self.layout.keep_layer(&tree, &place, step, layer).map_err(|error| error.to_string())?;
            self.layers.insert(key, (layer, packages.clone()));
            ids.push(layer);
            listed.push(packages);
            ran.push(step.name.clone());
        }
        stead_projects::layout::remove_tree(&self.layout.build(workspace(), project(), number)).unwrap();
        let layers = plan.placed(&ids);
        let version = Version {
            installed: self.layout.installed(workspace(), &layers).unwrap(),
            layers,
            packages: packages::combine(listed.iter().map(Vec::as_slice)),
            ran,
            entries,
        };
        self.built.push(version);
        Ok(self.built.last().unwrap())
    }

    /// Runs a bash script as a session on the latest version does, in `/tmp`.
    pub(crate) fn session(&self, script: &str) -> Output {
        let version = self.built.last().unwrap();
        let slug = Slug::from_name(SLUG).unwrap();
        let number = u32::try_from(self.built.len()).unwrap();
        let mounts = self.layout.mounts(workspace(), project(), number, &slug.mount(), &version.layers).unwrap();
        let mut env = environment::session_env(&slug, "", version.installed);
        env.insert("HOME".to_owned(), "/tmp".to_owned());
        let root: PathBuf = self.data.path().join("root");
        namespace::run(&root, &namespace::session_mounts(&mounts), &env, "/tmp", &["/usr/bin/bash", "-c", script])
    }

    /// A session's standard output; its failure fails the test.
    pub(crate) fn said(&self, script: &str) -> String {
        let output = self.session(script);
        assert!(output.status.success(), "{script}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
