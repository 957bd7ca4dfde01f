//! `pyproject.toml`: enough of it to key a build's layers.

use toml::{Table, Value};

use super::text::{TextError, decode};

/// A parsed `pyproject.toml`. Fields of the wrong type count as absent; the build backend will say so better.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pyproject {
    /// Whether there is a `[project]` table.
    pub has_project: bool,
    /// Whether there is a `[build-system]` table. With neither, the file only configures tools.
    pub has_build_system: bool,
    /// `project.name`.
    pub name: Option<String>,
    /// `project.version`.
    pub version: Option<String>,
    /// `project.requires-python`.
    pub requires_python: Option<String>,
    /// `project.dependencies`.
    pub dependencies: Vec<String>,
    /// `project.dynamic`.
    pub dynamic: Vec<String>,
    /// `build-system.requires`.
    pub build_requires: Vec<String>,
    /// `build-system.build-backend`.
    pub build_backend: Option<String>,
    /// `build-system.backend-path`: the backend itself is part of the source.
    pub backend_path: Vec<String>,
    /// Files that the metadata names: `readme`, `license.file`, `license-files` (patterns).
    pub metadata_files: Vec<String>,
    /// What `tool.uv.package` or `tool.poetry.package-mode` says: whether the project is a package at all.
    pub is_package: Option<bool>,
    /// The package indexes that `tool.uv` names.
    pub named_indexes: Vec<String>,
}

/// Why a `pyproject.toml` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PyprojectError {
    /// Its bytes are no text.
    #[error("pyproject.toml is unreadable")]
    Text(#[source] TextError),
    /// It is not TOML; the text names the place.
    #[error("pyproject.toml is not valid TOML: {0}")]
    Syntax(String),
}

impl Pyproject {
    /// Parses the file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, PyprojectError> {
        let text = decode(bytes).map_err(PyprojectError::Text)?;
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            PyprojectError::Syntax(format!("line {line}: {}", error.message()))
        })?;
        let project = table.get("project").and_then(Value::as_table);
        let build = table.get("build-system").and_then(Value::as_table);
        let mut metadata_files: Vec<String> = Vec::new();
        if let Some(project) = project {
            metadata_files.extend(string_or_file(project.get("readme"), true));
            metadata_files.extend(string_or_file(project.get("license"), false));
            metadata_files.extend(strings(project.get("license-files")));
        }
        let tool = table.get("tool").and_then(Value::as_table);
        let of_tool = |name: &str, key: &str| tool.and_then(|tool| tool.get(name)?.get(key));
        let of_project = |key: &str| project.and_then(|table| table.get(key));
        let of_build = |key: &str| build.and_then(|table| table.get(key));
        Ok(Self {
            has_project: project.is_some(),
            has_build_system: build.is_some(),
            name: string(of_project("name")),
            version: string(of_project("version")),
            requires_python: string(of_project("requires-python")),
            dependencies: strings(of_project("dependencies")),
            dynamic: strings(of_project("dynamic")),
            build_requires: strings(of_build("requires")),
            build_backend: string(of_build("build-backend")),
            backend_path: strings(of_build("backend-path")),
            metadata_files,
            is_package: [("uv", "package"), ("poetry", "package-mode")]
                .into_iter()
                .find_map(|(name, key)| of_tool(name, key).and_then(Value::as_bool)),
            named_indexes: tool.and_then(|tool| tool.get("uv")?.as_table()).map(named_indexes).unwrap_or_default(),
        })
    }

    /// Whether `pip install .` would find a project here.
    pub fn is_installable(&self) -> bool {
        self.has_project || self.has_build_system
    }

    /// The dependencies, if they can be known without running the build backend and name nothing local.
    pub fn static_dependencies(&self) -> Option<Vec<String>> {
        let is_static = self.has_project
            && !self.dynamic.iter().any(|field| field == "dependencies")
            && !self.dependencies.iter().any(|dependency| dependency.contains("file:"));
        is_static.then(|| self.dependencies.clone())
    }
}

/// `index = [{ url = "…" }]`, and the options that came before it.
fn named_indexes(uv: &Table) -> Vec<String> {
    let tables = uv.get("index").and_then(Value::as_array).into_iter().flatten();
    let mut urls: Vec<String> = tables.filter_map(|index| string(index.get("url"))).collect();
    urls.extend(string(uv.get("index-url")));
    urls.extend(strings(uv.get("extra-index-url")));
    urls
}

fn string(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A file named as `{ file = "…" }` or, where the specification lets a string mean a file, as a string.
fn string_or_file(value: Option<&Value>, string_is_file: bool) -> Option<String> {
    match value? {
        Value::String(file) if string_is_file => Some(file.clone()),
        Value::Table(table) => string(table.get("file")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_and_dynamic_dependencies_are_told_apart() {
        let parsed = Pyproject::parse(
            b"\xef\xbb\xbf[project]\nname = 'a'\nreadme = 'README.md'\nlicense = {file = 'L'}\ndependencies = ['b>=1']\n",
        )
        .unwrap();
        assert_eq!(parsed.static_dependencies(), Some(vec!["b>=1".to_owned()]));
        assert_eq!(parsed.metadata_files, ["README.md", "L"]);
        assert!(parsed.is_installable() && !parsed.has_build_system);
        let dynamic = Pyproject::parse(b"[project]\nname='a'\ndynamic=['dependencies']").unwrap();
        assert_eq!(dynamic.static_dependencies(), None);
        let text = b"[tool.uv]\npackage=false\nextra-index-url=['u2']\n[[tool.uv.index]]\nname='x'\nurl='u1'\n";
        let uv = Pyproject::parse(text).unwrap();
        assert_eq!((uv.is_package, uv.named_indexes), (Some(false), vec!["u1".to_owned(), "u2".to_owned()]));
        let tools = Pyproject::parse(b"[tool.black]\nline-length = 100").unwrap();
        assert!(!tools.is_installable() && tools.static_dependencies().is_none());
        let wrong = Pyproject::parse(b"[project]\nname = 1\ndependencies = 'x'").unwrap();
        assert_eq!((wrong.name, wrong.dependencies), (None, vec![]));
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let error = Pyproject::parse(b"[project]\nname = \n").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
