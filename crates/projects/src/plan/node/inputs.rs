//! The files that an install of Node packages reads.
//!
//! Packages of a workspace are linked, not copied: what an install reads of them is their `package.json` (all of the source's are
//! taken, since the managers differ in how they understand the patterns), the programs that it links and makes executable,
//! and, where one of them has install scripts, anything.

use stead_bundles::manifest::{PackageJson, decode_text};
use stead_domain::source::SourceEntry;

use super::super::{PlanError, Planner};
use super::MANIFEST;

/// With more manifests than this, the whole source is simpler.
const MAX_MEMBERS: usize = 5000;

/// What the key of the step names.
pub(super) struct Inputs {
    files: Vec<SourceEntry>,
    /// Whether it is the whole source instead.
    pub(super) whole: bool,
    /// Whether other packages of the source are linked.
    pub(super) reads_members: bool,
    /// The directories of these packages as the lock names them; None where it does not, and every directory may be one.
    pub(super) members: Option<Vec<String>>,
    /// Whether the install changes something beside `node_modules`, though it reads nothing there.
    pub(super) writes_beside: bool,
    /// Whether optional packages are left out.
    pub(super) omits_optional: bool,
}

impl Inputs {
    pub(super) fn new(manifest: SourceEntry) -> Self {
        Self {
            files: vec![manifest],
            whole: false,
            reads_members: false,
            members: None,
            writes_beside: false,
            omits_optional: false,
        }
    }

    pub(super) fn add(&mut self, file: Option<&SourceEntry>) {
        self.files.extend(file.cloned());
    }

    /// The files, or none for the whole source.
    pub(super) fn into_files(mut self) -> Option<Vec<SourceEntry>> {
        self.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.files.dedup_by(|a, b| a.path == b.path);
        (!self.whole).then_some(self.files)
    }
}

impl Planner<'_> {
    /// What a package at `directory` makes an install read.
    pub(super) fn add_package(&self, inputs: &mut Inputs, directory: &str, package: &PackageJson) {
        // npm builds a package itself when there is a binding.gyp, as if it had an install script.
        let builds = self.sources.file(&join(directory, "binding.gyp")).is_some();
        inputs.whole |= package.needs_whole_source || builds;
        inputs.reads_members |= package.reads_members;
        let named = package.local_archives.iter().chain(&package.patches).chain(&package.programs);
        for path in named {
            inputs.add(self.sources.file(&join(directory, path)));
        }
    }

    pub(super) fn add_npmrc(&self, inputs: &mut Inputs) -> Result<(), PlanError> {
        let Some(npmrc) = self.sources.file(".npmrc") else { return Ok(()) };
        inputs.add(Some(npmrc));
        let bytes = self.sources.read(npmrc)?;
        let text = decode_text(&bytes).map_err(|source| PlanError::manifest(".npmrc", source))?;
        for line in text.lines() {
            let key = line.split('=').next().unwrap_or_default().trim().replace('_', "-");
            match key.trim_end_matches("[]") {
                // Code of the source that runs, directories that are packed, other places for what is installed.
                "pnpmfile"
                | "global-pnpmfile"
                | "node-options"
                | "script-shell"
                | "install-links"
                | "modules-dir"
                | "virtual-store-dir"
                | "prefix"
                | "git"
                | "inject-workspace-packages" => inputs.whole = true,
                "omit" | "optional" | "production" | "only" => inputs.omits_optional = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// The other packages of the source.
    pub(super) fn add_members(&self, inputs: &mut Inputs) -> Result<(), PlanError> {
        for name in [".npmrc", "npm-shrinkwrap.json"] {
            self.sources.named(name).for_each(|file| inputs.add(Some(file)));
        }
        let manifests: Vec<&SourceEntry> = self.sources.named(MANIFEST).collect();
        if manifests.len() > MAX_MEMBERS {
            inputs.whole = true;
            return Ok(());
        }
        for manifest in manifests {
            inputs.add(Some(manifest));
            let directory = manifest.path.as_str().strip_suffix(MANIFEST).unwrap_or_default().trim_end_matches('/');
            let is_member = inputs.members.as_ref().is_none_or(|members| members.iter().any(|path| path == directory));
            if directory.is_empty() || !is_member || inputs.whole {
                continue;
            }
            match PackageJson::parse(&self.sources.read(manifest)?) {
                Ok(package) => self.add_package(inputs, directory, &package),
                // The manager will say so, if it is a member at all.
                Err(_) => inputs.whole = true,
            }
        }
        Ok(())
    }
}

fn join(directory: &str, path: &str) -> String {
    let path = path.trim_start_matches("./");
    if directory.is_empty() { path.to_owned() } else { format!("{directory}/{path}") }
}
