//! What a data directory says of itself: where it is, whose it is, and which user ids its files have.
//!
//! It lies beside the environments, so a restored database finds the ids that are in use. A copy of a data directory still says where
//! the original is, and is refused while that is there: it would name the same control groups and own the same ids.

use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stead_domain::ports::ProviderError;

use super::registry::{Note, Registry, range_of};
use super::{Users, accounts};
use crate::config::{DEFAULT_UID_BASE, NativeConfig, fits};
use crate::fault::failed;
use crate::record::{read_json, write_json};
use crate::slots::Slots;

const FILE: &str = "place.json";

/// Where a data directory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Its path, without links.
    pub(super) data: PathBuf,
    /// The name of its machine.
    pub(super) node: String,
    /// The first id of slot 0, once it was chosen.
    uid_base: Option<u32>,
}

impl Place {
    /// What a data directory says, if it says anything.
    pub(super) fn read(data: &Path) -> io::Result<Option<Self>> {
        read_json(&data.join("environments").join(FILE))
    }
}

/// The first id of slot 0, where the service of a data directory has ids of its own.
pub(crate) fn remembered(data: &Path) -> io::Result<Option<u32>> {
    Ok(Place::read(data)?.and_then(|place| place.uid_base))
}

/// The name of the machine whose sessions' files lie in a data directory, where that was noted. Blocking.
pub fn noted_node(data: &Path) -> io::Result<Option<String>> {
    Ok(Place::read(data)?.map(|place| place.node))
}

/// Finds out whose ids this service has, and notes it. `environments` is there, and nothing of this service runs yet. Blocking.
pub(crate) fn claim(config: &NativeConfig) -> Result<Users, ProviderError> {
    let data = real(config)?;
    let Some((registry, base)) = decide(config, &data)? else {
        say(&data, &config.node, None)?;
        return Ok(Users::Own);
    };
    registry
        .note(&Note::new(&range_of(base, config.slots), &data, &config.node))
        .map_err(failed("note user ids", &config.ranges))?;
    // Said before the lock goes: a note counts only if its place says the same.
    say(&data, &config.node, Some(base))?;
    drop(registry);
    Ok(Users::Ranges { base })
}

/// Finds out whether [`claim`] would find ids, and notes nothing. Blocking.
pub(crate) fn check(config: &NativeConfig) -> Result<(), ProviderError> {
    decide(config, &real(config)?).map(drop)
}

fn real(config: &NativeConfig) -> Result<PathBuf, ProviderError> {
    config.data.canonicalize().map_err(failed("find the data directory", &config.data))
}

/// The first id of slot 0, with the notes, which stay locked until it is noted. None where all sandboxes have the service's id.
fn decide(config: &NativeConfig, data: &Path) -> Result<Option<(Registry, u32)>, ProviderError> {
    let said = Place::read(data).map_err(failed("read where a data directory was", data))?;
    if let Some(said) = &said
        && said.node == config.node
        && is_copy_of(data, said)
    {
        let message = format!(
            "{} is a copy of {}, which is still there: both would use the same names and user ids. Remove one of the two. Or, \
             if the copy may lose all files of its sessions, remove the file `node` and the directory `environments` from it",
            data.display(),
            said.data.display()
        );
        return Err(ProviderError::permanent("data_directory_copied", message));
    }
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let remembered = said.as_ref().and_then(|said| said.uid_base);
    let leases = data.join("environments/slots");
    let in_use = Slots::any(&leases).map_err(failed("list the slots", &leases))?;
    let registry =
        Registry::open(&config.ranges, data).map_err(failed("open the notes of user ids", &config.ranges))?;
    let base = choose(config, &registry, remembered, in_use)?;
    Ok(Some((registry, base)))
}

fn say(data: &Path, node: &str, uid_base: Option<u32>) -> Result<(), ProviderError> {
    let place = Place { data: data.to_path_buf(), node: node.to_owned(), uid_base };
    // A disk that is full keeps no server from starting where it was.
    if Place::read(data).is_ok_and(|said| said.as_ref() == Some(&place)) {
        return Ok(());
    }
    write_json(&data.join("environments"), FILE, &place).map_err(failed("note where a data directory is", data))
}

/// Whether what `said` tells of is another directory than this one, and still there.
fn is_copy_of(data: &Path, said: &Place) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    said.data != data
        && identity(&said.data) != identity(data)
        && Place::read(&said.data).is_ok_and(|original| original.is_some_and(|original| original.data == said.data))
}

/// The first id of slot 0. Files that exist must keep their ids, so while any slot is leased they are not changed.
fn choose(
    config: &NativeConfig,
    registry: &Registry,
    remembered: Option<u32>,
    in_use: bool,
) -> Result<u32, ProviderError> {
    // Earlier versions noted nothing and had the same for every service.
    let remembered = remembered.or(in_use.then_some(DEFAULT_UID_BASE));
    if let (Some(wanted), Some(used)) = (config.uid_base, remembered)
        && wanted != used
        && in_use
    {
        let message = format!(
            "environments of {} have user ids from {used} on, so `native.uid_base` cannot be {wanted} before they are deleted",
            config.data.display()
        );
        return Err(ProviderError::permanent("user_ids_in_use", message));
    }
    let Some(base) = config.uid_base.or(remembered) else { return find(config, registry) };
    if !fits(base, config.slots) {
        let message = format!("{} slots from user id {base} on go beyond the last user id", config.slots);
        return Err(ProviderError::permanent("native_configuration", message));
    }
    let wanted = range_of(base, config.slots);
    let Some(holder) = registry.holder(&wanted) else { return Ok(base) };
    if config.uid_base.is_none() && !in_use {
        return find(config, registry);
    }
    Err(taken(config, &wanted, &holder.data))
}

fn find(config: &NativeConfig, registry: &Registry) -> Result<u32, ProviderError> {
    let taken: Vec<Range<u32>> = accounts(Path::new("/etc")).into_iter().map(|holder| holder.ids).collect();
    registry.find(config.slots, &taken).ok_or_else(|| {
        let message = format!(
            "no range of user ids for {} slots is free on this machine; `native.slots` may be smaller",
            config.slots
        );
        ProviderError::permanent("no_user_ids", message)
    })
}

fn taken(config: &NativeConfig, wanted: &Range<u32>, holder: &Path) -> ProviderError {
    let remedy = match config.uid_base {
        Some(_) => "leave `native.uid_base` unset, or choose others",
        // Files are there that have them.
        None => {
            "the environments of this one have them too, so one of the two must be moved to another machine or be removed"
        }
    };
    let message = format!(
        "the user ids {} to {} belong to the service whose data directory is {}; {remedy}",
        wanted.start,
        wanted.end - 1,
        holder.display()
    );
    ProviderError::permanent("user_ids_taken", message)
}
