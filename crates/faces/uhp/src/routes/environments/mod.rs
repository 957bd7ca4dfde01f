//! The environments chapter (UHP Environments §2 to §5).

mod builds;
mod files;
mod import;
mod object;
mod packages;
mod tree;
mod versions;

use stead_face_frame::{Operation, Parameter};

use super::{Answer, Routes, json};
use crate::download;
use crate::wire::Deleted;
use crate::wire::environment as wire;

/// Routes that are about one environment as a whole.
fn objects() -> Routes {
    let one = "/v1/environments/{environment_id}";
    let write = |summary| Operation::new(summary).takes::<wire::EnvironmentWrite>().answers::<wire::Environment>();
    Routes::new()
        .get("/v1/environments", object::list, Operation::new("Every environment").answers::<wire::EnvironmentList>())
        .post("/v1/environments", object::create, write("Make an environment").refuses(&[409, 422]))
        .get(
            "/v1/environments/runtimes",
            packages::runtimes,
            Operation::new("What builds are made with").answers::<wire::Runtimes>(),
        )
        .get(
            "/v1/environments/packages/check",
            packages::check,
            Operation::new("Whether a package exists")
                .with(Parameter::query("manager", "whose package").words(&["pip", "npm", "apt"]).required())
                .with(Parameter::query("spec", "the package, with or without a version").required())
                .answers::<wire::PackageAnswer>(),
        )
        .get(one, object::show, Operation::new("An environment").answers::<wire::Environment>().refuses(&[404]))
        .put(one, object::update, write("Change an environment").refuses(&[404, 409, 422]))
        .delete(one, object::delete, Operation::new("Remove an environment").answers::<Deleted>().refuses(&[404, 409]))
        .get(
            "/v1/environments/{environment_id}/harnesses",
            object::harnesses,
            Operation::new("The harnesses that name it").answers::<wire::EnvironmentHarnesses>().refuses(&[404]),
        )
}

/// Routes of one path within a source. The empty path is one as well: the domain says which of them name a file.
fn paths(routes: Routes, path: &'static str) -> Routes {
    let executable = || Parameter::query("executable", "whether the file may be executed").flag();
    let flag = || Parameter::header("X-Stead-Executable", "the same, where a query cannot be sent").flag();
    let write = Operation::new("Write a file")
        .with(executable())
        .with(flag())
        .takes_bytes("application/octet-stream")
        .answers::<wire::FileWritten>()
        .refuses(&[404, 409, 412, 415, 422]);
    let change = Operation::new("Change whether a file may be executed")
        .takes::<wire::FileChange>()
        .answers::<wire::FileChanged>()
        .refuses(&[404, 409, 412, 422]);
    let removal = Operation::new("Remove a file or a tree").answers::<wire::FileDeleted>();
    routes
        .get(path, files::read, download::described(Operation::new("The bytes of a file").refuses(&[404, 422])))
        .put(path, files::write, write)
        .patch(path, files::change, change)
        .delete(path, files::remove, removal.refuses(&[404, 409, 412, 422]))
}

/// Routes about the source of an environment.
fn sources() -> Routes {
    let tree = Operation::new("Every file and every directory, or a page of them")
        .with(Parameter::query("limit", "how many at most").number(1, tree::LARGEST_PAGE as u64))
        .with(Parameter::query("after", "those behind this path alone"))
        .with(Parameter::query("under", "those beneath this path alone"))
        .answers::<wire::FileTree<'static>>()
        .refuses(&[404]);
    let import = Operation::new("Import an archive or a repository")
        .with(Parameter::query("replace", "whether what is there goes first").flag())
        .takes::<wire::ImportWrite>()
        .takes_bytes("application/octet-stream")
        .answers::<wire::ImportResult>()
        .refuses(&[404, 409, 422]);
    let routes = Routes::new().get("/v1/environments/{environment_id}/files", tree::tree, tree);
    let routes = paths(routes, "/v1/environments/{environment_id}/files/");
    paths(routes, "/v1/environments/{environment_id}/files/{*path}")
        .post(
            "/v1/environments/{environment_id}/directories",
            files::directory,
            Operation::new("Make a directory")
                .takes::<wire::DirectoryWrite>()
                .answers::<wire::DirectoryWritten>()
                .refuses(&[404, 409, 422]),
        )
        .post("/v1/environments/{environment_id}/import", import::import, import)
}

/// Routes about builds and what they made.
fn versions() -> Routes {
    Routes::new()
        .post(
            "/v1/environments/{environment_id}/build",
            builds::start,
            Operation::new("Build a version")
                .with(Parameter::query("fresh", "whether everything is installed anew").flag())
                .answers::<wire::BuildRecord>()
                .refuses(&[404, 409, 422, 429]),
        )
        .get(
            "/v1/environments/{environment_id}/builds/{version}",
            builds::show,
            Operation::new("A build and its log").answers::<wire::BuildRecord>().refuses(&[404]),
        )
        .get(
            "/v1/environments/{environment_id}/versions",
            versions::list,
            Operation::new("Every version").answers::<wire::VersionList>().refuses(&[404]),
        )
        .post(
            "/v1/environments/{environment_id}/versions/{version}/activate",
            versions::activate,
            Operation::new("Let tasks read this version").answers::<wire::Environment>().refuses(&[404, 409]),
        )
}

pub(super) fn routes() -> Routes {
    objects().merge(sources()).merge(versions())
}
