//! Environment variables: of a session's shell, and of a build step's commands.

use std::collections::BTreeMap;

use stead_domain::network::BuildNetworkPolicy;
use stead_domain::{BlobId, Slug};

use crate::plan::{APT, BuildSettings};

/// Where system programs are. `/usr/bin` comes first: the host's own `python3` and `node` are the base. What an environment adds to
/// them, such as `python` where the host has `python3` alone, comes last.
pub const SYSTEM_PATH: &str = "/usr/bin:/bin:/usr/local/bin:/opt/stead/bin";
/// The bundle of certificate authorities inside a sandbox.
pub const CA_FILE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Where a step's installers have their caches inside its sandbox. Empty when the step begins.
pub const CACHE_MOUNT: &str = "/var/cache/stead";

/// What a version holds, as far as a session's variables depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Installed {
    /// A `.venv`.
    pub venv: bool,
    /// System packages beneath `apt`, if any.
    pub apt: Option<SystemPackages>,
}

/// System packages whose programs look for their own modules and data in one place, unless a variable names another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SystemPackages {
    /// Graphviz.
    pub graphviz: bool,
    /// ImageMagick.
    pub magick: bool,
    /// FIGlet.
    pub figlet: bool,
}

impl SystemPackages {
    /// Where Graphviz has its modules, relative to the mount.
    pub(crate) fn graphviz_place() -> String {
        format!("{APT}/usr/lib/{}/graphviz", triplet())
    }

    /// Where FIGlet has its fonts, relative to the mount.
    pub(crate) fn figlet_place() -> String {
        format!("{APT}/usr/share/figlet")
    }

    /// Where the step that unpacks ImageMagick makes links to its modules and settings, whatever its version.
    pub(crate) fn magick_place() -> String {
        format!("{APT}/usr/lib/{}/magick", triplet())
    }
}

/// What a session's shell gets besides its own variables (UHP Environments §6 rule 3). `entry` is what the owner says of how
/// to run the project: a shell takes no guidance, so it is told in a variable (rule 4).
pub fn session_env(slug: &Slug, entry: &str, installed: Installed) -> BTreeMap<String, String> {
    let mount = slug.mount();
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), project_path(&mount)),
        ("PYTHONPATH".to_owned(), mount.clone()),
        ("NODE_PATH".to_owned(), format!("{mount}/node_modules")),
        // The mount cannot take byte code, and trying costs a failed write per import.
        ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
    ]);
    if installed.venv {
        env.insert("VIRTUAL_ENV".to_owned(), format!("{mount}/.venv"));
    }
    if let Some(packages) = installed.apt {
        add_apt(&mut env, &mount);
        if packages.graphviz {
            env.insert("GVBINDIR".to_owned(), format!("{mount}/{}", SystemPackages::graphviz_place()));
        }
        if packages.figlet {
            env.insert("FIGLET_FONTDIR".to_owned(), format!("{mount}/{}", SystemPackages::figlet_place()));
        }
        if packages.magick {
            let place = format!("{mount}/{}", SystemPackages::magick_place());
            env.insert("MAGICK_CODER_MODULE_PATH".to_owned(), format!("{place}/coders"));
            env.insert("MAGICK_CODER_FILTER_PATH".to_owned(), format!("{place}/filters"));
            env.insert("MAGICK_CONFIGURE_PATH".to_owned(), format!("{place}/etc:{place}/config:{place}/share"));
        }
    }
    env.insert("PROJECT_ROOT".to_owned(), mount);
    if !entry.is_empty() {
        env.insert("PROJECT_ENTRY".to_owned(), entry.to_owned());
    }
    env
}

fn project_path(mount: &str) -> String {
    format!("{mount}/.venv/bin:{mount}/node_modules/.bin:{SYSTEM_PATH}")
}

/// How Debian names the directories of this architecture.
fn triplet() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x86_64-linux-gnu",
        "aarch64" => "aarch64-linux-gnu",
        "x86" => "i386-linux-gnu",
        "arm" => "arm-linux-gnueabihf",
        "powerpc64" => "powerpc64le-linux-gnu",
        "riscv64" => "riscv64-linux-gnu",
        "s390x" => "s390x-linux-gnu",
        "loongarch64" => "loongarch64-linux-gnu",
        _ => "linux-gnu",
    }
}

/// Makes the unpacked system packages beneath `mount` findable: programs right before the system's own, libraries, headers, data. Most
/// programs that have a search path for their data take `XDG_DATA_DIRS`; those with a path of their own are named one by one.
/// The step that unpacks them makes `bin`, `sbin` and `lib` links into `usr`, so that each is in one place.
pub(crate) fn add_apt(env: &mut BTreeMap<String, String>, mount: &str) {
    let (root, triplet) = (format!("{mount}/{APT}/usr"), triplet());
    let within = |places: &[&str]| places.iter().map(|place| format!("{root}/{place}")).collect::<Vec<_>>().join(":");
    let programs = within(&["bin", "sbin", "games"]);
    let path = match env.get("PATH").map(String::as_str) {
        Some(path) => match path.strip_suffix(SYSTEM_PATH) {
            Some(front) => format!("{front}{programs}:{SYSTEM_PATH}"),
            None => format!("{path}:{programs}"),
        },
        None => format!("{programs}:{SYSTEM_PATH}"),
    };
    env.insert("PATH".to_owned(), path);
    let libraries = within(&[&format!("lib/{triplet}"), "lib"]);
    env.insert("LD_LIBRARY_PATH".to_owned(), libraries.clone());
    env.insert("LIBRARY_PATH".to_owned(), libraries);
    env.insert("CPATH".to_owned(), within(&["include", &format!("include/{triplet}")]));
    let configuration = ["pkgconfig".to_owned(), format!("{triplet}/pkgconfig")].map(|place| format!("lib/{place}"));
    env.insert("PKG_CONFIG_PATH".to_owned(), within(&[&configuration[1], &configuration[0], "share/pkgconfig"]));
    env.insert("XDG_DATA_DIRS".to_owned(), format!("{root}/share:/usr/local/share:/usr/share"));
    env.insert("COWPATH".to_owned(), format!("{root}/share/cowsay/cows:/usr/share/cowsay/cows"));
    env.insert("PERL5LIB".to_owned(), within(&["share/perl5", &format!("lib/{triplet}/perl5/current")]));
}

/// The environment of an installer. The project's own programs are not on its path: a package that ships a `node` or a
/// `bash` must not become part of the next install.
pub(crate) fn installer_env(settings: &BuildSettings) -> BTreeMap<String, String> {
    let mut env = build_env(settings);
    env.insert("PATH".to_owned(), SYSTEM_PATH.to_owned());
    env
}

/// The environment of `setup.sh`: a session's, and what a build adds.
pub(crate) fn setup_env(settings: &BuildSettings, installed: Installed) -> BTreeMap<String, String> {
    let mut env = build_env(settings);
    env.extend(session_env(&settings.slug, &settings.entry, installed));
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
        // Installers fail at once and say why, instead of trying a name that cannot resolve for minutes.
        BuildNetworkPolicy::Disabled => {
            for (name, value) in [("PIP_NO_INDEX", "1"), ("UV_OFFLINE", "1"), ("npm_config_offline", "true")] {
                env.insert(name.to_owned(), value.to_owned());
            }
        }
        _ => {
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
                env.insert(name.to_owned(), settings.proxy.clone());
            }
            for name in ["NO_PROXY", "no_proxy"] {
                env.insert(name.to_owned(), "localhost,127.0.0.1".to_owned());
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
        let env = session_env(&slug, " python3 run.py\n# x=\"$1\" ", Installed { venv: true, apt: None });
        assert!(env["PATH"].starts_with("/env/content-studio/.venv/bin:/env/content-studio/node_modules/.bin:/"));
        assert_eq!(env["PYTHONPATH"], "/env/content-studio");
        assert_eq!(env["NODE_PATH"], "/env/content-studio/node_modules");
        assert_eq!(env["PROJECT_ROOT"], "/env/content-studio");
        assert_eq!(env["PROJECT_ENTRY"], " python3 run.py\n# x=\"$1\" ");
        assert_eq!(env["VIRTUAL_ENV"], "/env/content-studio/.venv");
        let bare = session_env(&slug, "", Installed::default());
        assert!(!bare.contains_key("PROJECT_ENTRY"));
        assert!(!bare.contains_key("VIRTUAL_ENV") && !bare.contains_key("LD_LIBRARY_PATH"));
    }

    #[test]
    fn system_packages_come_before_the_system_and_after_the_project() {
        let slug = Slug::from_name("a").unwrap();
        let env = session_env(&slug, "", Installed { venv: false, apt: Some(SystemPackages::default()) });
        let expected = format!(
            "/env/a/.venv/bin:/env/a/node_modules/.bin:/env/a/apt/usr/bin:/env/a/apt/usr/sbin:/env/a/apt/usr/games:{SYSTEM_PATH}"
        );
        assert_eq!(env["PATH"], expected);
        let library = format!("/env/a/apt/usr/lib/{}", triplet());
        assert_eq!(env["LD_LIBRARY_PATH"], format!("{library}:/env/a/apt/usr/lib"));
        assert!(env["PKG_CONFIG_PATH"].starts_with(&format!("{library}/pkgconfig:")));
        assert!(!env.contains_key("GVBINDIR") && !env.contains_key("MAGICK_CONFIGURE_PATH"));
        assert!(env["XDG_DATA_DIRS"].starts_with("/env/a/apt/usr/share:/") && !env.contains_key("FIGLET_FONTDIR"));
        let all = SystemPackages { graphviz: true, magick: true, figlet: true };
        let env = session_env(&slug, "", Installed { venv: false, apt: Some(all) });
        assert_eq!(env["FIGLET_FONTDIR"], "/env/a/apt/usr/share/figlet");
        assert_eq!(
            (&env["GVBINDIR"], &env["MAGICK_CODER_MODULE_PATH"]),
            (&format!("{library}/graphviz"), &format!("{library}/magick/coders"))
        );
        let mut installer = installer_env(&BuildSettings::new(slug));
        add_apt(&mut installer, "/env/a");
        assert!(installer["PATH"].starts_with("/env/a/apt/usr/bin:") && installer["PATH"].ends_with(SYSTEM_PATH));
        assert!(installer["CPATH"].starts_with("/env/a/apt/usr/include:"));
    }

    #[test]
    fn the_network_policy_decides_between_proxy_and_offline() {
        let slug = Slug::from_name("a").unwrap();
        let mut settings = BuildSettings::new(slug);
        let open = installer_env(&settings);
        assert_eq!((open["https_proxy"].as_str(), open.contains_key("UV_OFFLINE")), ("http://127.0.0.1:3128", false));
        assert!(!open.contains_key("PIP_INDEX_URL") && !open["PATH"].contains(".venv"));
        settings.network = BuildNetworkPolicy::Disabled;
        settings.python_index = Some("https://u:p@h/simple".into());
        let shut = installer_env(&settings);
        assert!(!shut.contains_key("https_proxy") && shut.contains_key("PIP_NO_INDEX"));
        assert_eq!(shut["UV_DEFAULT_INDEX"], "https://u:p@h/simple");
        settings.entry = "run".to_owned();
        let setup = setup_env(&settings, Installed { venv: true, apt: None });
        assert!(setup["PATH"].starts_with("/env/a/.venv/bin") && setup["PROJECT_ENTRY"] == "run");
        assert!(
            !installer_env(&settings).contains_key("PROJECT_ENTRY"),
            "what is said of a project installs nothing anew"
        );
    }
}
