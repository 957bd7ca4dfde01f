//! Every object that the face writes, made of domain rows and held against the schema.

use std::time::Duration;

use serde_json::{Value, json};
use stead_domain::attachment::Pin;
use stead_domain::build::{Base, Build, BuildEvent, BuildFailure, BuildState, Package, Stage, Version};
use stead_domain::item::Item;
use stead_domain::lease::Lease;
use stead_domain::limit::Limit;
use stead_domain::project::Project;
use stead_domain::source::TreeSize;
use stead_domain::turn::{ExcessFile, ExitStatus, Turn, TurnFailure, TurnState};
use stead_domain::{Code, ServerId};
use stead_engine::{ImportReport, ProjectView, SkippedMember, TurnView};
use stead_face_uhp::wire::discovery::Discovery;
use stead_face_uhp::wire::environment::{
    BuildRecord, Environment, EnvironmentList, EnvironmentWrite, FileTree, ImportResult, VersionList,
};
use stead_face_uhp::wire::file::{File, FileList};
use stead_face_uhp::wire::harness::{Harness, HarnessList, HarnessWrite};
use stead_face_uhp::wire::ids;
use stead_face_uhp::wire::model::{HarnessModels, ModelCatalog};
use stead_face_uhp::wire::response::Response;
use stead_face_uhp::wire::session::{Session, SessionList, TurnItem};
use stead_testkit::Samples;
use stead_testkit::samples::{source_directory, source_file};

use crate::schema::conforms;

#[test]
fn discovery_promises_the_class_that_its_capabilities_allow() {
    let body = conforms("Discovery", &Discovery::current());
    assert_eq!(body["versions"], json!([body["default_version"], "2026-09-12", "2026-08-11"]));
    for capability in ["streaming", "sessions", "cancellation", "files_input", "files_output", "session_listing"] {
        assert_eq!(body["capabilities"][capability], json!(true), "{capability}");
    }
    assert_eq!((&body["conformance_class"], &body["capabilities"]["environments"]), (&json!("extended"), &json!(true)));
}

#[test]
fn a_harness_that_is_read_can_be_written_back() {
    let samples = Samples::new(1);
    let project = samples.project("Demo");
    let mut agent = samples.agent();
    let bare = conforms("Harness", &Harness::from(agent.clone()));
    assert_eq!(
        (&bare["environment"], &bare["maxStep"], &bare["timeoutSeconds"]),
        (&json!(""), &json!(null), &json!(null))
    );
    assert_eq!(bare["createdAt"], json!(agent.created_at.as_millis()));

    agent.project_id = Some(project.id);
    agent.max_step = Some(5);
    agent.time_limit = Some(Duration::from_mins(1));
    agent.disabled_tools = vec!["web".into()];
    agent.default_model = Some("shell".into());
    let body = conforms("Harness", &Harness::from(agent.clone()));
    conforms("HarnessCreate", &body);
    let write: HarnessWrite = serde_json::from_value(body).unwrap();
    write.check().unwrap();
    let text = write.into_text().unwrap();
    assert_eq!(text.project_id, Some(Some(project.id)));
    assert_eq!((text.max_step, text.time_limit), (Some(Some(5)), Some(Some(Duration::from_mins(1)))));
    assert_eq!((text.instructions.as_deref(), text.disabled_tools), (Some("be brief"), Some(vec!["web".to_owned()])));

    let snake = json!({"base": "shell", "system_prompt": "s", "max_step": null, "environment": "", "mcp_servers": []});
    let write: HarnessWrite = serde_json::from_value(snake).unwrap();
    write.check().unwrap();
    let text = write.into_text().unwrap();
    assert_eq!((text.max_step, text.project_id, text.time_limit), (Some(None), Some(None), None));
    let list = HarnessList { harnesses: vec![Harness::from(agent)] };
    assert!(serde_json::to_value(list).unwrap()["harnesses"].is_array());
}

#[test]
fn what_a_harness_cannot_have_is_refused_by_name() {
    for (body, param, code) in [
        (json!({"skills": [{"name": "s"}]}), "skills", Code::Unsupported),
        (json!({"mcpServers": [{}]}), "mcp_servers", Code::Unsupported),
        (json!({"plugins": [{}]}), "plugins", Code::Unsupported),
        (json!({"max_step": 0}), "max_step", Code::InvalidInput),
        (json!({"timeoutSeconds": 0}), "timeout_seconds", Code::InvalidInput),
    ] {
        let error = serde_json::from_value::<HarnessWrite>(body).unwrap().check().unwrap_err();
        assert_eq!((error.param.as_deref(), error.code), (Some(param), code));
    }
    let unknown: HarnessWrite = serde_json::from_value(json!({"environment": "henv_1"})).unwrap();
    let error = unknown.into_text().unwrap_err();
    assert_eq!((error.code, error.param.as_deref()), (Code::ProjectNotFound, Some("environment")));
}

#[test]
fn models_answer_two_protocols() {
    let body = conforms("ModelCatalog", &ModelCatalog::current());
    assert_eq!((&body["object"], &body["data"][0]["id"]), (&json!("list"), &json!("shell")));
    assert_eq!(body["backends"]["shell"]["models"][0]["available"], json!(true));
    let agent = Samples::new(1).agent();
    let body = conforms("HarnessModels", &HarnessModels::of(agent.id, agent.harness));
    assert_eq!(body["harness_id"], json!(ids::harness(agent.id)));
}

fn view(state: TurnState) -> TurnView {
    let samples = Samples::new(7);
    let agent = samples.agent();
    let mut session = samples.session(&agent);
    let turn = Turn { state, ..samples.turn(&mut session, &agent) };
    TurnView { turn, session, artifacts: Vec::new() }
}

#[test]
fn every_state_of_a_turn_is_a_response() {
    for state in TurnState::ALL {
        let mut view = view(state);
        view.turn.outcome.failure =
            (state == TurnState::Failed).then(|| TurnFailure::limit(Limit::Memory, "out of memory"));
        let body = conforms("Response", &Response::of(&view));
        let status = body["status"].as_str().unwrap();
        let expected = match state {
            TurnState::Queued | TurnState::InProgress | TurnState::Cancelling => "in_progress",
            TurnState::Completed => "completed",
            TurnState::Failed | TurnState::Interrupted => "failed",
            TurnState::Cancelled => "cancelled",
            TurnState::BudgetReached => "incomplete",
        };
        assert_eq!(status, expected);
        assert_eq!(body["error"].is_object(), status == "failed", "{state:?}");
        assert_eq!(body["incomplete_details"].is_object(), status == "incomplete");
        assert!(body.as_object().unwrap().contains_key("usage") && body["usage"].is_null());
        assert!(body["metadata"].get("ignored_fields").is_none());
        if body["error"].is_object() {
            conforms("Error", &body["error"]);
        }
        conforms("TurnItem", &TurnItem::from(view.clone()));
        conforms("Session", &Session::from(view.session));
    }
}

#[test]
fn a_response_says_what_the_turn_read_left_and_did_not_do() {
    let samples = Samples::new(9);
    let mut view = view(TurnState::Completed);
    let project = samples.project("Demo");
    view.turn.reads = Some(Pin { project_id: project.id, version: 3 });
    view.session.project_id = Some(project.id);
    view.turn.requested_model = Some("gpt-9".into());
    view.turn.ignored_fields = vec!["include".into(), "tools".into()];
    view.turn.outcome.items = vec![Item::Message { id: "1".into(), text: "héllo".into(), complete: true }];
    view.turn.outcome.exit = Some(ExitStatus::Code(2));
    view.turn.outcome.excess = vec![ExcessFile { path: "big".into(), reason: "too large".into() }];
    view.artifacts = vec![samples.artifact(&view.turn, "out/a.txt")];
    let body = conforms("Response", &Response::of(&view));
    let metadata = &body["metadata"];
    assert_eq!(metadata["environment"], json!(project.id));
    assert_eq!(metadata["environment_version"], json!(3));
    assert_eq!(metadata["harness_id"], json!(ids::harness(view.turn.agent_id)));
    assert_eq!((&metadata["requested_model"], &metadata["model_fallback"]), (&json!("gpt-9"), &json!(true)));
    assert_eq!((&metadata["stead_exit_status"], &body["model"]), (&json!(2), &json!("shell")));
    assert_eq!(metadata["stead_artifacts_excess"][0]["path"], json!("big"));
    let annotation = conforms("Annotation", &body["output"][0]["content"][0]["annotations"][0]);
    assert_eq!((&annotation["start_index"], &annotation["filename"]), (&json!(5), &json!("out/a.txt")));
    let file = conforms("File", &File::from(&view.artifacts[0]));
    assert_eq!((&file["container_id"], &file["id"]), (&annotation["container_id"], &annotation["file_id"]));
    assert_eq!(conforms("Session", &Session::from(view.session.clone()))["environment"], json!(project.id));
    let turn = conforms("TurnItem", &TurnItem::from(view.clone()));
    assert_eq!((&turn["assistant"], &turn["environment_version"]), (&json!("héllo"), &json!(3)));
    assert_eq!(turn["files"].as_array().unwrap().len(), 1);

    view.turn.requested_model = Some("shell".into());
    assert!(serde_json::to_value(Response::of(&view)).unwrap()["metadata"].get("model_fallback").is_none());
}

#[test]
fn lists_and_files() {
    let view = view(TurnState::Completed);
    let sessions = vec![Session::from(view.session)];
    let body = conforms("SessionList", &SessionList { sessions, next_cursor: None });
    assert!(body["next_cursor"].is_null());
    let samples = Samples::new(2);
    let upload = samples.upload();
    let body = conforms("File", &File::upload(upload.clone(), upload.id.to_string()));
    assert_eq!((&body["bytes"], &body["purpose"], &body["object"]), (&json!(12), &json!("user_data"), &json!("file")));
    assert_eq!(serde_json::to_value(FileList { files: vec![] }).unwrap(), json!({"files": []}));
}

fn ended(build: Build, samples: &Samples, event: BuildEvent) -> Build {
    let lease = Lease { holder: ServerId::new(&samples.ids), until: samples.at.plus(Duration::from_secs(9)) };
    build.transition(BuildEvent::Claimed(lease), samples.at).unwrap().transition(event, samples.at).unwrap()
}

fn version() -> Version {
    Version {
        base: Base { id: "b".into(), description: "b".into() },
        layers: vec![],
        packages: vec![Package { manager: "pip".into(), name: "six".into(), version: "1.17.0".into() }],
        source: TreeSize { files: 1, bytes: 2 },
        size: TreeSize { files: 10, bytes: 20 },
        removed_at: None,
    }
}

fn project_view(project: Project, builds: Vec<Build>) -> ProjectView {
    let status = project.status(builds.last());
    ProjectView { project, builds, status }
}

#[test]
fn a_version_whose_files_were_removed_is_listed_as_unknown() {
    let samples = Samples::new(3);
    let (project, build) = samples.build(samples.project("p"), "node");
    let removed = ended(build, &samples, BuildEvent::Succeeded(version())).remove_version(samples.at).unwrap();
    let view = project_view(project, vec![removed.clone()]);
    let versions = serde_json::to_value(VersionList::from(view)).unwrap();
    let entry = conforms("EnvironmentVersion", &versions["versions"][0]);
    assert_eq!(entry["status"], "unknown");
    let record = conforms("EnvironmentBuild", &BuildRecord::of(removed, None));
    assert_eq!(record["status"], "ready");
    for shown in [entry, record] {
        assert_eq!((&shown["error"], &shown["stead_removed_at"]), (&json!(""), &json!(samples.at.as_seconds())));
    }
}

#[test]
fn an_environment_through_its_life() {
    let samples = Samples::new(3);
    let project = samples.project("Content Studio");
    let body = conforms("Environment", &Environment::whole(project_view(project.clone(), vec![])));
    assert_eq!((&body["status"], &body["version"], &body["build"]), (&json!("empty"), &json!(null), &json!(null)));
    assert_eq!((&body["mount"], &body["latestVersion"]), (&json!("/env/content-studio"), &json!(null)));
    assert_eq!(body["createdAt"], json!(project.created_at.as_millis()));

    let (building, build) = samples.build(project, "node");
    let waiting = conforms("EnvironmentBuild", &BuildRecord::of(build.clone(), None));
    assert_eq!(
        (&waiting["status"], &waiting["stage"], &waiting["version"]),
        (&json!("building"), &json!("waiting"), &json!(1))
    );
    let body = conforms("Environment", &Environment::whole(project_view(building.clone(), vec![build.clone()])));
    assert_eq!((&body["status"], &body["build"]["status"]), (&json!("building"), &json!("building")));

    let failed = ended(build.clone(), &samples, BuildEvent::Failed(BuildFailure::cancelled()));
    let record = conforms("EnvironmentBuild", &BuildRecord::of(failed.clone(), Some("log".into())));
    assert_eq!(
        (&record["status"], &record["stage"], &record["error"]),
        (&json!("failed"), &json!(""), &json!("cancelled"))
    );
    let body = conforms("Environment", &Environment::whole(project_view(building.clone(), vec![failed])));
    assert_eq!((&body["status"], &body["latestVersion"]), (&json!("failed"), &json!(1)));

    let ready = ended(build, &samples, BuildEvent::Succeeded(version()));
    assert_eq!((ready.state, ready.stage), (BuildState::Ready, Stage::Waiting));
    let active = building.activate(&ready, samples.at).unwrap();
    let view = project_view(active, vec![ready.clone()]);
    let body = conforms("Environment", &Environment::whole(view.clone()));
    assert_eq!((&body["status"], &body["version"]), (&json!("ready"), &json!(1)));
    assert_eq!((&body["packages"][0]["name"], &body["versions"][0]["packages"]), (&json!("six"), &json!(1)));
    let declared = json!({"pip": [{"spec": "six==1.17.0", "name": "six", "version": "1.17.0"}], "npm": [], "apt": []});
    assert_eq!(body["declared"], declared);
    let list = conforms("EnvironmentList", &EnvironmentList { environments: vec![Environment::listed(view.clone())] });
    assert!(list["environments"][0].get("versions").is_none());
    let versions = serde_json::to_value(VersionList::from(view)).unwrap();
    conforms("EnvironmentVersion", &versions["versions"][0]);
    assert_eq!(versions["active"], json!(1));
    let record = conforms("EnvironmentBuild", &BuildRecord::of(ready, Some(String::new())));
    assert_eq!((&record["files"], &record["bytes"], &record["log"]), (&json!(10), &json!(20), &json!("")));

    let write: EnvironmentWrite = serde_json::from_value(body).unwrap();
    write.into_text("a".to_owned()).expect("what was read may be sent back");
}

#[test]
fn packages_that_cannot_be_read_are_refused_by_name() {
    let read = |body: Value| serde_json::from_value::<EnvironmentWrite>(body).unwrap().into_text("a".to_owned());
    for (body, param) in [
        (json!({"packages": ["six"]}), "packages"),
        (json!({"packages": {"cargo": []}}), "packages.cargo"),
        (json!({"packages": {"npm": "left-pad"}}), "packages.npm"),
        (json!({"packages": {"pip": [3]}}), "packages.pip"),
    ] {
        assert_eq!(read(body).unwrap_err().param.as_deref(), Some(param));
    }
    let text = read(json!({"packages": {"pip": ["six"], "npm": null}, "runtime": {"python": "3.12"}})).unwrap();
    assert_eq!((text.packages.len(), text.python.as_deref()), (1, Some("3.12")));
}

#[test]
fn trees_and_imports() {
    let entries = [source_directory("a"), source_file("a/b.txt", 4)];
    let body = conforms("EnvironmentFileList", &FileTree::page(&entries, true, TreeSize { files: 1, bytes: 4 }));
    assert_eq!(
        body["entries"][1],
        json!({"path": "a/b.txt", "dir": false, "bytes": 4, "mtime": 0, "stead_executable": true})
    );
    assert_eq!(body["stead_after"], "a/b.txt");
    let members = (0..300).map(|number| SkippedMember { name: number.to_string(), reason: "a link".into() }).collect();
    let size = TreeSize { files: 5, bytes: 6 };
    let report = ImportReport {
        written: 2,
        skipped: 900,
        skipped_members: members,
        size,
        taken: None,
        submodules: Vec::new(),
        lfs_pointers: Vec::new(),
        ignored_manifests: Vec::new(),
    };
    let body = conforms("EnvironmentImportResult", &ImportResult::from(report));
    assert_eq!(
        (&body["written"], &body["skipped"], &body["count"], &body["bytes"]),
        (&json!(2), &json!(900), &json!(5), &json!(6))
    );
    assert_eq!(body["stead_skipped"].as_array().unwrap().len(), 200);
}
