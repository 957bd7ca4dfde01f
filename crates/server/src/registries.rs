//! The package registries that this machine's own tools are configured to use.

use std::process::{Command, Stdio};

const PYTHON: &str = "/usr/bin/python3";
const NPM: &str = "/usr/bin/npm";

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

/// The npm registry in effect.
pub(crate) fn npm_registry() -> Option<String> {
    ask(NPM, &["config", "get", "registry"])
}

fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        // What is asked for is the machine's configuration, not that of a project somebody happened to start us in, and
        // asking leaves no log of npm's.
        .current_dir("/")
        .env("npm_config_logs_max", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && text.starts_with("http")).then(|| text.to_owned())
}
