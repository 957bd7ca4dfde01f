//! Projects as objects.

use std::fmt::Write as _;

use serde_json::Map;

use super::super::network::shown;
use super::declare::{Declare, unserved};
use super::{Context, find};
use crate::client::{Answer, Anything, Environment, Environments, Failure, Runtimes, Versions, segment};
use crate::console::{count, instant, note, print, printable, size, table};

/// Every project of the workspace.
pub(super) async fn all(context: &Context) -> Result<Answer<Environments>, Failure> {
    context.client.get::<Environments>("/v1/environments").await
}

pub(super) async fn create(
    context: &Context,
    name: &str,
    description: &str,
    entry: &str,
    declare: &Declare,
) -> Result<(), Failure> {
    let mut body = Map::new();
    for (field, text) in [("name", name), ("description", description), ("entry", entry)] {
        body.insert(field.to_owned(), text.into());
    }
    declare.write(&mut body)?;
    let made = context.client.post_json::<Environment>("/v1/environments", &body).await?;
    if !context.console.json {
        note(&format!("made {}, which sessions will see at {}", made.value.slug, made.value.mount));
    }
    warn_of_python(&made.value, lacks(context, &made.value).await.as_deref());
    context.console.show(&made.json, || format!("{}\n", made.value.id))
}

/// Changes the texts that are given, and what is declared.
pub(super) async fn set(
    context: &Context,
    project: &str,
    texts: [(&str, Option<String>); 3],
    declare: &Declare,
) -> Result<(), Failure> {
    if declare.is_empty() && texts.iter().all(|(_, text)| text.is_none()) {
        return Err(Failure::usage("name at least one thing to change; --help lists them"));
    }
    let project = find(context, project).await?;
    // The protocol wants the name with every change.
    let mut body = Map::from_iter([("name".to_owned(), project.name.clone().into())]);
    body.extend(texts.into_iter().filter_map(|(field, text)| Some((field.to_owned(), text?.into()))));
    declare.write(&mut body)?;
    let path = format!("/v1/environments/{}", segment(&project.id));
    let set = context.client.put_json::<Environment>(&path, &body).await;
    let set = set.map_err(|failure| failure.about(&project.slug))?;
    let lacks = lacks(context, &set.value).await;
    if declare.names_python() {
        warn_of_python(&set.value, lacks.as_deref());
    }
    context.console.show(&set.json, || described(&set.value, lacks.as_deref()))
}

/// What the server lacks of the interpreter that a project asks for. Nothing is said when it cannot be asked.
async fn lacks(context: &Context, project: &Environment) -> Option<String> {
    let minor = &project.runtime.python;
    if minor.is_empty() {
        return None;
    }
    let server = context.client.get::<Runtimes>("/v1/environments/runtimes").await.ok()?;
    unserved(minor, &server.value)
}

/// Says of an interpreter that was just declared when builds will not have it.
fn warn_of_python(project: &Environment, lacks: Option<&str>) {
    if let Some(lacks) = lacks {
        note(&format!("warning: Python {} is declared, but {lacks}", printable(&project.runtime.python)));
    }
}

pub(super) async fn list(context: &Context) -> Result<(), Failure> {
    let list = all(context).await?;
    context.console.show(&list.json, || {
        let row = |project: &Environment| {
            let active = project.version.map_or_else(|| "-".to_owned(), |version| version.to_string());
            let files = format!("{} ({})", project.files.count, size(project.files.bytes));
            vec![project.slug.clone(), project.name.clone(), project.status.clone(), active, files, project.id.clone()]
        };
        let rows: Vec<_> = list.value.environments.iter().map(row).collect();
        table(&["SLUG", "NAME", "STATUS", "ACTIVE", "FILES", "ID"], &rows)
    })
}

pub(super) async fn show(context: &Context, project: &str) -> Result<(), Failure> {
    let found = find(context, project).await?;
    let path = format!("/v1/environments/{}", segment(&found.id));
    let project = context.client.get::<Environment>(&path).await?;
    let lacks = lacks(context, &project.value).await;
    context.console.show(&project.json, || described(&project.value, lacks.as_deref()))
}

/// A project, and what the server lacks of the interpreter that it asks for.
fn described(project: &Environment, lacks: Option<&str>) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{label:<13}{}", printable(value));
        }
    };
    line("id", &project.id);
    line("name", &project.name);
    line("description", &project.description);
    line("entry", &project.entry);
    line("mount", &project.mount);
    line("status", &project.status);
    line("active", &project.version.map(|version| version.to_string()).unwrap_or_default());
    line("source", &format!("{}, {}", count(project.files.count, "file"), size(project.files.bytes)));
    if let Some(build) = &project.build {
        let state =
            if build.stage.is_empty() { build.status.clone() } else { format!("{}: {}", build.status, build.stage) };
        line("latest build", &format!("{} ({state})", build.version));
        line("error", &build.error);
    }
    let declared = &project.declared;
    for (manager, specs) in [("pip", &declared.pip), ("npm", &declared.npm), ("apt", &declared.apt)] {
        for item in specs {
            line("declared", &format!("{manager} {}", item.spec));
        }
    }
    let python = &project.runtime.python;
    line("python", &lacks.map_or_else(|| python.clone(), |lacks| format!("{python} ({lacks})")));
    line("network", &shown(&project.stead_build_network));
    for package in &project.packages {
        line("package", &format!("{} {} {}", package.manager, package.name, package.version));
    }
    text
}

pub(super) async fn versions(context: &Context, project: &str) -> Result<(), Failure> {
    let project = find(context, project).await?;
    let path = format!("/v1/environments/{}/versions", segment(&project.id));
    let list = context.client.get::<Versions>(&path).await?;
    context.console.show(&list.json, || {
        let rows: Vec<_> = list
            .value
            .versions
            .iter()
            .map(|version| {
                let active = if list.value.active == Some(version.version) { "*" } else { "" };
                let count = version.packages.map_or_else(|| "-".to_owned(), |packages| packages.to_string());
                let bytes = version.bytes.map_or_else(|| "-".to_owned(), size);
                vec![
                    active.to_owned(),
                    version.version.to_string(),
                    version.status.clone(),
                    instant(version.started_at),
                    instant(version.finished_at),
                    count,
                    bytes,
                    match version.stead_removed_at {
                        Some(_) => "its files were removed".to_owned(),
                        None => version.error.clone(),
                    },
                ]
            })
            .collect();
        table(&["", "VERSION", "STATUS", "STARTED", "FINISHED", "PACKAGES", "SIZE", "ERROR"], &rows)
    })
}

pub(super) async fn activate(context: &Context, project: &str, version: u32) -> Result<(), Failure> {
    let project = find(context, project).await?;
    let path = format!("/v1/environments/{}/versions/{version}/activate", segment(&project.id));
    let answer = context.client.post::<Environment>(&path).await.map_err(|failure| {
        let failure = failure.about(&project.slug);
        if failure.is_not_found() {
            failure.said(format!("{} has no version {version}", project.slug))
        } else {
            failure
        }
    })?;
    if context.console.json {
        return context.console.show(&answer.json, String::new);
    }
    note(&format!("new sessions read version {version} of {}", answer.value.slug));
    Ok(())
}

pub(super) async fn delete(context: &Context, project: &str) -> Result<(), Failure> {
    let project = find(context, project).await?;
    let answer = context.client.delete::<Anything>(&format!("/v1/environments/{}", segment(&project.id))).await;
    let answer = answer.map_err(|failure| failure.about(&project.slug))?;
    if context.console.json {
        return print(&format!("{:#}\n", answer.json));
    }
    note(&format!("deleted {}", project.slug));
    Ok(())
}
