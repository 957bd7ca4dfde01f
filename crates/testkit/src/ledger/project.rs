//! Projects as their owner knows them.

use std::collections::BTreeMap;
use std::time::Instant;

use super::known::Known;

/// The files of a project.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// A project that one client owns alone.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its name, no other's.
    pub name: String,
    /// Its id, once it is known.
    pub id: Option<String>,
    /// Whether it is there.
    pub exists: Known<bool>,
    /// Its files.
    pub tree: Known<Tree>,
    /// Builds that were acknowledged or found, by number.
    pub builds: BTreeMap<u32, Build>,
    /// The files of a build that was asked for without an answer.
    pub asked_build: Option<Tree>,
    /// Whether its owner has ever asked for an older version to become the active one.
    pub activated: bool,
}

/// A build.
#[derive(Debug, Clone)]
pub struct Build {
    /// What it was given.
    pub tree: Tree,
    /// `ready` or `failed`, once its owner has read it.
    pub end: Option<String>,
    /// Until when it runs at least.
    pub until: Option<Instant>,
    /// Whether its owner has asked for its end.
    pub cancelled: bool,
    /// Whether its files were given up.
    pub given_up: Known<bool>,
}

impl Build {
    /// A build of these files.
    #[must_use]
    pub fn of(tree: Tree, until: Option<Instant>) -> Self {
        Self { tree, end: None, until, cancelled: false, given_up: Known::certainly(false) }
    }

    /// Whether its version is there for sessions to read, as far as is known.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.end.as_deref() == Some("ready") && self.given_up == Known::certainly(false)
    }
}

impl Project {
    /// A project that is asked for.
    #[must_use]
    pub fn asked(name: String) -> Self {
        let mut exists = Known::certainly(false);
        exists.ask(true);
        Self {
            name,
            id: None,
            exists,
            tree: Known::certainly(Tree::new()),
            builds: BTreeMap::new(),
            asked_build: None,
            activated: false,
        }
    }

    /// Whether it is there and everything about it is certain, so that it may be asked for something.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let is_certain = self.exists.asked().is_none() && self.tree.asked().is_none() && self.asked_build.is_none();
        self.id.is_some() && *self.exists.certain() && is_certain
    }

    /// Whether a version of it is known to be ready.
    #[must_use]
    pub fn has_version(&self) -> bool {
        self.is_usable() && self.builds.values().any(Build::stands)
    }

    /// Whether a build of it may be at work.
    #[must_use]
    pub fn builds_now(&self) -> bool {
        self.asked_build.is_some() || self.builds.values().any(|build| build.end.is_none())
    }
}
