//! What the owner declared besides the manifests: Python and Node packages, and the interpreter (UHP Environments §2, §4).
//!
//! Declared Python packages come first, so that a manifest's own versions count where both name a package. Declared Node
//! packages come last: `npm ci` begins by emptying `node_modules`.

use stead_domain::build::Stage;
use stead_domain::declared::{Declared, PackageManager, PackageSpec};

use super::python::{Call, Install};
use super::step::{Draft, PackageList, StepFiles};
use super::{NODE_MODULES, PlanError, Planner, VENV};
use crate::environment::installer_env;
use crate::toolchain::{BASH, NODE, NPM};

/// Where lists of packages are written, and what a failure names.
const PIP: &str = "packages.pip";
const NPM_LIST: &str = "packages.npm";
const PYTHON: &str = "runtime.python";
/// Installs aside, then puts the packages among those that another manager than npm installed.
const BESIDE: &str = include_str!("../scripts/install_beside.js");
/// npm's list of what it installed lies in a sealed layer below, and npm gives up a list that it cannot write.
const OPEN_LIST: &str = "list=node_modules/.package-lock.json; test ! -f $list || chmod u+w $list";
/// A step's name goes into every line about it.
const NAMED: usize = 200;

/// A manager's specs in a step's name: all of them, unless that is more than anybody reads.
pub(super) fn named(declared: &Declared, manager: PackageManager) -> String {
    let specs = declared.of(manager);
    let mut text = String::new();
    for (index, spec) in specs.iter().enumerate() {
        if text.len() + spec.as_str().len() > NAMED {
            return format!("{text} and {} more", specs.len() - index);
        }
        text = if text.is_empty() { spec.to_string() } else { format!("{text} {spec}") };
    }
    text
}

/// Whether the spec is one version, whatever the index has.
fn is_exact(spec: &PackageSpec) -> bool {
    spec.constraint().strip_prefix("==").is_some_and(|version| !version.contains([',', '*']))
}

impl Planner<'_> {
    /// Says so when this server lacks the interpreter that was declared: the default is used then (UHP Environments §4).
    pub(super) fn say_missing_python(&mut self) {
        let minor = &self.settings.declared.python;
        if minor.is_empty() || self.toolchain.python(minor).is_some() {
            return;
        }
        let minors = self.toolchain.python_minors();
        let has = if minors.is_empty() { "none".to_owned() } else { minors.join(", ") };
        let used = self.python.map_or_else(|| "no".to_owned(), |python| python.version.clone());
        self.log.push(format!(
            "WARNING: Python {minor} was declared and this server does not have it (it has {has}): Python {used} is used instead"
        ));
    }

    pub(super) fn plan_declared_pip(&mut self) -> Result<(), PlanError> {
        let declared = &self.settings.declared;
        if declared.pip.is_empty() {
            return Ok(());
        }
        self.push_install(Install {
            file: PIP,
            name: format!("pip install {}", named(declared, PackageManager::Pip)),
            calls: vec![Call::new(declared.pip.iter().map(PackageSpec::as_str))],
            files: Some(Vec::new()),
            replaced: Vec::new(),
            keep: VENV,
            pinned: declared.pip.iter().all(is_exact),
            by_uv: true,
        })
    }

    /// An interpreter that was declared and is not the default is what sessions run, even where nothing is installed for it.
    pub(super) fn plan_declared_python(&mut self) -> Result<(), PlanError> {
        let minor = &self.settings.declared.python;
        let chosen = self.toolchain.python(minor);
        if minor.is_empty() || self.has_venv() || chosen.is_none() || chosen == self.toolchain.pythons.first() {
            return Ok(());
        }
        self.push_install(Install {
            file: PYTHON,
            name: format!("python {minor}"),
            calls: Vec::new(),
            files: Some(Vec::new()),
            replaced: Vec::new(),
            keep: VENV,
            pinned: true,
            by_uv: true,
        })
    }

    pub(super) fn plan_declared_npm(&mut self) -> Result<(), PlanError> {
        let declared = &self.settings.declared;
        if declared.npm.is_empty() {
            return Ok(());
        }
        let node = self.toolchain.node.as_ref().ok_or_else(|| Self::missing(NPM_LIST, "Node"))?;
        let npm = node.npm.as_ref().ok_or_else(|| Self::missing(NPM_LIST, "npm"))?;
        let below: Vec<usize> =
            (0..self.steps.len()).filter(|index| self.steps[*index].stage == Stage::NodePackages).collect();
        let manifest = below.last().map(|index| &self.steps[*index]);
        // npm keeps what is there as long as it sees the manifest and the lock that it is there for.
        let files = match manifest.map(|step| &step.files) {
            Some(StepFiles::Whole) => None,
            Some(StepFiles::Only(files)) => Some(files.clone()),
            None => Some(Vec::new()),
        };
        let keep = if manifest.is_some_and(|step| step.keep.is_empty()) { "" } else { NODE_MODULES };
        let is_npm = |argv: &[String]| argv.get(1).is_some_and(|program| program == NPM);
        let beside = manifest.is_some_and(|step| !step.commands.iter().any(|command| is_npm(&command.argv)));
        let front: &[&str] =
            if beside { &[NODE, "-e", BESIDE, NPM] } else { &[NODE, NPM, "install", "--no-save", "--"] };
        let env = installer_env(self.settings);
        let argv = front.iter().copied().chain(declared.npm.iter().map(PackageSpec::as_str));
        let mut commands = vec![self.command(&env, argv)];
        if manifest.is_some() && !beside {
            commands.insert(0, self.command(&env, [BASH, "-c", OPEN_LIST]));
        }
        let list = match beside {
            // No manager has a list of both.
            true => PackageList::NpmAll(self.listing(&env, [NODE, "-e", BESIDE, "list"])),
            false => PackageList::Npm,
        };
        self.push(Draft {
            stage: Stage::NodePackages,
            name: format!("npm install {}", named(declared, PackageManager::Npm)),
            installer: format!("npm {npm}"),
            files,
            replaced: Vec::new(),
            keep,
            lower: below,
            commands,
            packages: vec![list],
            pinned: false,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Files, files, plan_with, project, settings, toolchain};
    use super::super::{BuildSettings, InstallPlan, StepFiles};
    use super::*;
    use crate::toolchain::{NodeTool, Python, Toolchain};

    const OTHER: &str = "/opt/stead/python3.9/bin/python3.9";

    fn tools() -> Toolchain {
        let mut tools = toolchain();
        tools.pythons.push(Python { program: OTHER.into(), version: "3.9.2".into(), pip: Some("23.0.1".into()) });
        tools.apt = Some("2.6.1".into());
        tools
    }

    fn declared(pip: &[&str], npm: &[&str], apt: &[&str], python: &str) -> BuildSettings {
        let read = |manager, specs: &[&str]| Declared::read(manager, specs).unwrap();
        let declared = Declared {
            pip: read(PackageManager::Pip, pip),
            npm: read(PackageManager::Npm, npm),
            apt: read(PackageManager::Apt, apt),
            python: python.to_owned(),
        };
        BuildSettings { declared, ..settings() }
    }

    fn plan(files: &Files, settings: &BuildSettings) -> InstallPlan {
        plan_with(files, &tools(), settings).unwrap()
    }

    #[test]
    fn what_is_declared_needs_no_manifest() {
        let plan = plan(&Files::new(), &declared(&["a==1", "b[x]>=2"], &["@s/c@^3"], &["jq"], ""));
        let steps: Vec<_> =
            plan.steps.iter().map(|step| (step.name.as_str(), step.keep.as_str(), step.lower.as_slice())).collect();
        assert_eq!(
            steps,
            [
                ("apt install jq", "apt", &[][..]),
                ("pip install a==1 b[x]>=2", ".venv", &[0]),
                ("npm install @s/c@^3", "node_modules", &[0])
            ]
        );
        assert_eq!(plan.mount_points(), [".venv", "apt", "node_modules"]);
        assert!(plan.steps.iter().all(|step| step.files == StepFiles::Only(Vec::new()) && !step.pinned));
        let npm = &plan.steps[2].commands[0];
        assert_eq!(npm.argv[2..], ["install", "--no-save", "--", "@s/c@^3"]);
        for step in &plan.steps[1..] {
            assert!(step.commands.iter().all(|command| command.env["CPATH"].contains("/env/studio/apt/usr/include")));
        }
        assert!(!plan.steps[0].commands[0].env.contains_key("CPATH"));
    }

    #[test]
    fn declared_packages_stand_below_python_s_manifests_and_above_node_s() {
        let before = plan(&project(), &declared(&[], &[], &[], ""));
        let after = plan(&project(), &declared(&["a==1"], &["c@2"], &[], ""));
        let shape: Vec<_> = after.steps.iter().map(|step| (step.keep.as_str(), step.lower.as_slice())).collect();
        assert_eq!(
            shape,
            [
                (".venv", &[][..]),
                (".venv", &[0]),
                (".venv", &[0, 1]),
                (".venv", &[0, 1, 2]),
                ("node_modules", &[]),
                ("node_modules", &[4]),
                ("", &[0, 1, 2, 3, 4, 5]),
            ]
        );
        assert!(after.steps[0].pinned);
        // One environment, and the node packages' own layer is the one without declarations.
        let venvs = after
            .steps
            .iter()
            .flat_map(|step| &step.commands)
            .filter(|c| c.argv.iter().any(|a| a.contains("EnvBuilder")));
        assert_eq!((venvs.count(), after.steps[4].key), (1, before.steps[3].key));
        // npm keeps what a lock says as long as it sees the lock.
        assert_eq!(after.steps[5].files, after.steps[4].files);
        let other = plan(&project(), &declared(&["a==2"], &["c@2"], &[], ""));
        let changed: Vec<_> = (0..7).filter(|index| after.steps[*index].key != other.steps[*index].key).collect();
        assert_eq!(changed, [0, 1, 2, 3, 6]);
        // Another manager's directory is not npm's to change.
        let mut pnpm = files(&[("package.json", r#"{"packageManager":"pnpm@9.1.0"}"#)]);
        pnpm.insert("pnpm-workspace.yaml".into(), b"{}".to_vec());
        let mut tools = tools();
        tools.node_tools.pnpm.push(NodeTool { program: "/opt/stead/pnpm.cjs".into(), version: "9.1.0".into() });
        let beside = plan_with(&pnpm, &tools, &declared(&[], &["c@2"], &[], "")).unwrap();
        let last = beside.steps.last().unwrap();
        assert_eq!(
            (last.commands.len(), &last.commands[0].argv[3..]),
            (1, &["/usr/bin/npm".to_owned(), "c@2".to_owned()][..])
        );
        assert!(last.commands[0].argv[1] == "-e" && matches!(last.packages[0], PackageList::NpmAll(_)));
        for (spec, pinned) in [("a==1", true), ("a===1", true), ("a==1.*", false), ("a==1,<3", false), ("a", false)] {
            assert_eq!(plan(&Files::new(), &declared(&[spec], &[], &[], "")).steps[0].pinned, pinned, "{spec}");
        }
    }

    #[test]
    fn system_packages_change_every_key_and_nothing_without_them() {
        let before = plan(&project(), &declared(&[], &[], &[], ""));
        let after = plan(&project(), &declared(&[], &[], &["libpq-dev=15.1"], ""));
        assert_eq!((after.steps.len(), after.steps[0].stage), (before.steps.len() + 1, Stage::SystemPackages));
        for (old, new) in before.steps.iter().zip(&after.steps[1..]) {
            assert!(new.lower.first() == Some(&0) && new.key != old.key, "{}", new.name);
        }
        assert_eq!(after.steps[0].commands[0].argv[3..], ["apt", "libpq-dev=15.1"]);
        let other = plan(&project(), &declared(&[], &[], &["libpq-dev=15.2"], ""));
        assert!(after.steps.iter().zip(&other.steps).all(|(one, two)| one.key != two.key));

        let mut none = tools();
        none.apt = None;
        let error = plan_with(&project(), &none, &declared(&[], &[], &["jq"], "")).unwrap_err();
        assert_eq!(error.to_string(), "`packages.apt` needs apt, which this server does not have");
        let error = plan_with(&files(&[("apt", "x")]), &tools(), &declared(&[], &[], &["jq"], "")).unwrap_err();
        assert!(error.failure().message.contains("`apt`"), "{error}");
    }

    #[test]
    fn the_declared_interpreter_makes_the_environment_and_the_default_stands_in_for_it() {
        let made_by = |plan: &InstallPlan| {
            let mut commands = plan.steps.iter().flat_map(|step| &step.commands);
            commands
                .find(|command| command.argv.iter().any(|a| a.contains("EnvBuilder")))
                .map(|command| command.argv[0].clone())
        };
        let default = plan(&project(), &declared(&[], &[], &[], ""));
        let same = plan(&project(), &declared(&[], &[], &[], "3.11"));
        assert_eq!(same.steps, default.steps);
        let chosen = plan(&project(), &declared(&[], &[], &[], "3.9"));
        assert_eq!(made_by(&chosen).as_deref(), Some(OTHER));
        assert!(chosen.log[0].contains("python 3.9"), "{:?}", chosen.log);
        assert!(chosen.steps.iter().zip(&default.steps).all(|(one, two)| one.key != two.key));
        assert!(!chosen.steps[0].commands.iter().any(|command| command.argv[0] == crate::toolchain::PYTHON));

        let missing = plan(&project(), &declared(&[], &[], &[], "3.14"));
        assert_eq!(missing.steps, default.steps);
        let warning = missing.log.iter().find(|line| line.starts_with("WARNING: Python 3.14 was declared")).unwrap();
        assert!(warning.contains("it has 3.11, 3.9") && warning.contains("3.11.2 is used"), "{warning}");
        // Sessions run the declared interpreter, even where nothing is installed for it.
        assert_eq!(made_by(&plan(&Files::new(), &declared(&[], &[], &[], "3.9"))).as_deref(), Some(OTHER));
        assert_eq!(plan(&Files::new(), &declared(&[], &[], &[], "3.11")).steps.len(), 0);
    }
}
