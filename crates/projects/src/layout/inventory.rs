//! What lies on disk, for whoever compares it with the rows. Names that are no ids are nobody's and left alone.

use stead_domain::{LayerId, ProjectId, WorkspaceId};

use super::{Layout, LayoutError, names};

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
        let project: ProjectId = format!("{}_{hex}1", ProjectId::PREFIX).parse().unwrap();
        let layer: LayerId = format!("{}_{hex}3", LayerId::PREFIX).parse().unwrap();
        assert_eq!(layout.layers(workspace).unwrap(), []);
        fs::create_dir_all(layout.version_source(workspace, project, 7)).unwrap();
        fs::create_dir_all(layout.project(workspace, project).join("versions/lost+found")).unwrap();
        fs::create_dir_all(layout.layer_tree(workspace, layer)).unwrap();
        fs::create_dir_all(layout.layer(workspace, layer).with_file_name("other")).unwrap();
        assert_eq!(layout.versions(workspace, project).unwrap(), [7]);
        assert_eq!(layout.layers(workspace).unwrap(), [layer]);
    }
}
