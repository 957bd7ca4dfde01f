//! `.yarnrc` of classic Yarn and `.yarnrc.yml` of its successors: what they make an install run.

use serde_json::Value;

use super::package_json::string;
use super::pnpm_lock::beneath;
use super::text::{TextError, decode};
use super::yaml::{self, YamlError};

/// Where the releases lie that Yarn itself puts into a project.
const RELEASES: &str = ".yarn/releases/";

/// What either file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct YarnSettings {
    /// A directory of the source, relative to the root, that archives of packages are taken from.
    pub archives: Option<String>,
    /// `injectEnvironmentFiles`, relative to the root; none where the file does not say.
    pub environment_files: Option<Vec<String>>,
    /// The Yarn that the project brings and that runs instead, relative to the root.
    pub release: Option<String>,
    /// `nodeLinker`.
    pub linker: Option<String>,
    /// Whether an install runs plugins or another program of the source, or reads or writes elsewhere because of it.
    pub needs_whole_source: bool,
}

impl YarnSettings {
    /// Parses a `.yarnrc`: a name and a value a line.
    pub fn parse_classic(bytes: &[u8]) -> Result<Self, TextError> {
        let mut settings = Self::default();
        for line in decode(bytes)?.lines() {
            let Some((name, value)) = line.trim().split_once([' ', '\t']) else { continue };
            match name.trim_matches('"').trim_start_matches("--").trim_start_matches("install.") {
                "yarn-offline-mirror" => settings.add_archives(value.trim().trim_matches('"')),
                "yarn-path" => settings.add_release(value.trim().trim_matches('"')),
                "modules-folder" | "cwd" | "script-shell" | "link-folder" | "use-yarnrc" => {
                    settings.needs_whole_source = true;
                }
                _ => {}
            }
        }
        Ok(settings)
    }

    /// Parses a `.yarnrc.yml`.
    pub fn parse(bytes: &[u8]) -> Result<Self, YamlError> {
        let root = yaml::mapping(bytes)?;
        let mut settings = Self { linker: string(&root, "nodeLinker"), ..Self::default() };
        if let Some(path) = string(&root, "yarnPath") {
            settings.add_release(&path);
        }
        if let Some(path) = string(&root, "cacheFolder") {
            settings.add_archives(&path);
        }
        if let Some(list) = root.get("injectEnvironmentFiles") {
            let named = list.as_array().into_iter().flatten().filter_map(Value::as_str);
            // A question mark lets the file be absent.
            let paths: Vec<Option<String>> = named.map(|path| beneath(path.trim_end_matches('?'))).collect();
            settings.needs_whole_source |= paths.contains(&None);
            settings.environment_files = Some(paths.into_iter().flatten().collect());
        }
        let runs = root.get("plugins").is_some_and(|plugins| plugins != &Value::Array(Vec::new()));
        // An address's own certificates, and other places for what lies in the root.
        let elsewhere = root.iter().any(|(key, value)| {
            let is_place = key.ends_with("Path") && key != "yarnPath";
            is_place || value.to_string().contains("FilePath") || key == "lockfileFilename"
        });
        settings.needs_whole_source |= runs || elsewhere;
        Ok(settings)
    }

    /// A place elsewhere than in the source is empty in a build.
    fn add_archives(&mut self, path: &str) {
        self.archives = beneath(path).map(|path| path.trim_end_matches('/').to_owned());
    }

    fn add_release(&mut self, path: &str) {
        match beneath(path) {
            // What Yarn puts there is one file that reads nothing beside itself.
            Some(path) if path.starts_with(RELEASES) => self.release = Some(path),
            _ => {
                self.release = Some(path.to_owned());
                self.needs_whole_source = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_files_and_plugins_need_the_source() {
        let release = ".yarn/releases/yarn-1.22.22.cjs";
        let classic = format!("# x\nlastUpdateCheck 1\nyarn-path \"./{release}\"\n--install.frozen-lockfile true\n");
        let classic = YarnSettings::parse_classic(classic.as_bytes()).unwrap();
        let expected = YarnSettings { release: Some(release.to_owned()), ..YarnSettings::default() };
        assert_eq!(classic, expected);
        let later = format!("nodeLinker: pnp\nyarnPath: {release}\nplugins: []\n");
        let later = YarnSettings::parse(later.as_bytes()).unwrap();
        assert_eq!(later, YarnSettings { linker: Some("pnp".to_owned()), ..expected });
        for text in
            ["plugins:\n  - path: .yarn/plugins/a.cjs\n", "yarnPath: tools/yarn.js\n", "httpsCaFilePath: ./ca\n"]
        {
            assert!(YarnSettings::parse(text.as_bytes()).unwrap().needs_whole_source, "{text}");
        }
        assert!(YarnSettings::parse_classic(b"--modules-folder lib\n").unwrap().needs_whole_source);
    }

    #[test]
    fn archives_and_environments_are_named() {
        let classic = YarnSettings::parse_classic(b"yarn-offline-mirror \"./offline/\"\n").unwrap();
        assert_eq!(classic.archives.as_deref(), Some("offline"));
        assert_eq!(YarnSettings::parse_classic(b"yarn-offline-mirror \"../x\"\n").unwrap().archives, None);
        let later = b"cacheFolder: ./archives\ninjectEnvironmentFiles: ['.env.yarn?', ./conf/env]\n";
        let later = YarnSettings::parse(later).unwrap();
        assert_eq!(later.archives.as_deref(), Some("archives"));
        assert_eq!(later.environment_files, Some(vec![".env.yarn".to_owned(), "conf/env".to_owned()]));
        assert!(!later.needs_whole_source);
        assert!(YarnSettings::parse(b"injectEnvironmentFiles: ['${X}/../a']\n").unwrap().needs_whole_source);
    }
}
