//! One step of a build, and the key of its layer.
//!
//! Rules that every step keeps:
//!
//! * its sandbox holds, at the mount, exactly the files of its key and the layers of `lower`, and nothing else of the project;
//! * the key hashes those files' bytes, the lower layers' keys, the whole command lines and environments (so flags, index
//!   addresses, proxy and mount path), the installer's version, the base, and the version of this layout;
//! * it begins with an empty installer cache, which goes when it ends: what another step left there would be read and be in no key;
//! * `keep` alone survives the step; for `setup.sh` and for installs that write beside the source it is the whole overlay.

use std::collections::BTreeMap;

use stead_domain::build::{Package, Stage};
use stead_domain::network::BuildNetworkPolicy;
use stead_domain::source::{EntryKind, SourceEntry};
use stead_domain::{BlobId, LayerId, SourcePath};

use super::{PlanError, Planner, VENV};
use crate::toolchain::BASH;
use crate::{environment, packages};

/// Changes whenever steps lay out or keep something else than before, so that no older layer is taken for a newer one.
const LAYOUT_VERSION: &str = "2";

/// Runs a program that tells what was installed. It runs on what a stranger's scripts left, and says nothing that a build depends on: a
/// program that is gone says nothing, and one that does not come to an end is ended.
const LISTING: &str = r#"test -x "$0" || exit 0; exec /usr/bin/timeout -k 5 120 "$0" "$@""#;

/// A program run in a step's sandbox. Standard input is at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program by absolute path, and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Its working directory: the mount.
    pub directory: String,
}

/// Which files of the source a step sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepFiles {
    /// These regular files.
    Only(Vec<SourceEntry>),
    /// The whole source of the build.
    Whole,
}

/// How to learn what a step installed, once its commands have succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageList {
    /// Run this in the sandbox; its output goes to [`crate::packages::parse_pip`].
    Pip(Command),
    /// Look at the kept tree with [`crate::packages::read_npm`].
    Npm,
    /// Run this in the sandbox; its output goes to [`crate::packages::parse_npm`].
    NpmAll(Command),
    /// Run this in the sandbox; its output goes to [`crate::packages::parse_apt`].
    Apt(Command),
}

impl PackageList {
    /// The command to run in the sandbox, for lists that are had by one.
    pub fn command(&self) -> Option<&Command> {
        match self {
            Self::Pip(command) | Self::NpmAll(command) | Self::Apt(command) => Some(command),
            Self::Npm => None,
        }
    }

    /// What that command's output says; nothing when it is no such output.
    pub fn parse(&self, output: &[u8]) -> Vec<Package> {
        match self {
            Self::Pip(_) => packages::parse_pip(output),
            Self::NpmAll(_) => packages::parse_npm(output),
            Self::Apt(_) => packages::parse_apt(output),
            Self::Npm => Vec::new(),
        }
    }
}

/// One step of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The stage that clients see meanwhile.
    pub stage: Stage,
    /// The step for people, in logs and failures: `pip install -r requirements.txt`.
    pub name: String,
    /// The hash of everything it reads; see [`Step::layer_key`].
    pub key: BlobId,
    /// What went into the key, a line each, for the log.
    pub key_inputs: Vec<String>,
    /// What it sees of the source.
    pub files: StepFiles,
    /// Files whose bytes differ in the step's sandbox from the source's, which stays as it is.
    pub replaced: Vec<(SourcePath, Vec<u8>)>,
    /// What is kept as its layer, relative to the mount: `.venv`, `node_modules`, or empty for everything it wrote.
    pub keep: String,
    /// The earlier steps whose layers it sees and writes over, in order.
    pub lower: Vec<usize>,
    /// What it runs, in order; the first failure ends the build.
    pub commands: Vec<Command>,
    /// How to list what it installed.
    pub packages: Vec<PackageList>,
    /// Whether it may reach the network.
    pub network: bool,
    /// Whether the same key means the same packages; a layer of an unpinned step should have a maximum age.
    pub pinned: bool,
}

impl Step {
    /// Whether it runs on a writable overlay: over the layers it builds upon, or because all it writes is kept.
    pub fn needs_overlay(&self) -> bool {
        !self.lower.is_empty() || self.keep.is_empty()
    }

    /// The key to look the layer up with, and to record it under, once the layers below are known. A layer written over
    /// another holds only the difference to it, so it may be used above that very layer alone, and not above a newer one
    /// that was made with the same key (a fresh build, or a maximum age).
    pub fn layer_key(&self, lowers: &[LayerId]) -> BlobId {
        if lowers.is_empty() {
            return self.key;
        }
        let mut key = KeyHasher::default();
        key.field("key", &self.key.to_string());
        lowers.iter().for_each(|layer| key.field("layer", &layer.hex()));
        key.finish()
    }
}

/// A step before its key is known.
pub(super) struct Draft {
    pub(super) stage: Stage,
    pub(super) name: String,
    /// Installer and version: `pip 23.0.1`.
    pub(super) installer: String,
    /// None for the whole source.
    pub(super) files: Option<Vec<SourceEntry>>,
    pub(super) replaced: Vec<(SourcePath, Vec<u8>)>,
    pub(super) keep: &'static str,
    pub(super) lower: Vec<usize>,
    pub(super) commands: Vec<Command>,
    pub(super) packages: Vec<PackageList>,
    pub(super) pinned: bool,
}

impl Planner<'_> {
    /// Computes the draft's key and appends the step; returns its index. Python and Node packages see what system packages
    /// were declared, since they may compile against them.
    pub(super) fn push(&mut self, mut draft: Draft) -> usize {
        let system = self.steps.iter().position(|step| step.stage == Stage::SystemPackages);
        if let (Some(system), Stage::PythonPackages | Stage::NodePackages) = (system, draft.stage) {
            draft.lower.insert(0, system);
            let mount = self.settings.slug.mount();
            draft.commands.iter_mut().for_each(|command| environment::add_apt(&mut command.env, &mount));
        }
        let (key, key_inputs) = self.key(&draft);
        self.steps.push(Step {
            stage: draft.stage,
            name: draft.name,
            key,
            key_inputs,
            files: draft.files.map_or(StepFiles::Whole, StepFiles::Only),
            replaced: draft.replaced,
            keep: draft.keep.to_owned(),
            lower: draft.lower,
            commands: draft.commands,
            packages: draft.packages,
            network: self.settings.network != BuildNetworkPolicy::Disabled,
            pinned: draft.pinned,
        });
        self.steps.len() - 1
    }

    fn key(&self, draft: &Draft) -> (BlobId, Vec<String>) {
        let base = &self.base;
        let mut key = KeyHasher::default();
        key.field("layout", LAYOUT_VERSION);
        key.field("stage", draft.stage.as_str());
        key.field("keep", draft.keep);
        key.field("network", &self.settings.network.to_string());
        key.said("installer", &draft.installer);
        key.field("base", &base.id);
        key.inputs.push(format!("base {}", base.description));
        key.said("mount", &self.settings.slug.mount());
        for (name, url) in
            [("python index", &self.settings.python_index), ("npm registry", &self.settings.npm_registry)]
        {
            if let Some(url) = url {
                key.said(name, &environment::named_by_hash(url));
            }
        }
        match &draft.files {
            None => key.said("whole source", &self.sources.digest().to_string()),
            Some(files) => {
                for file in files {
                    let EntryKind::File { executable, blob, .. } = file.kind else { continue };
                    key.field("mode", if executable { "x" } else { "f" });
                    key.said(file.path.as_str(), &blob.to_string());
                }
            }
        }
        for (path, bytes) in &draft.replaced {
            key.field(path.as_str(), blake3::hash(bytes).to_hex().as_str());
        }
        for index in &draft.lower {
            let lower = &self.steps[*index];
            key.field("lower", &lower.key.to_string());
            key.inputs.push(format!("on top of {} {}", lower.name, &lower.key.to_string()[..12]));
        }
        for command in &draft.commands {
            key.field("command", "");
            command.argv.iter().for_each(|argument| key.field("argument", argument));
            command.env.iter().for_each(|(name, value)| key.field(name, value));
        }
        (key.finish(), key.inputs)
    }

    /// A command at the mount.
    pub(super) fn command<S: Into<String>>(
        &self,
        env: &BTreeMap<String, String>,
        argv: impl IntoIterator<Item = S>,
    ) -> Command {
        let argv = argv.into_iter().map(Into::into).collect();
        Command { argv, env: env.clone(), directory: self.settings.slug.mount() }
    }

    /// A command that lists packages; it never fails to start.
    pub(super) fn listing<'a>(
        &self,
        env: &BTreeMap<String, String>,
        argv: impl IntoIterator<Item = &'a str>,
    ) -> Command {
        self.command(env, [BASH, "-c", LISTING].into_iter().chain(argv))
    }

    /// Whether a step so far makes a `.venv`.
    pub(super) fn has_venv(&self) -> bool {
        self.steps.iter().any(|step| step.stage == Stage::PythonPackages)
    }

    /// The failure of a manifest whose tool the machine lacks.
    pub(super) fn missing(file: &str, tool: &'static str) -> PlanError {
        PlanError::MissingTool { file: file.to_owned(), tool }
    }

    /// A path beneath the project's `.venv`.
    pub(super) fn in_venv(&self, path: &str) -> String {
        format!("{}/{VENV}/{path}", self.settings.slug.mount())
    }
}

/// Hashes named fields, each with its length, so that no two lists of fields are the same bytes.
#[derive(Default)]
struct KeyHasher {
    hasher: blake3::Hasher,
    inputs: Vec<String>,
}

impl KeyHasher {
    fn field(&mut self, name: &str, value: &str) {
        for part in [name, value] {
            self.hasher.update(&(part.len() as u64).to_le_bytes());
            self.hasher.update(part.as_bytes());
        }
    }

    /// A field that the log names, too.
    fn said(&mut self, name: &str, value: &str) {
        self.field(name, value);
        let is_hash = value.len() == 64 && value.parse::<BlobId>().is_ok();
        self.inputs.push(format!("{name} {}", if is_hash { &value[..12] } else { value }));
    }

    fn finish(&self) -> BlobId {
        BlobId::from_bytes(*self.hasher.finalize().as_bytes())
    }
}
