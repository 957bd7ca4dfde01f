//! Layers: held by builds from the moment they choose or make one until the version that names it is committed, and taken
//! away only while nobody holds them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_domain::changes::Removal;
use stead_domain::{LayerId, ProjectId, Result, WorkspaceId};
use stead_projects::layout::remove_tree;

use super::CollectionReport;
use crate::builds::layout_failed;
use crate::commit::store_failed;
use crate::engine::Engine;

/// Who holds which layer, and which ones go. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayerHolds(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    held: HashMap<LayerId, usize>,
    going: HashSet<LayerId>,
}

/// A layer that stays as long as this does.
#[derive(Debug)]
pub(crate) struct HeldLayer {
    holds: LayerHolds,
    id: LayerId,
}

/// A layer that nobody can hold as long as this is there.
#[derive(Debug)]
struct GoingLayer {
    holds: LayerHolds,
    id: LayerId,
}

impl LayerHolds {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Holds a layer; none when it is being removed. The caller looks for its directory afterwards.
    pub(crate) fn hold(&self, id: LayerId) -> Option<HeldLayer> {
        self.with(|state| {
            if state.going.contains(&id) {
                return None;
            }
            *state.held.entry(id).or_insert(0) += 1;
            Some(HeldLayer { holds: self.clone(), id })
        })
    }

    fn take_away(&self, id: LayerId) -> Option<GoingLayer> {
        self.with(|state| {
            let is_free = !state.held.contains_key(&id) && state.going.insert(id);
            is_free.then(|| GoingLayer { holds: self.clone(), id })
        })
    }
}

impl Drop for HeldLayer {
    fn drop(&mut self) {
        self.holds.with(|state| {
            if let Some(count) = state.held.get_mut(&self.id) {
                *count -= 1;
                if *count == 0 {
                    state.held.remove(&self.id);
                }
            }
        });
    }
}

impl Drop for GoingLayer {
    fn drop(&mut self) {
        self.holds.with(|state| state.going.remove(&self.id));
    }
}

impl Engine {
    /// Removes layers that no version names and that are older than `grace` or of a deleted project (none of them without one), and
    /// directories without a row.
    pub(super) async fn collect_layers(
        &self,
        workspace: WorkspaceId,
        grace: Option<Duration>,
        report: &mut CollectionReport,
    ) -> Result<()> {
        let listed = self.store.layers_list(workspace, &self.node).await.map_err(store_failed)?;
        let layout = self.layout.clone();
        let on_disk = self.blocking(move || layout.layers(workspace).map_err(layout_failed)).await?;
        let known: HashSet<LayerId> = listed.iter().map(|layer| layer.id).collect();
        let named = self.layers_named(workspace).await?;
        let projects = self.store.projects_list(workspace).await.map_err(store_failed)?;
        let live: HashSet<ProjectId> = projects.iter().map(|(project, _)| project.id).collect();
        let now = self.now();
        let is_old = |layer: &stead_domain::build::Layer| {
            grace.is_some_and(|grace| now.since(layer.created_at) >= grace || !live.contains(&layer.project_id))
        };
        let unnamed = listed.iter().filter(|layer| is_old(layer) && !named.contains(&layer.id));
        let without_row = on_disk.into_iter().filter(|id| !known.contains(id));
        let candidates: Vec<LayerId> = unnamed.map(|layer| layer.id).chain(without_row).collect();
        let going: Vec<GoingLayer> =
            candidates.into_iter().filter_map(|id| self.collector.layers.take_away(id)).collect();
        if going.is_empty() {
            return Ok(());
        }
        // A build that let go of one of them meanwhile has committed what names it before.
        let named = self.layers_named(workspace).await?;
        let ids: Vec<LayerId> = going.iter().map(|going| going.id).filter(|id| !named.contains(id)).collect();
        let with_row = self.store.layers_fetch(&ids).await.map_err(store_failed)?;
        let young: HashSet<LayerId> = with_row.iter().filter(|layer| !is_old(layer)).map(|l| l.id).collect();
        let removed: Vec<_> = with_row.iter().filter(|layer| !young.contains(&layer.id)).collect();
        let removals: Vec<Removal> = removed.iter().map(|layer| Removal::Layer(layer.id)).collect();
        self.remove_each(&removals).await?;
        self.faults.point("collect.layer.removed");
        report.layers += removed.len() as u64;
        report.bytes += removed.iter().map(|layer| layer.size.bytes).sum::<u64>();
        let places: Vec<_> =
            ids.iter().filter(|id| !young.contains(id)).map(|id| self.layout.layer(workspace, *id)).collect();
        self.blocking(move || places.iter().try_for_each(|place| remove_tree(place)).map_err(layout_failed)).await
    }

    /// The layers of every version that stands, and of those that tasks read, be their project deleted.
    async fn layers_named(&self, workspace: WorkspaceId) -> Result<BTreeSet<LayerId>> {
        let mut builds = self.store.builds_of_workspace(workspace).await.map_err(store_failed)?;
        builds.retain(|build| build.standing().is_some());
        for pin in self.versions_read().await? {
            builds.extend(self.store.build_fetch(pin.project_id, pin.version).await.map_err(store_failed)?);
        }
        let versions = builds.iter().filter_map(|build| build.version.as_ref());
        Ok(versions.flat_map(|version| &version.layers).flat_map(|placed| placed.layers.iter().copied()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_does_not_go_and_what_goes_is_not_held() {
        let holds = LayerHolds::default();
        let id: LayerId = format!("{}_018f3c2a7b4c7d3e9f6a5b4c3d2e1f00", LayerId::PREFIX).parse().unwrap();
        let (one, two) = (holds.hold(id), holds.hold(id));
        assert!(one.is_some() && two.is_some());
        drop(one);
        assert!(holds.take_away(id).is_none());
        drop(two);
        let going = holds.take_away(id);
        assert!(going.is_some() && holds.take_away(id).is_none() && holds.hold(id).is_none());
        drop(going);
        assert!(holds.hold(id).is_some());
        assert!(holds.with(|state| state.held.is_empty() && state.going.is_empty()));
    }
}
