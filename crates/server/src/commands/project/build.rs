//! Builds.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use stead_face_stead::wire::Build;

use super::{Context, find};
use crate::client::{Answer, Environment, Failure, follow_build_log, segment};
use crate::console::{note, print_bytes, print_error_bytes, printable};

/// How often the stage is looked at while the log is silent or not.
const LOOK: Duration = Duration::from_millis(400);

/// The exit status after Ctrl-C, as shells have it.
const INTERRUPTED_HERE: u8 = 130;

pub(super) async fn build(context: &Context, project: &str, fresh: bool, no_wait: bool) -> Result<(), Failure> {
    let project = find(context, project).await?;
    let query = if fresh { "?fresh=1" } else { "" };
    let path = format!("/stead/v1/projects/{}/build{query}", segment(&project.id));
    let started = context.client.post::<Build>(&path).await.map_err(|failure| refused(failure, &project))?;
    let number = started.value.version;
    if no_wait {
        return context.console.show(&shown(started.json), || format!("{number}\n"));
    }
    let slug = &project.slug;
    note(&format!("build {number} of {slug} has started"));
    let ended = tokio::select! {
        ended = follow(context, &project, number, context.console.json, true) => ended?,
        signal = tokio::signal::ctrl_c() => {
            signal.map_err(|error| Failure::io("wait for signals", &error))?;
            note(&format!(
                "build {number} goes on: `stead project log {slug}` follows it, `stead project cancel {slug}` ends it"
            ));
            return Err(Failure::silent(INTERRUPTED_HERE));
        }
    };
    if context.console.json {
        context.console.show(&shown(ended.json), String::new)?;
    }
    verdict(&project, &ended.value)
}

/// Why no build begins.
fn refused(failure: Failure, project: &Environment) -> Failure {
    let slug = &project.slug;
    if failure.code() == "project_invalid" && project.files.count == 0 {
        return failure
            .said(format!("{slug} has no files yet"))
            .hint(format!("`stead project import {slug} DIRECTORY` gives it some"));
    }
    failure.about(slug)
}

/// A build with the word that versions have for how it stands.
fn shown(mut build: Value) -> Value {
    if let Some(members) = build.as_object_mut()
        && let Some(state) = members.remove("state")
    {
        let status = if matches!(state.as_str(), Some("waiting" | "running")) { "building".into() } else { state };
        members.insert("status".to_owned(), status);
    }
    build
}

pub(super) async fn remove(context: &Context, project: &str, version: u32) -> Result<(), Failure> {
    let project = find(context, project).await?;
    let path = format!("/stead/v1/projects/{}/versions/{version}", segment(&project.id));
    let removed = context.client.delete::<Build>(&path).await.map_err(|failure| failure.about(&project.slug))?;
    if context.console.json {
        return context.console.show(&shown(removed.json), String::new);
    }
    note(&format!("the files of version {version} of {} are gone", project.slug));
    Ok(())
}

pub(super) async fn log(context: &Context, project: &str, version: Option<u32>) -> Result<(), Failure> {
    let project = find(context, project).await?;
    let number = number(&project, version)?;
    let mut log = Vec::new();
    if context.console.json {
        let ended = follow_into(context, &project, number, false, |bytes| {
            log.extend_from_slice(bytes);
            Ok(())
        })
        .await
        .map_err(|failure| failure.about(&project.slug))?;
        let mut json = shown(ended.json);
        json["log"] = String::from_utf8_lossy(&log).into();
        return context.console.show(&json, String::new);
    }
    follow(context, &project, number, false, false).await.map(drop).map_err(|failure| failure.about(&project.slug))
}

pub(super) async fn cancel(context: &Context, project: &str, version: Option<u32>) -> Result<(), Failure> {
    let project = find(context, project).await?;
    let number = number(&project, version)?;
    let record = format!("/stead/v1/projects/{}/builds/{number}", segment(&project.id));
    let about = |failure: Failure| failure.about(&project.slug);
    let before = context.client.get::<Build>(&record).await.map_err(about)?;
    let answer = context.client.post::<Build>(&format!("{record}/cancel")).await.map_err(about)?;
    if context.console.json {
        return context.console.show(&shown(answer.json), String::new);
    }
    if before.value.is_ended() {
        let state = printable(&before.value.state);
        note(&format!("build {number} of {} had ended already, as {state}: nothing was cancelled", project.slug));
        return Ok(());
    }
    let state = if answer.value.is_ended() { answer.value.state.as_str() } else { "being cancelled" };
    note(&format!("build {number} of {} is {state}", project.slug));
    Ok(())
}

fn number(project: &Environment, version: Option<u32>) -> Result<u32, Failure> {
    let latest = || project.build.as_ref().map(|build| build.version).or(project.latest_version);
    version.or_else(latest).filter(|&number| number > 0).ok_or_else(|| {
        Failure::new(format!("{} has never been built", project.slug))
            .hint(format!("`stead project build {}` builds it", project.slug))
    })
}

fn verdict(project: &Environment, build: &Build) -> Result<(), Failure> {
    let (number, slug) = (build.version, &project.slug);
    if build.state == "ready" {
        note(&format!("build {number} of {slug} is ready; new sessions read it at {}", project.mount));
        return Ok(());
    }
    let why = build.error.as_deref().unwrap_or("the server gives no reason");
    let active = match project.version {
        Some(active) => format!("version {active} stays active"),
        None => "no version is active yet, so nothing can read it".to_owned(),
    };
    let hint = match reaching(&project.stead_build_network, build) {
        Some(options) => {
            format!("`stead project set {slug} {options}` lets its builds reach what this one was refused")
        }
        None => format!("`stead project log {slug} {number}` shows the log again"),
    };
    Err(Failure::new(format!("build {number} of {slug} failed: {}", printable(why)))
        .coded("build_failed")
        .hint(format!("{active}; {hint}")))
}

/// The options that let a project's builds reach what they reach now, and what the build was refused.
fn reaching(now: &Value, build: &Build) -> Option<String> {
    let refused = build.refused_hosts.iter().map(String::as_str);
    let kept = now["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let hosts: BTreeSet<&str> = refused.chain(kept).collect();
    let options: Vec<String> = hosts.iter().map(|host| format!("--build-host {}", printable(host))).collect();
    (!build.refused_hosts.is_empty()).then(|| options.join(" "))
}

/// Prints the log until the build has ended.
async fn follow(
    context: &Context,
    project: &Environment,
    number: u32,
    log_is_no_data: bool,
    stages: bool,
) -> Result<Answer<Build>, Failure> {
    follow_into(context, project, number, stages, |bytes| {
        if log_is_no_data {
            print_error_bytes(bytes);
            Ok(())
        } else {
            print_bytes(bytes)
        }
    })
    .await
}

/// Gives the log to `take` until the build has ended, and says on standard error which stage it is in.
async fn follow_into(
    context: &Context,
    project: &Environment,
    number: u32,
    stages: bool,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<Answer<Build>, Failure> {
    let record = format!("/stead/v1/projects/{}/builds/{number}", segment(&project.id));
    let mut from = 0;
    let mut stage = String::new();
    loop {
        let log = follow_build_log(&context.client, &project.id, number, from, &mut take);
        tokio::pin!(log);
        let mut ticks = tokio::time::interval(LOOK);
        from = loop {
            tokio::select! {
                offset = &mut log => break offset?,
                _ = ticks.tick(), if stages => {
                    // The log says whether the server is there; a look that fails is made again.
                    if let Ok(build) = context.client.get::<Build>(&record).await
                        && build.value.stage != stage
                    {
                        stage.clone_from(&build.value.stage);
                        if !stage.is_empty() {
                            note(&format!("==> {}", printable(&stage)));
                        }
                    }
                }
            }
        };
        let build = context.client.get::<Build>(&record).await;
        match build {
            Ok(build) if build.value.is_ended() => return Ok(build),
            Ok(_) => {}
            Err(failure) if failure.may_pass() => {}
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(LOOK).await;
    }
}
