//! What a session mounts of a version.
//!
//! Normally the source is one bind and each installation directory another, nested in it. A layer that was kept whole
//! (`setup.sh`, installs that write beside the source) makes the mount an overlay; and where such a layer also touched an
//! installation directory, that directory is no mount of its own but part of the overlay, so that what was changed or
//! removed there stays changed and removed.

use std::path::PathBuf;

use rustix::fs::FileType;
use stead_domain::build::PlacedLayer;
use stead_domain::ports::{Mount, MountSource};
use stead_domain::{LayerId, ProjectId, WorkspaceId};

use super::seal::is_there;
use super::{Layout, LayoutError};
use crate::environment::{Installed, SystemPackages};
use crate::plan::{APT, VENV};

impl Layout {
    /// The mounts of a version at `mount`, in mounting order. `layers` is the version's list as
    /// [`InstallPlan::placed`](crate::InstallPlan::placed) made it: bottom-up.
    pub fn mounts(
        &self,
        workspace: WorkspaceId,
        project: ProjectId,
        number: u32,
        mount: &str,
        layers: &[PlacedLayer],
    ) -> Result<Vec<Mount>, LayoutError> {
        let mut merged: Vec<&str> = vec![""];
        let targets = targets(layers);
        for whole in layers.iter().filter(|group| group.target.is_empty()).flat_map(|group| &group.layers) {
            for target in &targets {
                if is_there(&self.layer_tree(workspace, *whole), target)?.is_some() && !merged.contains(target) {
                    merged.push(target);
                }
            }
        }
        let tree = |layer: LayerId| self.layer_tree(workspace, layer);
        let mut root: Vec<PathBuf> = downwards(layers, |target| merged.contains(&target)).map(tree).collect();
        root.push(self.version_source(workspace, project, number));
        let mut mounts = vec![Mount { target: mount.to_owned(), source: source(root) }];
        for target in targets.into_iter().filter(|target| !merged.contains(target)) {
            let stack = downwards(layers, |other| other == target).map(|layer| tree(layer).join(target)).collect();
            mounts.push(Mount { target: format!("{mount}/{target}"), source: source(stack) });
        }
        Ok(mounts)
    }

    /// What a version with these layers holds, for [`session_env`](crate::environment::session_env).
    pub fn installed(&self, workspace: WorkspaceId, layers: &[PlacedLayer]) -> Result<Installed, LayoutError> {
        let has = |directory: &str| {
            for layer in layers.iter().flat_map(|group| &group.layers) {
                if is_there(&self.layer_tree(workspace, *layer), directory)? == Some(FileType::Directory) {
                    return Ok(true);
                }
            }
            Ok::<_, LayoutError>(false)
        };
        let apt = match layers.iter().any(|group| group.target == APT) {
            true => Some(SystemPackages {
                graphviz: has(&SystemPackages::graphviz_place())?,
                magick: has(&SystemPackages::magick_place())?,
                figlet: has(&SystemPackages::figlet_place())?,
            }),
            false => None,
        };
        Ok(Installed { venv: has(VENV)?, apt })
    }
}

/// The distinct targets besides the mount itself.
fn targets(layers: &[PlacedLayer]) -> Vec<&str> {
    let mut targets: Vec<&str> =
        layers.iter().map(|group| group.target.as_str()).filter(|target| !target.is_empty()).collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// The layers at some targets, uppermost first.
fn downwards(layers: &[PlacedLayer], at: impl Fn(&str) -> bool) -> impl Iterator<Item = LayerId> {
    layers.iter().rev().filter(move |group| at(&group.target)).flat_map(|group| group.layers.iter().copied())
}

fn source(mut stack: Vec<PathBuf>) -> MountSource {
    match (stack.len(), stack.pop()) {
        (1, Some(only)) => MountSource::Directory(only),
        (_, last) => {
            stack.extend(last);
            MountSource::Overlay(stack)
        }
    }
}
