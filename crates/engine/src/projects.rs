//! Projects: made, described, deleted.

use stead_domain::build::Build;
use stead_domain::changes::Changes;
use stead_domain::declared::{Declared, PackageManager};
use stead_domain::key::Caller;
use stead_domain::network::BuildNetworkPolicy;
use stead_domain::project::{Project, ProjectStatus};
use stead_domain::source::TreeSize;
use stead_domain::{Code, Error, ProjectId, Result, Slug};

use crate::commit::store_failed;
use crate::engine::Engine;

/// A project with the builds that its status and its versions are derived from.
#[derive(Debug, Clone)]
pub struct ProjectView {
    /// The project.
    pub project: Project,
    /// Its builds, oldest first; in lists the latest and the active one alone.
    pub builds: Vec<Build>,
    /// Its status, derived.
    pub status: ProjectStatus,
}

impl ProjectView {
    fn new(project: Project, builds: Vec<Build>) -> Self {
        let status = project.status(builds.iter().find(|build| build.number == project.latest));
        Self { project, builds, status }
    }

    /// The newest build, active or not.
    pub fn latest(&self) -> Option<&Build> {
        self.builds.iter().find(|build| build.number == self.project.latest)
    }

    /// The build that the next session reads.
    pub fn active(&self) -> Option<&Build> {
        self.builds.iter().find(|build| Some(build.number) == self.project.active)
    }
}

/// What a caller says about a project; an absent field keeps what is there.
#[derive(Debug, Clone, Default)]
pub struct ProjectText {
    /// A label for people; the slug is derived from it at creation.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// How to run it.
    pub entry: Option<String>,
    /// Packages besides the manifests, a list per manager; a list that is given replaces the one that is there.
    pub packages: Vec<(PackageManager, Vec<String>)>,
    /// The minor of the Python interpreter; empty for the default.
    pub python: Option<String>,
    /// What builds may reach; within what the deployment lets projects choose, and its default when there is none.
    pub build_network: Option<Option<BuildNetworkPolicy>>,
}

impl ProjectText {
    /// What is declared, over what was declared before. What does not fit is refused by name.
    fn declare(&self, mut declared: Declared) -> Result<Declared> {
        for (manager, specs) in &self.packages {
            let read = Declared::read(*manager, specs)?;
            match manager {
                PackageManager::Pip => declared.pip = read,
                PackageManager::Npm => declared.npm = read,
                PackageManager::Apt => declared.apt = read,
            }
        }
        if let Some(python) = &self.python {
            declared.python = Declared::read_python(python)?;
        }
        Ok(declared)
    }
}

pub(crate) fn project_not_found() -> Error {
    Error::new(Code::ProjectNotFound, "there is no such project")
}

impl Engine {
    /// A project that exists and is not deleted.
    pub(crate) async fn live_project(&self, caller: &Caller, id: ProjectId) -> Result<Project> {
        let project = self.store.project_fetch(caller.workspace_id, id).await.map_err(store_failed)?;
        project.filter(|project| project.deleted_at.is_none()).ok_or_else(project_not_found)
    }

    /// A build of a project, if there is one of that number.
    pub(crate) async fn build_of(&self, project: &Project, number: u32) -> Result<Option<Build>> {
        if number == 0 || number > project.latest {
            return Ok(None);
        }
        self.store.build_fetch(project.id, number).await.map_err(store_failed)
    }

    /// Makes a project. Its place, `/env/<slug>`, must be free: two projects cannot be in it (UHP Environments §2).
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn project_create(&self, caller: &Caller, text: ProjectText) -> Result<ProjectView> {
        let (description, entry) =
            (text.description.clone().unwrap_or_default(), text.entry.clone().unwrap_or_default());
        Project::check_texts(&text.name, &description, &entry)?;
        let slug = Slug::from_name(&text.name)?;
        let declared = text.declare(Declared::default())?;
        self.check_networks(&text)?;
        let build_network = text.build_network.clone().flatten();
        let at = self.now();
        let project = Project {
            id: ProjectId::new(self.ids.as_ref()),
            workspace_id: caller.workspace_id,
            name: text.name.trim().to_owned(),
            slug,
            description,
            entry,
            declared,
            build_network,
            active: None,
            latest: 0,
            source: TreeSize::default(),
            source_revision: 0,
            created_at: at,
            updated_at: at,
            deleted_at: None,
            row_version: 1,
        };
        self.decide(|| async {
            let occupant =
                self.store.project_by_slug(caller.workspace_id, &project.slug).await.map_err(store_failed)?;
            if occupant.is_some() {
                let message = format!("another project already occupies `{}`", project.slug.mount());
                return Err(Error::new(Code::ProjectExists, message).at("name"));
            }
            self.require_project_room(caller.workspace_id).await?;
            Ok((Changes::new().insert(project.clone()), ()))
        })
        .await?;
        Ok(ProjectView::new(project, Vec::new()))
    }

    /// The projects of the caller's workspace, oldest first.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn project_list(&self, caller: &Caller) -> Result<Vec<ProjectView>> {
        let rows = self.store.projects_list(caller.workspace_id).await.map_err(store_failed)?;
        let mut views = Vec::with_capacity(rows.len());
        for (project, latest) in rows {
            let mut builds: Vec<Build> = latest.into_iter().collect();
            if let Some(active) = project.active
                && active != project.latest
                && let Some(build) = self.build_of(&project, active).await?
            {
                builds.insert(0, build);
            }
            views.push(ProjectView::new(project, builds));
        }
        Ok(views)
    }

    /// One project with all its builds.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn project_get(&self, caller: &Caller, id: ProjectId) -> Result<ProjectView> {
        let project = self.live_project(caller, id).await?;
        let builds = self.store.builds_list(id).await.map_err(store_failed)?;
        Ok(ProjectView::new(project, builds))
    }

    /// Renames and describes; the slug and the mount stay.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn project_update(&self, caller: &Caller, id: ProjectId, text: ProjectText) -> Result<ProjectView> {
        Slug::check_name(&text.name)?;
        self.decide(|| async {
            let mut project = self.live_project(caller, id).await?;
            text.name.trim().clone_into(&mut project.name);
            if let Some(description) = &text.description {
                project.description.clone_from(description);
            }
            if let Some(entry) = &text.entry {
                project.entry.clone_from(entry);
            }
            Project::check_texts(&project.name, &project.description, &project.entry)?;
            project.declared = text.declare(project.declared)?;
            self.check_networks(&text)?;
            if let Some(network) = &text.build_network {
                project.build_network.clone_from(network);
            }
            project.updated_at = self.now();
            Ok((Changes::new().update(project), ()))
        })
        .await?;
        self.project_get(caller, id).await
    }

    /// Refuses what is said of what builds may reach where it goes beyond what the deployment lets projects choose.
    fn check_networks(&self, text: &ProjectText) -> Result<()> {
        text.build_network.iter().flatten().try_for_each(|network| self.check_build_network(network))
    }

    /// Deletes a project with every version. From the answer on it is not found. A turn that reads a version keeps it to its end;
    /// what is left goes after that.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn project_delete(&self, caller: &Caller, id: ProjectId) -> Result<()> {
        self.decide(|| async {
            let project = self.live_project(caller, id).await?;
            let latest = self.build_of(&project, project.latest).await?;
            let deleted = project.delete(latest.as_ref(), self.now())?;
            Ok((Changes::new().update(deleted), ()))
        })
        .await?;
        self.faults.point("project.deleted");
        self.purge_project(caller.workspace_id, id);
        Ok(())
    }

    /// The agents that name the project, so that its owner sees what a rebuild will reach.
    #[tracing::instrument(skip_all, target = "stead::use_case")]
    pub async fn project_agents(&self, caller: &Caller, id: ProjectId) -> Result<Vec<stead_domain::agent::Agent>> {
        self.live_project(caller, id).await?;
        self.store.agents_of_project(caller.workspace_id, id).await.map_err(store_failed)
    }
}
