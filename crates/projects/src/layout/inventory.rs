//! What lies on disk, for whoever compares it with the rows. Names that are no ids are nobody's and left alone.

use stead_domain::{LayerId, ProjectId, WorkspaceId};

use super::{Layout, LayoutError, cache, names};

impl Layout {
    /// The versions of a project that have a directory, finished or not.
    pub fn versions(&self, workspace: WorkspaceId, project: ProjectId) -> Result<Vec<u32>, LayoutError> {
        let found = names(&self.project(workspace, project).join("versions"))?;
        Ok(found.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// The layers of a workspace that have a directory, whole or half made.
    pub fn layers(&self, workspace: WorkspaceId) -> Result<Vec<LayerId>, LayoutError> {
        let found = names(&self.data.join("layers").join(workspace.hex()))?;
        Ok(found.iter().filter_map(|name| format!("{}_{name}", LayerId::PREFIX).parse().ok()).collect())
    }

    /// The projects of a workspace that have an installer cache.
    pub fn caches(&self, workspace: WorkspaceId) -> Result<Vec<ProjectId>, LayoutError> {
        let found = names(&self.data.join("caches").join(workspace.hex()))?;
        Ok(found.iter().filter_map(|name| format!("{}_{name}", ProjectId::PREFIX).parse().ok()).collect())
    }

    /// What a project's installer cache takes on disk, in bytes. A build may be writing it: what comes or goes meanwhile
    /// counts or does not.
    pub fn cache_bytes(&self, workspace: WorkspaceId, project: ProjectId) -> u64 {
        cache::bytes(&self.cache(workspace, project))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_ids_are_found() {
        let scratch = tempfile::tempdir().unwrap();
        let layout = Layout::new(scratch.path());
        let hex = "018f3c2a7b4c7d3e9f6a5b4c3d2e1f0";
        let workspace: WorkspaceId = format!("{}_{hex}0", WorkspaceId::PREFIX).parse().unwrap();
        let project = |last: u8| format!("{}_{hex}{last}", ProjectId::PREFIX).parse::<ProjectId>().unwrap();
        let (project, nobody) = (project(1), project(2));
        let layer: LayerId = format!("{}_{hex}3", LayerId::PREFIX).parse().unwrap();
        assert_eq!(layout.layers(workspace).unwrap(), []);
        fs::create_dir_all(layout.version_source(workspace, project, 7)).unwrap();
        fs::create_dir_all(layout.project(workspace, project).join("versions/lost+found")).unwrap();
        fs::create_dir_all(layout.layer_tree(workspace, layer)).unwrap();
        fs::create_dir_all(layout.layer(workspace, layer).with_file_name("other")).unwrap();
        fs::create_dir_all(layout.cache(workspace, project).join("pip")).unwrap();
        fs::write(layout.cache(workspace, project).join("pip/wheel"), [1; 10_000]).unwrap();
        assert_eq!(layout.versions(workspace, project).unwrap(), [7]);
        assert_eq!(layout.layers(workspace).unwrap(), [layer]);
        assert_eq!(layout.caches(workspace).unwrap(), [project]);
        assert!((10_000..100_000).contains(&layout.cache_bytes(workspace, project)));
        (0..100).for_each(|n| fs::create_dir(layout.cache(workspace, project).join(n.to_string())).unwrap());
        assert!(layout.cache_bytes(workspace, project) >= 400_000, "directories are not free");
        assert_eq!(layout.cache_bytes(workspace, nobody), 0);
    }
}
