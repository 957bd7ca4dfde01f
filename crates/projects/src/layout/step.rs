//! Where one build step works, and how its result becomes a layer.
//!
//! A step without lower layers works in a plain directory that holds its files; `keep` is a subdirectory of it. Any other
//! step works on an overlay: its layers and files below, one empty directory above, which receives what it writes.
//!
//! Each step has an installer cache of its own, which is empty when it begins and goes when it ends. Whatever runs in a step
//! may write there, installers trust what they find there, and no key knows of it.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use stead_domain::LayerId;
use stead_domain::build::Stage;
use stead_domain::source::SourceEntry;

use super::seal::{Sealed, Whiteouts, is_there, seal_tree};
use super::source::{Form, SourceTree, lay_out};
use super::{Layout, LayoutError, make_directory, remove_tree, sync_directory};
use crate::environment::CACHE_MOUNT;
use crate::plan::{Step, StepFiles};
use crate::system_packages;

/// A writable overlay at the mount, in the shape of the port's `BuildOverlay`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOverlay {
    /// The mount.
    pub target: String,
    /// What is read, uppermost first.
    pub lowers: Vec<PathBuf>,
    /// What receives the writes.
    pub upper: PathBuf,
    /// An empty directory on the same file system.
    pub work: PathBuf,
}

/// What a step's sandbox gets of this machine's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepPlace {
    /// Writable directories, each with its absolute path inside, in mounting order.
    pub writable: Vec<(String, PathBuf)>,
    /// Directories of this machine that it reads besides, each with its absolute path inside.
    pub readable: Vec<(String, PathBuf)>,
    /// The overlay at the mount; without one, `writable` begins with the mount.
    pub overlay: Option<StepOverlay>,
    /// Where the step's result appears: `keep` is relative to it.
    pub result: PathBuf,
    /// The installer cache, one of `writable`.
    pub cache: PathBuf,
}

impl Layout {
    /// Lays out what the step at `index` sees at `mount`. `lowers` are the layers of the steps in `step.lower`, in that order.
    pub fn prepare_step(
        &self,
        tree: &SourceTree<'_>,
        mount: &str,
        index: usize,
        step: &Step,
        lowers: &[LayerId],
    ) -> Result<StepPlace, LayoutError> {
        if lowers.len() != step.lower.len() {
            return Err(LayoutError::Layers { expected: step.lower.len(), given: lowers.len() });
        }
        let scratch = self.build(tree.workspace, tree.project, tree.number).join(index.to_string());
        remove_tree(&scratch)?;
        let files = scratch.join("files");
        let entries: &[SourceEntry] = match &step.files {
            StepFiles::Only(entries) => entries,
            StepFiles::Whole => tree.entries,
        };
        lay_out(&files, tree, entries, Form::Working { replaced: &step.replaced }, &[])?;
        let cache = scratch.join("cache");
        make_directory(&cache)?;
        let readable = match step.stage {
            Stage::SystemPackages => {
                let copies = scratch.join("system");
                system_packages::copy_to(&copies)
                    .map_err(|source| LayoutError::io("copy apt's files to", &copies, source))?
            }
            _ => Vec::new(),
        };
        let mut writable = vec![(CACHE_MOUNT.to_owned(), cache.clone())];
        if !step.needs_overlay() {
            writable.insert(0, (mount.to_owned(), files.clone()));
            return Ok(StepPlace { writable, readable, overlay: None, result: files, cache });
        }
        let (upper, work) = (scratch.join("upper"), scratch.join("work"));
        make_directory(&upper)?;
        make_directory(&work)?;
        let mut below: Vec<PathBuf> =
            lowers.iter().rev().map(|layer| self.layer_tree(tree.workspace, *layer)).collect();
        below.push(files);
        let overlay = StepOverlay { target: mount.to_owned(), lowers: below, upper: upper.clone(), work };
        Ok(StepPlace { writable, readable, overlay: Some(overlay), result: upper, cache })
    }

    /// Turns what the step left into the sealed layer `layer`; durable on return. Everything else it wrote goes with the
    /// build's directory.
    pub fn keep_layer(
        &self,
        tree: &SourceTree<'_>,
        place: &StepPlace,
        step: &Step,
        layer: LayerId,
    ) -> Result<Sealed, LayoutError> {
        // First, so that it is not made durable.
        remove_tree(&place.cache)?;
        let home = self.layer(tree.workspace, layer);
        remove_tree(&home)?;
        let (from, to) = if step.keep.is_empty() {
            make_directory(&home)?;
            (place.result.clone(), home.join("tree"))
        } else {
            make_directory(&home.join("tree"))?;
            let from = place.result.join(&step.keep);
            match is_there(&place.result, &step.keep)? {
                Some(FileType::Directory) => {}
                // Nothing was to be installed: the place exists all the same.
                None => make_directory(&from)?,
                Some(_) => return Err(LayoutError::NotADirectory { path: step.keep.clone() }),
            }
            (from, home.join("tree").join(&step.keep))
        };
        let whiteouts = if place.overlay.is_some() { Whiteouts::Keep } else { Whiteouts::Remove };
        let sealed = seal_tree(&from, whiteouts)?;
        std::fs::rename(&from, &to).map_err(|source| LayoutError::io("keep", &from, source))?;
        // The content is durable since sealing; the names are now.
        [to.as_path(), &home].into_iter().filter_map(Path::parent).try_for_each(sync_directory)?;
        Ok(sealed)
    }
}
