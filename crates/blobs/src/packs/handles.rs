//! The packs that are open: as few as serve, whatever the number of workspaces.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many stay open when nobody uses them.
const OPEN: usize = 64;

/// Shared by all workspaces.
#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    files: HashMap<PathBuf, (Arc<File>, u64)>,
    /// Counts uses, so that the files used last are known.
    uses: u64,
}

impl Handles {
    /// A pack that is there.
    pub(crate) fn open(&self, path: &Path) -> io::Result<Arc<File>> {
        let mut open = self.lock();
        open.uses += 1;
        let uses = open.uses;
        if let Some((file, used)) = open.files.get_mut(path) {
            *used = uses;
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(OpenOptions::new().read(true).write(true).open(path)?);
        open.insert(path, &file);
        Ok(file)
    }

    /// A pack that is made.
    pub(crate) fn create(&self, path: &Path) -> io::Result<Arc<File>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let file = Arc::new(file);
        self.lock().insert(path, &file);
        Ok(file)
    }

    /// Closes a pack once nobody uses it any more.
    pub(crate) fn close(&self, path: &Path) {
        self.lock().files.remove(path);
    }

    // A panic between two operations on the map leaves a map that is merely incomplete.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn insert(&mut self, path: &Path, file: &Arc<File>) {
        if self.files.len() >= OPEN
            && let Some(oldest) = self.files.iter().min_by_key(|(_, (_, used))| *used).map(|(path, _)| path.clone())
        {
            self.files.remove(&oldest);
        }
        self.files.insert(path.to_owned(), (Arc::clone(file), self.uses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_used_stay_open_and_the_rest_opens_again() {
        let directory = tempfile::tempdir().unwrap();
        let handles = Handles::default();
        let path = |number: usize| directory.path().join(format!("{number}.pack"));
        let first = handles.create(&path(0)).unwrap();
        assert!(handles.create(&path(0)).is_err());
        let second = handles.create(&path(1)).unwrap();
        for number in 2..=OPEN {
            handles.open(&path(0)).unwrap();
            handles.create(&path(number)).unwrap();
        }
        assert_eq!(handles.lock().files.len(), OPEN);
        assert!(Arc::ptr_eq(&first, &handles.open(&path(0)).unwrap()));
        assert!(!Arc::ptr_eq(&second, &handles.open(&path(1)).unwrap()));
        handles.close(&path(1));
        assert_eq!(handles.lock().files.len(), OPEN - 1);
    }
}
