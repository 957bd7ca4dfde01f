//! The configuration as the program uses it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use stead_domain::network::{BuildNetworkPolicy, NetworkPolicy};
use stead_domain::ports::SandboxLimits;
use stead_engine::{CollectionSettings, Quotas};
use stead_store::DatabaseUrl;

use super::directory::default_data_directory;
use super::layers::{ConfigErrors, Sourced};
use super::level;
use super::network::{self, SessionPorts};
use super::reader::Reader;

/// Everything that `stead serve` is told. What each value means is documented in `config.default.toml`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `[server]`
    pub server: ServerSettings,
    /// `data.directory`, resolved.
    pub data_directory: PathBuf,
    /// `[database]`
    pub database: DatabaseSettings,
    /// `runtime.path`, resolved.
    pub runtime_path: PathBuf,
    /// Whether the operator chose that program, in place of the one that came with this one.
    pub runtime_chosen: bool,
    /// `[native]`
    pub native: NativeSettings,
    /// `[sessions]`
    pub sessions: SessionSettings,
    /// `[builds]`
    pub builds: BuildSettings,
    /// `[git]`
    pub git: GitSettings,
    /// `[limits]`
    pub limits: LimitSettings,
    /// `[collection]`, and `projects.keep_versions`
    pub collection: CollectionSettings,
    /// `[quotas]`
    pub quotas: Quotas,
    /// `telemetry.otlp_endpoint`
    pub otlp_endpoint: Option<String>,
    /// `audit.keep`
    pub audit_keep: Duration,
    /// `[log]`
    pub log: LogSettings,
}

/// `[server]`
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Names a Host header may carry, lower case, without a port.
    pub hosts: Vec<String>,
    /// How long requests may finish after a signal.
    pub shutdown_grace: Duration,
    /// Where numbers and health are served without a key.
    pub metrics_listen: Option<SocketAddr>,
}

/// `[database]`
#[derive(Debug, Clone)]
pub struct DatabaseSettings {
    /// Where rows are kept.
    pub url: DatabaseUrl,
}

/// `[native]`
#[derive(Debug, Clone)]
pub struct NativeSettings {
    /// The first host user id of environments; none: free ones are found.
    pub uid_base: Option<u32>,
    /// How many environments and build steps at once.
    pub slots: u32,
    /// How many of them one workspace may have; none: half.
    pub workspace_slots: Option<u32>,
    /// Limits of one environment.
    pub limits: SandboxLimits,
    /// What a sandbox may read or write in a second, in bytes.
    pub disk_rate: Option<u64>,
    /// How much of the disk stays free, in bytes.
    pub disk_reserve: u64,
    /// Certificate authorities shown in place of the host's own.
    pub ca_bundle: Option<PathBuf>,
}

/// `[sessions]`
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// What sessions may reach.
    pub network: NetworkPolicy,
    /// The ports that an enabled network opens.
    pub ports: SessionPorts,
    /// Wall-clock budget of a turn.
    pub time_limit: Duration,
    /// The longest that a turn waits until its environment runs.
    pub start_wait: Duration,
    /// How long an environment stays up after its last turn.
    pub idle_stop: Duration,
    /// How long a sandbox outlives a server that is gone.
    pub orphan_grace: Duration,
    /// Raw output of one turn, in bytes.
    pub output_bytes: u64,
}

/// `[builds]`
#[derive(Debug, Clone)]
pub struct BuildSettings {
    /// Wall-clock limit of one build step.
    pub time_limit: Duration,
    /// How many builds at once.
    pub slots: usize,
    /// Limits of one build step.
    pub limits: SandboxLimits,
    /// What one command of a build step may say, in bytes.
    pub output_bytes: u64,
    /// The longest that a layer of unpinned packages is taken again.
    pub layer_age: Duration,
    /// What builds reach when their project says nothing.
    pub network: BuildNetworkPolicy,
    /// What a project may let its builds reach at most.
    pub network_limit: BuildNetworkPolicy,
    /// Registries besides those that the installers use by themselves.
    pub registries: Vec<String>,
    /// Registries whose addresses the deny list may cover.
    pub registry_hosts: Vec<String>,
    /// The Python package index.
    pub index_url: Option<String>,
    /// The npm registry.
    pub npm_registry: Option<String>,
}

/// `[git]`
#[derive(Debug, Clone)]
pub struct GitSettings {
    /// Hosts whose addresses the deny list may cover.
    pub allowed_hosts: Vec<String>,
    /// The longest that an import may take.
    pub time_limit: Duration,
    /// How many imports at once.
    pub slots: usize,
}

/// `[limits]`, in bytes unless said otherwise.
#[derive(Debug, Clone, Copy)]
pub struct LimitSettings {
    /// The largest file of a project.
    pub file: u64,
    /// The largest archive.
    pub import: u64,
    /// An archive, unpacked.
    pub import_expanded: u64,
    /// Members of an archive.
    pub import_members: u64,
    /// The largest upload.
    pub upload: u64,
    /// The largest JSON body.
    pub json: u64,
    /// The largest text of a task.
    pub input: u64,
}

/// `[log]`
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// How lines look.
    pub format: LogFormat,
    /// Which lines there are.
    pub level: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Settings {
    pub(super) fn read(values: BTreeMap<String, Sourced>, errors: Vec<String>) -> Result<Self, ConfigErrors> {
        let mut reader = Reader::new(values, errors);
        let data_directory = reader.path("data.directory").unwrap_or_else(default_data_directory);
        let runtime = reader.path("runtime.path");
        let settings = Self {
            server: server(&mut reader),
            database: database(&mut reader, &data_directory),
            runtime_chosen: runtime.is_some(),
            runtime_path: runtime.unwrap_or_else(beside_this_program),
            native: native(&mut reader),
            sessions: SessionSettings {
                network: network::of_sessions(&mut reader),
                ports: network::ports(&mut reader),
                time_limit: reader.duration("sessions.time_limit"),
                start_wait: reader.duration("sessions.start_wait"),
                idle_stop: reader.duration("sessions.idle_stop"),
                orphan_grace: reader.duration("sessions.orphan_grace"),
                output_bytes: reader.size("sessions.output"),
            },
            builds: builds(&mut reader),
            git: git(&mut reader),
            limits: LimitSettings {
                file: reader.size("limits.file"),
                import: reader.size("limits.import"),
                import_expanded: reader.size("limits.import_expanded"),
                import_members: reader.count("limits.import_members", 1, 10_000_000),
                upload: reader.size("limits.upload"),
                json: reader.size("limits.json"),
                input: reader.size("limits.input"),
            },
            collection: collection(&mut reader),
            quotas: Quotas {
                blob_bytes: reader.optional_size("quotas.blobs"),
                version_bytes: reader.optional_size("quotas.versions"),
                projects: Some(reader.count("quotas.projects", 1, 10_000_000)),
                source_files: Some(reader.count("quotas.source_files", 1, 10_000_000)),
            },
            otlp_endpoint: otlp_endpoint(&mut reader),
            audit_keep: reader.duration("audit.keep"),
            log: log(&mut reader),
            data_directory,
        };
        // Bytes that were stored and are not named yet must outlive the longest that their naming takes.
        let limits = [("builds.time_limit", settings.builds.time_limit), ("git.time_limit", settings.git.time_limit)];
        for (name, limit) in limits {
            if settings.collection.grace < limit {
                let why = format!("it must be at least `{name}`, so that nothing goes which is still to be named");
                reader.refuse("collection.grace", why);
            }
        }
        for key in std::mem::take(&mut reader.unread) {
            reader.errors.push(format!("{key}: the option is documented but does nothing"));
        }
        if reader.errors.is_empty() { Ok(settings) } else { Err(ConfigErrors(reader.errors)) }
    }
}

fn server(reader: &mut Reader) -> ServerSettings {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen = reader.parsed("server.listen", loopback, |text| {
        text.parse::<SocketAddr>()
            .map_err(|_| format!("`{text}` is not an address with a port, such as 127.0.0.1:7077"))
    });
    let allow_plaintext = reader.flag("server.allow_plaintext");
    if !listen.ip().is_loopback() && !allow_plaintext {
        let why = format!("{listen} is beyond loopback, where plain HTTP needs `server.allow_plaintext = true`");
        reader.refuse("server.listen", why);
    }
    let mut hosts = Vec::new();
    for host in reader.list("server.hosts") {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':');
        let has_port = !host.starts_with('[') && host.contains(':');
        if host.is_empty() || !host.chars().all(allowed) || has_port {
            reader.refuse("server.hosts", format!("`{host}` is not a host name or address without a port"));
        }
        hosts.push(host.to_ascii_lowercase());
    }
    let shutdown_grace = reader.duration("server.shutdown_grace");
    ServerSettings { listen, hosts, shutdown_grace, metrics_listen: metrics_listen(reader) }
}

/// No key is asked for there, so beyond loopback it has to be meant.
fn metrics_listen(reader: &mut Reader) -> Option<SocketAddr> {
    let text = reader.optional("server.metrics_listen")?;
    let Ok(address) = text.parse::<SocketAddr>() else {
        let why = format!("`{text}` is not an address with a port, such as 127.0.0.1:7078");
        reader.refuse("server.metrics_listen", why);
        return None;
    };
    if !address.ip().is_loopback() && !reader.flag("server.allow_plaintext") {
        let why = format!("{address} is beyond loopback, where plain HTTP needs `server.allow_plaintext = true`");
        reader.refuse("server.metrics_listen", why);
    }
    Some(address)
}

fn database(reader: &mut Reader, data_directory: &std::path::Path) -> DatabaseSettings {
    let default = DatabaseUrl::Sqlite(data_directory.join("stead.db"));
    let url = reader.parsed("database.url", default.clone(), |text| {
        if text.is_empty() { Ok(default) } else { text.parse::<DatabaseUrl>() }
    });
    DatabaseSettings { url }
}

fn native(reader: &mut Reader) -> NativeSettings {
    let uid_base = reader.count("native.uid_base", 0, u64::from(u32::MAX)) as u32;
    let slots = reader.count("native.slots", 1, 65_535) as u32;
    if (1..65_536).contains(&uid_base) {
        reader.refuse("native.uid_base", format!("{uid_base} is among the ids of accounts; they end at 65535"));
    }
    // The last user id means "none" to the kernel.
    if u64::from(uid_base.max(65_536)) + u64::from(slots) * 65_536 > u64::from(u32::MAX) {
        reader.refuse("native.slots", format!("{slots} slots from user id {uid_base} on go beyond the last user id"));
    }
    let workspace_slots = reader.count("native.workspace_slots", 0, u64::from(slots)) as u32;
    NativeSettings {
        uid_base: Some(uid_base).filter(|base| *base != 0),
        slots,
        workspace_slots: Some(workspace_slots).filter(|slots| *slots != 0),
        limits: SandboxLimits {
            memory_bytes: reader.size("native.memory"),
            processes: reader.count("native.processes", 4, 4_194_304),
            cpu_millis: reader.millis_of_cores("native.cpu"),
            open_files: reader.count("native.open_files", 64, 1_048_576),
            disk_bytes: reader.size("native.disk"),
            disk_files: reader.count("native.disk_files", 16, 1_000_000_000),
        },
        disk_rate: reader.optional_size("native.disk_rate"),
        disk_reserve: reader.size("native.disk_reserve"),
        ca_bundle: reader.path("native.ca_bundle"),
    }
}

fn builds(reader: &mut Reader) -> BuildSettings {
    BuildSettings {
        time_limit: reader.duration("builds.time_limit"),
        slots: reader.count("builds.slots", 1, 1024) as usize,
        limits: SandboxLimits {
            memory_bytes: reader.size("builds.memory"),
            processes: reader.count("builds.processes", 4, 4_194_304),
            cpu_millis: reader.millis_of_cores("builds.cpu"),
            open_files: reader.count("native.open_files", 64, 1_048_576),
            disk_bytes: reader.size("builds.disk"),
            disk_files: reader.count("builds.disk_files", 16, 1_000_000_000),
        },
        output_bytes: reader.size("builds.output"),
        layer_age: reader.duration("builds.layer_age"),
        network: network::of_builds(reader),
        network_limit: network::limit_of_builds(reader),
        registries: network::registries(reader),
        registry_hosts: reader.list("builds.registry_hosts"),
        index_url: web_address(reader, "builds.index_url"),
        npm_registry: web_address(reader, "builds.npm_registry"),
    }
}

fn collection(reader: &mut Reader) -> CollectionSettings {
    CollectionSettings {
        every: reader.duration("collection.every"),
        grace: reader.duration("collection.grace"),
        keep_versions: reader.count("projects.keep_versions", 0, 1_000_000) as usize,
        uploads: reader.optional_duration("collection.uploads"),
    }
}

fn git(reader: &mut Reader) -> GitSettings {
    let allowed_hosts = reader.list("git.allowed_hosts");
    for host in &allowed_hosts {
        if host.parse::<stead_outbound::Host>().is_err() {
            reader.refuse("git.allowed_hosts", format!("`{host}` is not a host name or address without a port"));
        }
    }
    GitSettings {
        allowed_hosts,
        time_limit: reader.duration("git.time_limit"),
        slots: reader.count("git.slots", 1, 1024) as usize,
    }
}

fn web_address(reader: &mut Reader, key: &str) -> Option<String> {
    let address = reader.optional(key)?;
    match reqwest::Url::parse(&address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {}
        _ => reader.refuse(key, format!("`{address}` is not an http or https address")),
    }
    Some(address)
}

fn otlp_endpoint(reader: &mut Reader) -> Option<String> {
    let address = web_address(reader, "telemetry.otlp_endpoint");
    if address.is_some() && !cfg!(feature = "otlp") {
        reader.refuse("telemetry.otlp_endpoint", "this program was built without the feature `otlp`");
    }
    address
}

fn log(reader: &mut Reader) -> LogSettings {
    let format = reader.parsed("log.format", LogFormat::Text, |text| match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("`{other}` is neither \"text\" nor \"json\"")),
    });
    let level = reader.text("log.level");
    if let Err(why) = level::check(&level) {
        reader.refuse("log.level", why);
    }
    LogSettings { format, level }
}

fn beside_this_program() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.with_file_name("stead-runtime")
}

#[cfg(test)]
mod tests {
    use super::super::{DEFAULT, Flag, Layers};

    #[test]
    fn every_option_has_a_default_is_read_and_is_documented() {
        // Reading refuses an option without a default and one that nothing reads.
        Layers::new().settings().unwrap();
        let lines: Vec<&str> = DEFAULT.lines().collect();
        let mut options = 0;
        for (index, line) in lines.iter().enumerate() {
            if line.contains(" = ") && !line.starts_with('#') {
                options += 1;
                assert!(lines[index - 1].starts_with("# "), "`{line}` has no comment above it");
            }
        }
        assert!(options > 30);
    }

    #[test]
    fn later_layers_win() {
        let mut layers = Layers::new();
        layers.text("[server]\nlisten = \"127.0.0.1:1\"\nhosts = [\"A.example\"]\n[native]\ncpu = 1", "stead.toml");
        let variables = [("STEAD__SERVER__LISTEN", "127.0.0.1:2"), ("STEAD__LIMITS__FILE", "1KiB"), ("STEAD_URL", "x")];
        layers.environment(variables.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())));
        layers.flags(&[Flag { key: "server.listen", value: "127.0.0.1:3".into(), flag: "--listen" }]);
        let settings = layers.settings().unwrap();
        assert_eq!(settings.server.listen.port(), 3);
        assert_eq!(settings.server.hosts, ["a.example"]);
        assert_eq!((settings.limits.file, settings.native.limits.cpu_millis), (1024, 1000));
        let mut layers = Layers::new();
        layers.text("[database]\nurl = \"postgres://me:hunter2@db/stead\"", "stead.toml");
        assert!(!format!("{:?}", layers.settings().unwrap()).contains("hunter2"));
    }

    #[test]
    fn everything_wrong_is_reported_at_once_with_key_and_source() {
        let mut layers = Layers::new();
        let file = "[server]\nlisten = \"0.0.0.0:80\"\nlisen = 1\n[sessions]\nnetwork = \"maybe\"\nidle_stop = \"5\"\n[builds]\nslots = 0";
        layers.text(file, "stead.toml");
        layers.environment([("STEAD__NATIVE__SLOTS".to_owned(), "many".to_owned())].into_iter());
        let errors = layers.settings().unwrap_err().0.join("\n");
        for expected in [
            "server.lisen (stead.toml): there is no such option",
            "server.listen (stead.toml): 0.0.0.0:80 is beyond loopback",
            "sessions.network (stead.toml): `maybe`",
            "sessions.idle_stop (stead.toml): `5` is not a duration",
            "builds.slots (stead.toml): 0 is not between 1 and 1024",
            "native.slots (STEAD__NATIVE__SLOTS): `many` is not a whole number",
        ] {
            assert!(errors.contains(expected), "missing: {expected}\nin:\n{errors}");
        }
    }

    #[test]
    fn what_is_collected_has_been_nameable_for_long_enough() {
        let of = |text: &str| {
            let mut layers = Layers::new();
            layers.text(text, "stead.toml");
            layers.settings()
        };
        let settings = of("[quotas]\nblobs = \"2GiB\"\n[projects]\nkeep_versions = 0").unwrap();
        assert_eq!((settings.quotas.blob_bytes, settings.quotas.version_bytes), (Some(2 << 30), None));
        assert_eq!(settings.collection.keep_versions, 0);
        let short = |section: &str| format!("[{section}]\ntime_limit = \"2s\"\n");
        assert!(of(&format!("{}{}[collection]\ngrace = \"2s\"", short("builds"), short("git"))).is_ok());
        for section in ["builds", "git"] {
            let error = of(&format!("[{section}]\ntime_limit = \"25h\"")).unwrap_err().to_string();
            let name = format!("`{section}.time_limit`");
            assert!(error.contains("collection.grace (default)") && error.contains(&name), "{error}");
        }
    }

    #[test]
    fn broken_toml_names_its_file() {
        let mut layers = Layers::new();
        layers.text("[server\n", "stead.toml");
        assert!(layers.settings().unwrap_err().to_string().contains("stead.toml: "));
    }
}
