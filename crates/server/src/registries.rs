//! The package registries that this machine's own tools are configured to use, and the hosts that builds reach for them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use reqwest::Url;
use stead_projects::toolchain::{NodeTools, question};

use crate::config::BuildSettings;

const PYTHON: &str = "/usr/bin/python3";
const NPM: &str = "/usr/bin/npm";
const NODE: &str = "/usr/bin/node";
const APT: &str = "/usr/bin/apt-get";

/// The registries that builds install from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Registries {
    /// The Python index; none for the installers' own default.
    pub(crate) python_index: Option<String>,
    /// The npm registry; none for npm's own default.
    pub(crate) npm_registry: Option<String>,
    /// What builds reach that reach registries alone: host names and addresses, each with a port where it is not the usual one.
    pub(crate) hosts: BTreeSet<String>,
}

impl Registries {
    /// Those that the operator configured, or else those of this machine's tools, which are asked side by side, since each takes a
    /// moment to say anything. Blocking.
    pub(crate) fn look(builds: &BuildSettings, data: &Path) -> Self {
        let tools = NodeTools::detect(&data.join("toolchains"));
        std::thread::scope(|scope| {
            let index = scope.spawn(|| builds.index_url.clone().or_else(python_index));
            let default = scope.spawn(python_places);
            let npm = scope.spawn(|| builds.npm_registry.clone().or_else(npm_registry));
            let system = scope.spawn(system_sources);
            let newest = [(tools.yarn.first(), "registry"), (tools.yarn_berry.first(), "npmRegistryServer")];
            let yarn = newest.map(|(tool, option)| {
                let program = tool.map(|tool| tool.on_disk(&data.join("toolchains")));
                scope.spawn(move || ask(NODE, &[program?.to_str()?, "config", "get", option]))
            });
            // A tool that nobody could ask is one whose registry the operator names.
            let python_index = index.join().unwrap_or_default();
            let npm_registry = npm.join().unwrap_or_default();
            let mut hosts: BTreeSet<String> = builds.registries.iter().map(|host| host.to_ascii_lowercase()).collect();
            hosts.extend(python_hosts(python_index.as_deref(), default.join().unwrap_or_default()));
            let yarn = yarn.into_iter().filter_map(|asked| asked.join().unwrap_or_default());
            let urls = npm_registry.iter().cloned().chain(yarn).chain(system.join().unwrap_or_default());
            hosts.extend(urls.filter_map(|url| host(&url)));
            Self { python_index, npm_registry, hosts }
        })
    }
}

/// Host and port of an address; the port where it is not the usual one.
fn host(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let host = url.host_str()?.to_ascii_lowercase();
    Some(url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
}

/// The hosts of the index in effect. pip knows where the files of its own default lie; those of another one lie where it is.
fn python_hosts(configured: Option<&str>, default: Option<(String, String)>) -> BTreeSet<String> {
    let default = default.and_then(|(index, files)| Some((host(&index)?, files)));
    let index = configured.map_or_else(|| default.as_ref().map(|(index, _)| index.clone()), host);
    let files = default.filter(|(default, _)| Some(default) == index.as_ref()).map(|(_, files)| files);
    index.into_iter().chain(files).collect()
}

/// The Python index that somebody configured for pip or uv; none for their own default.
pub(crate) fn python_index() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| value.starts_with("http"));
    ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"]
        .into_iter()
        .find_map(variable)
        .or_else(|| ask(PYTHON, &["-m", "pip", "config", "get", "global.index-url"]))
}

/// pip's own default, as pip itself knows it.
pub(crate) fn python_default() -> Option<String> {
    ask(PYTHON, &["-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"])
}

/// pip's own default, and the host that its files lie on.
fn python_places() -> Option<(String, String)> {
    const SCRIPT: &str =
        "from pip._internal.models.index import PyPI; print(PyPI.simple_url); print(PyPI.file_storage_domain)";
    let said = ask(PYTHON, &["-c", SCRIPT])?;
    let (index, files) = said.split_once('\n')?;
    Some((index.trim().to_owned(), files.trim().to_ascii_lowercase()))
}

/// The npm registry in effect.
pub(crate) fn npm_registry() -> Option<String> {
    ask(NPM, &["config", "get", "registry"])
}

/// Where apt's sources lie, as apt reads its own configuration.
fn system_sources() -> Vec<String> {
    let sites = ask(APT, &["indextargets", "--format", "$(SITE)"]).unwrap_or_default();
    let sites: BTreeSet<&str> = sites.lines().map(str::trim).collect();
    sites.into_iter().map(str::to_owned).collect()
}

/// What a tool says on its standard output, if it begins with an address.
fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let output = question(program)
        .args(arguments)
        // What is asked for is the machine's configuration, not that of a project somebody happened to start us in, and
        // asking leaves no log of npm's.
        .current_dir("/")
        .env("npm_config_logs_max", "0")
        .env("YARN_ENABLE_TELEMETRY", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && text.starts_with("http")).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_as_the_proxy_knows_them() {
        for (url, expected) in [
            ("https://User:secret@Index.example/simple/", Some("index.example")),
            ("http://index.example:80/simple", Some("index.example")),
            ("http://10.0.0.7:3141/root", Some("10.0.0.7:3141")),
            ("https://[fd00::1]:8443/", Some("[fd00::1]:8443")),
            ("file:///srv/packages", None),
            ("nonsense", None),
        ] {
            assert_eq!(host(url).as_deref(), expected, "{url}");
        }
        let default = || Some(("https://index.example/simple".to_owned(), "files.example".to_owned()));
        let hosts = |configured, default| Vec::from_iter(python_hosts(configured, default));
        assert_eq!(hosts(None, default()), ["files.example", "index.example"]);
        assert_eq!(hosts(Some("https://index.example/simple/"), default()), ["files.example", "index.example"]);
        assert_eq!(hosts(Some("https://own.example/simple/"), default()), ["own.example"]);
        assert_eq!(hosts(Some("https://own.example/simple/"), None), ["own.example"]);
        assert_eq!(hosts(None, None), [""; 0]);
    }
}
