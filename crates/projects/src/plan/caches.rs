//! Which cache a step's installers use.
//!
//! Installers know an archive that lies in the source by name and version, or by its time, and take what they kept of an older one of
//! the same name: uv from `--find-links`, pip where it built one, Yarn 1 for `file:`. A step that sees such archives
//! therefore has caches of its own, named by the archives' content.

use stead_domain::source::{EntryKind, SourceEntry};

use super::Planner;
use super::step::Draft;
use crate::environment::CACHE_MOUNT;

const ARCHIVES: [&str; 10] =
    [".whl", ".egg", ".zip", ".tgz", ".tar", ".tbz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst"];
/// Yarn checks what it takes from there by the lock, and most of it changes with every dependency.
const YARN_ARCHIVES: &str = ".yarn/cache/";

impl Planner<'_> {
    /// Moves the caches of a step to where they can hold nothing of other archives than those it sees.
    pub(super) fn separate_caches(&self, draft: &mut Draft) {
        let Some(name) =
            draft.files.as_ref().map_or_else(|| named_by(self.sources.all()), |files| named_by(files.iter()))
        else {
            return;
        };
        let (usual, own) = (format!("{CACHE_MOUNT}/"), format!("{CACHE_MOUNT}/local/{name}/"));
        for command in &mut draft.commands {
            for text in command.argv.iter_mut().chain(command.env.values_mut()) {
                if text.contains(&usual) {
                    *text = text.replace(&usual, &own);
                }
            }
        }
    }
}

/// A name for the archives among the files, which come sorted; none where there are none.
fn named_by<'a>(files: impl Iterator<Item = &'a SourceEntry>) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    let mut found = false;
    for file in files {
        let EntryKind::File { blob, .. } = file.kind else { continue };
        let path = file.path.as_str();
        let is_archive = ARCHIVES.iter().any(|suffix| path.ends_with(suffix)) && !path.starts_with(YARN_ARCHIVES);
        if is_archive {
            found = true;
            hasher.update(format!("{path}\0{blob}\n").as_bytes());
        }
    }
    found.then(|| hasher.finalize().to_hex()[..16].to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Files, files, plan_with, settings, toolchain};
    use super::super::{BuildSettings, InstallPlan};
    use crate::toolchain::{NodeTool, Uv};

    fn plan(source: &Files, fresh: bool) -> InstallPlan {
        let mut tools = toolchain();
        tools.uv = Some(Uv { program: "/opt/stead/uv/bin/uv".into(), version: "1".into() });
        tools.node_tools.yarn = vec![NodeTool { program: "/opt/stead/yarn".into(), version: "1.22.22".into() }];
        tools.node_tools.pnpm = vec![NodeTool { program: "/opt/stead/pnpm".into(), version: "10.0.0".into() }];
        plan_with(source, &tools, &BuildSettings { fresh, ..settings() }).unwrap()
    }

    /// Every place below the caches that a step of the plan is told.
    fn caches(source: &Files) -> Vec<String> {
        let commands = plan(source, false).steps.into_iter().flat_map(|step| step.commands);
        let mut places: Vec<String> = commands
            .flat_map(|command| command.argv.into_iter().chain(command.env.into_values()))
            .filter_map(|text| text.split_once("/var/cache/stead/").map(|(_, place)| place.to_owned()))
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    #[test]
    fn an_archive_of_the_source_is_never_taken_from_a_cache_of_another() {
        let pnpm = r#"{"packageManager":"pnpm@10.0.0","dependencies":{"a":"file:vendor/a.tgz"}}"#;
        for (path, text, archive) in [
            ("requirements.txt", "a\n-f vendor\n", "vendor/a-1-py3-none-any.whl"),
            ("requirements.txt", "./vendor/a-1.tar.gz\n", "vendor/a-1.tar.gz"),
            ("requirements.txt", "-e .\n", "vendor/a-1.tar.gz"),
            (
                "package.json",
                r#"{"packageManager":"yarn@1.22.22","dependencies":{"a":"file:vendor/a.tgz"}}"#,
                "vendor/a.tgz",
            ),
            ("package.json", pnpm, "vendor/a.tgz"),
            ("setup.sh", "pip install vendor/a.tar.gz\n", "vendor/a.tar.gz"),
        ] {
            let mut source = files(&[(path, text), (archive, "one")]);
            let first = caches(&source);
            assert!(!first.is_empty() && first.iter().all(|place| place.starts_with("local/")), "{path}: {first:?}");
            assert_eq!(first, caches(&source));
            source.insert("other.py".to_owned(), b"1".to_vec());
            assert_eq!(first, caches(&source), "{path}: an edit of something else leaves the caches");
            source.insert(archive.to_owned(), b"two".to_vec());
            assert!(caches(&source).iter().all(|place| !first.contains(place)), "{path}");
            source.remove(archive);
            assert!(caches(&source).iter().all(|place| !place.starts_with("local/")), "{path}");
        }
    }

    #[test]
    fn a_fresh_build_has_the_same_keys_and_begins_each_cache_anew() {
        let source = files(&[
            ("requirements.txt", "a==1\n-e .\n"),
            ("package.json", r#"{"dependencies":{"c":"^1"}}"#),
            ("setup.sh", "true\n"),
        ]);
        let (usual, fresh) = (plan(&source, false), plan(&source, true));
        let shape = |plan: &InstallPlan| -> Vec<_> {
            plan.steps.iter().map(|step| (step.stage.as_str(), step.empties_cache)).collect()
        };
        let expected =
            [("python packages", true), ("python packages", false), ("node packages", true), ("setup.sh", true)];
        assert_eq!(shape(&fresh), expected);
        assert!(shape(&usual).iter().all(|(_, empties)| !empties));
        let keys = |plan: &InstallPlan| plan.steps.iter().map(|step| step.key).collect::<Vec<_>>();
        assert_eq!(keys(&usual), keys(&fresh));
    }
}
