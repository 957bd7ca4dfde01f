//! Yarn: `yarn install --frozen-lockfile` for 1, `yarn install --immutable` for what came after.
//!
//! Plug'n'Play is not used: sessions find packages in `node_modules`, so later versions are told to make one.

use std::collections::BTreeMap;

use stead_bundles::manifest::{PackageJson, YarnLock, YarnSettings, decode_text, through_registry};
use stead_domain::network::BuildNetworkPolicy;
use stead_domain::source::SourceEntry;

use super::super::{PlanError, Planner};
use super::inputs::Inputs;
use super::{Install, MANIFEST};
use crate::environment::{CACHE_MOUNT, installer_env};
use crate::toolchain::NodeTool;

const CLASSIC_SETTINGS: &str = ".yarnrc";
const SETTINGS: &str = ".yarnrc.yml";
/// Patches, releases and, where the project keeps them, archives.
const DIRECTORY: &str = ".yarn";
const ARCHIVES: &str = ".yarn/cache";
/// Variables of an install, unless the settings name other files.
const ENVIRONMENT: &str = ".env.yarn";

/// What Yarn notes there of an install on another machine.
const STATE: [&str; 3] = [".yarn/install-state.gz", ".yarn/build-state.yml", ".yarn/unplugged/"];
/// How programs find packages without `node_modules`.
const PLUG_AND_PLAY: [&str; 3] = [".pnp.cjs", ".pnp.js", ".pnp.loader.mjs"];

impl Planner<'_> {
    pub(super) fn yarn_classic(
        &mut self,
        inputs: &mut Inputs,
        package: &PackageJson,
        lock: Option<&SourceEntry>,
    ) -> Result<Install, PlanError> {
        let tool = self.toolchain.node_tools.yarn.first();
        let named = lock.map_or(MANIFEST, |lock| lock.path.as_str());
        let tool = tool.ok_or_else(|| Self::missing(named, "Yarn 1"))?.clone();
        if let (Some(lock), Some(parsed)) = (lock, self.read_yarn_lock(inputs, lock)?) {
            self.check_members(package, lock.path.as_str(), &parsed)?;
        }
        self.read_yarn_settings(inputs)?;
        self.add_mirror_of_npmrc(inputs)?;
        let mut env = installer_env(self.settings);
        env.insert("YARN_CACHE_FOLDER".to_owned(), format!("{CACHE_MOUNT}/yarn"));
        // A `packageManager` of another version is no reason to refuse: the lock decides.
        env.insert("SKIP_YARN_COREPACK_CHECK".to_owned(), "1".to_owned());
        // It asks npm's setting for packages and its own for archives.
        if let Some(registry) = &self.settings.npm_registry {
            env.insert("YARN_REGISTRY".to_owned(), registry.clone());
        }
        if self.settings.network != BuildNetworkPolicy::Disabled {
            for name in ["npm_config_proxy", "npm_config_https_proxy"] {
                env.insert(name.to_owned(), self.settings.proxy.clone());
            }
        }
        let frozen = if lock.is_some() { "--frozen-lockfile" } else { "--pure-lockfile" };
        let mut arguments = vec!["install", frozen, "--non-interactive", "--no-progress"];
        if self.settings.network == BuildNetworkPolicy::Disabled {
            arguments.push("--offline");
        }
        let mut install = install(tool, named, &arguments, env, lock.is_some());
        // A project that names registries itself knows where its packages are.
        if let (Some(lock), Some(registry), false) = (lock, &self.settings.npm_registry, self.names_registries()?) {
            let bytes = self.sources.read(lock)?;
            let text = decode_text(&bytes).map_err(|source| PlanError::manifest(&lock.path, source))?;
            if let Some(text) = through_registry(text, registry) {
                install.replaced.push((lock.path.clone(), text.into_bytes()));
            }
        }
        Ok(install)
    }

    /// npm's settings may name the mirror, too, in the form of theirs.
    fn add_mirror_of_npmrc(&self, inputs: &mut Inputs) -> Result<(), PlanError> {
        let Some(npmrc) = self.sources.file(".npmrc") else { return Ok(()) };
        let bytes = self.sources.read(npmrc)?;
        let text = String::from_utf8_lossy(&bytes).replacen('=', " ", usize::MAX);
        let settings =
            YarnSettings::parse_classic(text.as_bytes()).map_err(|source| PlanError::manifest(".npmrc", source))?;
        if let Some(archives) = settings.archives {
            self.sources.beneath(&archives).for_each(|file| inputs.add(Some(file)));
        }
        Ok(())
    }

    fn names_registries(&self) -> Result<bool, PlanError> {
        for file in [".npmrc", CLASSIC_SETTINGS].iter().filter_map(|name| self.sources.file(name)) {
            if String::from_utf8_lossy(&self.sources.read(file)?).contains("registry") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn yarn_berry(&mut self, inputs: &mut Inputs, lock: Option<&SourceEntry>) -> Result<Install, PlanError> {
        let named = lock.map_or(MANIFEST, |lock| lock.path.as_str());
        // An empty lock and one of the classic format are none that any of them wrote: the newest says so.
        let format = self.read_yarn_lock(inputs, lock)?.and_then(|lock| lock.format);
        let tool = self.toolchain.node_tools.yarn_berry_for(format);
        let tool = tool.map_err(|tool| Self::missing(named, tool))?.clone();
        let settings = self.read_yarn_settings(inputs)?;
        let linker = settings.linker;
        if linker.as_deref() != Some("node-modules") {
            let linker = linker.as_deref().unwrap_or("pnp, by default");
            self.log.push(format!("{SETTINGS}: nodeLinker is {linker}; node-modules is used instead"));
        }
        // Yarn removes them, and bundlers would look for packages by them: that they are gone is part of the layer.
        for name in PLUG_AND_PLAY {
            inputs.writes_beside |= self.sources.file(name).is_some();
            inputs.add(self.sources.file(name));
        }
        let environment = settings.environment_files.unwrap_or_else(|| vec![ENVIRONMENT.to_owned()]);
        environment.iter().for_each(|path| inputs.add(self.sources.file(path)));
        let archives = settings.archives.unwrap_or_else(|| ARCHIVES.to_owned());
        let keeps_archives = self.sources.beneath(&archives).next().is_some();
        let env = self.yarn_env(lock.is_some(), keeps_archives);
        let arguments: &[&str] = if lock.is_some() { &["install", "--immutable"] } else { &["install"] };
        Ok(install(tool, named, arguments, env, lock.is_some()))
    }

    fn yarn_env(&self, immutable: bool, keeps_archives: bool) -> BTreeMap<String, String> {
        let mut env = installer_env(self.settings);
        // Each version refuses settings that it does not know: these are the ones that all know. Node itself is told of the
        // certificates.
        let mut set = |name: &str, value: &str| drop(env.insert(format!("YARN_{name}"), value.to_owned()));
        set("NODE_LINKER", "node-modules");
        set("ENABLE_TELEMETRY", "0");
        set("ENABLE_PROGRESS_BARS", "0");
        set("ENABLE_COLORS", "0");
        set("ENABLE_INLINE_BUILDS", "1");
        set("GLOBAL_FOLDER", &format!("{CACHE_MOUNT}/yarn-berry"));
        set("ENABLE_IMMUTABLE_INSTALLS", if immutable { "1" } else { "0" });
        if !keeps_archives {
            set("ENABLE_GLOBAL_CACHE", "1");
        }
        match self.settings.network {
            BuildNetworkPolicy::Disabled => set("ENABLE_NETWORK", "0"),
            _ => {
                set("HTTP_PROXY", &self.settings.proxy);
                set("HTTPS_PROXY", &self.settings.proxy);
            }
        }
        if let Some(registry) = &self.settings.npm_registry {
            set("NPM_REGISTRY_SERVER", registry.trim_end_matches('/'));
            if let Some(host) = registry.strip_prefix("http://").and_then(|rest| rest.split(['/', ':']).next()) {
                set("UNSAFE_HTTP_WHITELIST", host);
            }
        }
        env
    }

    fn read_yarn_lock(
        &mut self,
        inputs: &mut Inputs,
        lock: Option<&SourceEntry>,
    ) -> Result<Option<YarnLock>, PlanError> {
        let Some(lock) = lock else { return Ok(None) };
        inputs.add(Some(lock));
        let parsed =
            YarnLock::parse(&self.sources.read(lock)?).map_err(|source| PlanError::manifest(&lock.path, source))?;
        inputs.whole |= parsed.needs_whole_source;
        inputs.reads_members |= parsed.members.iter().any(|member| member != ".");
        inputs.members = parsed.format.map(|_| parsed.members.clone());
        parsed.local_archives.iter().for_each(|path| inputs.add(self.sources.file(path)));
        self.say_unhashed(lock, parsed.unhashed);
        Ok(Some(parsed))
    }

    /// Both kinds of settings, since each Yarn looks for a release in either; what the later kind says comes first.
    fn read_yarn_settings(&mut self, inputs: &mut Inputs) -> Result<YarnSettings, PlanError> {
        let is_state = |file: &&SourceEntry| STATE.iter().any(|name| file.path.as_str().starts_with(name));
        let files = self.sources.beneath(DIRECTORY).filter(|file| !is_state(file));
        files.for_each(|file| inputs.add(Some(file)));
        let mut read = YarnSettings::default();
        for name in [CLASSIC_SETTINGS, SETTINGS] {
            let Some(file) = self.sources.file(name) else { continue };
            inputs.add(Some(file));
            let bytes = self.sources.read(file)?;
            let settings = if name == SETTINGS {
                YarnSettings::parse(&bytes).map_err(|source| PlanError::manifest(name, source))?
            } else {
                YarnSettings::parse_classic(&bytes).map_err(|source| PlanError::manifest(name, source))?
            };
            inputs.whole |= settings.needs_whole_source;
            if let Some(release) = &settings.release {
                self.log.push(format!("{name}: the project's own Yarn runs, {release}"));
            }
            if let Some(archives) = &settings.archives {
                self.sources.beneath(archives).for_each(|file| inputs.add(Some(file)));
            }
            read.archives = settings.archives.or(read.archives);
            read.linker = settings.linker.or(read.linker);
            read.environment_files = settings.environment_files.or(read.environment_files);
        }
        Ok(read)
    }
}

fn install(tool: NodeTool, named: &str, arguments: &[&str], env: BTreeMap<String, String>, pinned: bool) -> Install {
    Install {
        name: format!("yarn install ({named})"),
        installer: format!("yarn {}", tool.version),
        argv: std::iter::once(tool.program).chain(arguments.iter().map(|argument| (*argument).to_owned())).collect(),
        env,
        replaced: Vec::new(),
        pinned,
    }
}
