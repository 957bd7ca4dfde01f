//! Environment variables: of a session's shell, and of a build step's commands.

use std::collections::BTreeMap;

use stead_domain::network::NetworkPolicy;
use stead_domain::{BlobId, Slug};

use crate::plan::BuildSettings;

/// Where system programs are. `/usr/bin` comes first: the host's own `python3` and `node` are the base. What an environment adds to
/// them, such as `python` where the host has `python3` alone, comes last.
pub const SYSTEM_PATH: &str = "/usr/bin:/bin:/usr/local/bin:/opt/stead/bin";
/// The bundle of certificate authorities inside a sandbox.
pub const CA_FILE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Where the project's installer caches lie inside a build's sandbox.
pub const CACHE_MOUNT: &str = "/var/cache/stead";

/// What a session's shell gets besides its own variables (UHP Environments §6 rule 3). `has_venv` says whether the version
/// holds a `.venv`.
pub fn session_env(slug: &Slug, has_venv: bool) -> BTreeMap<String, String> {
    let mount = slug.mount();
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), project_path(&mount)),
        ("PYTHONPATH".to_owned(), mount.clone()),
        ("NODE_PATH".to_owned(), format!("{mount}/node_modules")),
        // The mount cannot take byte code, and trying costs a failed write per import.
        ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
    ]);
    if has_venv {
        env.insert("VIRTUAL_ENV".to_owned(), format!("{mount}/.venv"));
    }
    env.insert("PROJECT_ROOT".to_owned(), mount);
    env
}

fn project_path(mount: &str) -> String {
    format!("{mount}/.venv/bin:{mount}/node_modules/.bin:{SYSTEM_PATH}")
}

/// The environment of an installer. The project's own programs are not on its path: a package that ships a `node` or a
/// `bash` must not become part of the next install.
pub(crate) fn installer_env(settings: &BuildSettings) -> BTreeMap<String, String> {
    let mut env = build_env(settings);
    env.insert("PATH".to_owned(), SYSTEM_PATH.to_owned());
    env
}

/// The environment of `setup.sh`: a session's, and what a build adds.
pub(crate) fn setup_env(settings: &BuildSettings, has_venv: bool) -> BTreeMap<String, String> {
    let mut env = build_env(settings);
    env.extend(session_env(&settings.slug, has_venv));
    env
}

fn build_env(settings: &BuildSettings) -> BTreeMap<String, String> {
    let cache = |tool: &str| format!("{CACHE_MOUNT}/{tool}");
    let mut env: BTreeMap<String, String> = [
        ("CI", "1"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("HOME", "/tmp"),
        ("LC_ALL", "C.UTF-8"),
        ("NO_COLOR", "1"),
        ("NODE_EXTRA_CA_CERTS", CA_FILE),
        ("PIP_CERT", CA_FILE),
        ("PIP_CONFIG_FILE", "/dev/null"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("PIP_NO_INPUT", "1"),
        ("PIP_PROGRESS_BAR", "off"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONUNBUFFERED", "1"),
        ("REQUESTS_CA_BUNDLE", CA_FILE),
        ("SSL_CERT_FILE", CA_FILE),
        ("TERM", "dumb"),
        ("UV_LINK_MODE", "copy"),
        ("UV_NO_CONFIG", "1"),
        ("UV_NO_PROGRESS", "1"),
        ("UV_PYTHON_DOWNLOADS", "never"),
        ("npm_config_audit", "false"),
        ("npm_config_cafile", CA_FILE),
        ("npm_config_fund", "false"),
        ("npm_config_logs_max", "0"),
        ("npm_config_progress", "false"),
        ("npm_config_update_notifier", "false"),
        ("npm_config_yes", "true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    env.insert("PIP_CACHE_DIR".to_owned(), cache("pip"));
    env.insert("UV_CACHE_DIR".to_owned(), cache("uv"));
    env.insert("npm_config_cache".to_owned(), cache("npm"));
    match settings.network {
        NetworkPolicy::Enabled => {
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
                env.insert(name.to_owned(), settings.proxy.clone());
            }
            for name in ["NO_PROXY", "no_proxy"] {
                env.insert(name.to_owned(), "localhost,127.0.0.1".to_owned());
            }
        }
        // Installers fail at once and say why, instead of trying a name that cannot resolve for minutes.
        NetworkPolicy::Disabled => {
            for (name, value) in [("PIP_NO_INDEX", "1"), ("UV_OFFLINE", "1"), ("npm_config_offline", "true")] {
                env.insert(name.to_owned(), value.to_owned());
            }
        }
    }
    if let Some(url) = &settings.python_index {
        env.insert("PIP_INDEX_URL".to_owned(), url.clone());
        env.insert("UV_DEFAULT_INDEX".to_owned(), url.clone());
    }
    if let Some(url) = &settings.npm_registry {
        env.insert("npm_config_registry".to_owned(), url.clone());
    }
    env
}

/// How an index address is named in a log: it may hold a password.
pub(crate) fn named_by_hash(url: &str) -> String {
    BlobId::from_bytes(*blake3::hash(url.as_bytes()).as_bytes()).to_string()[..12].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_finds_the_project_first() {
        let slug = Slug::from_name("Content Studio").unwrap();
        let env = session_env(&slug, true);
        assert!(env["PATH"].starts_with("/env/content-studio/.venv/bin:/env/content-studio/node_modules/.bin:/"));
        assert_eq!(env["PYTHONPATH"], "/env/content-studio");
        assert_eq!(env["NODE_PATH"], "/env/content-studio/node_modules");
        assert_eq!(env["PROJECT_ROOT"], "/env/content-studio");
        assert_eq!(env["VIRTUAL_ENV"], "/env/content-studio/.venv");
        assert!(!session_env(&slug, false).contains_key("VIRTUAL_ENV"));
    }

    #[test]
    fn the_network_policy_decides_between_proxy_and_offline() {
        let slug = Slug::from_name("a").unwrap();
        let mut settings = BuildSettings::new(slug);
        let open = installer_env(&settings);
        assert_eq!((open["https_proxy"].as_str(), open.contains_key("UV_OFFLINE")), ("http://127.0.0.1:3128", false));
        assert!(!open.contains_key("PIP_INDEX_URL") && !open["PATH"].contains(".venv"));
        settings.network = NetworkPolicy::Disabled;
        settings.python_index = Some("https://u:p@h/simple".into());
        let shut = installer_env(&settings);
        assert!(!shut.contains_key("https_proxy") && shut.contains_key("PIP_NO_INDEX"));
        assert_eq!(shut["UV_DEFAULT_INDEX"], "https://u:p@h/simple");
        assert!(setup_env(&settings, true)["PATH"].starts_with("/env/a/.venv/bin"));
    }
}
