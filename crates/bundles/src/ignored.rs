//! Manifests that a build installs nothing from: an importer is told of them, because nothing else will.
//!
//! Looked at are the root and the directories right beneath it. Where it cannot be told from the names whether something
//! else reads a manifest, nothing is said.

/// A manifest that a build does not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredManifest<'a> {
    /// Where it lies.
    pub path: &'a str,
    /// Why nothing is installed from it.
    pub reason: &'static str,
}

const BUN: &str = "Bun is not supported: a build fails unless there is another lock, or `packageManager` in package.json names npm, pnpm or yarn";

/// Names whose packages Stead has no installer for.
const FOREIGN: &[(&str, &str)] = &[
    ("environment.yml", "conda environments are not made"),
    ("environment.yaml", "conda environments are not made"),
    ("conda.yaml", "conda environments are not made"),
    ("Gemfile", "Ruby packages are not installed"),
    ("go.mod", "Go modules are not fetched"),
    ("Cargo.toml", "Rust crates are not built"),
    ("composer.json", "PHP packages are not installed"),
    ("pom.xml", "Java packages are not installed"),
    ("build.gradle", "Java packages are not installed"),
    ("build.gradle.kts", "Java packages are not installed"),
    ("mix.exs", "Elixir packages are not installed"),
    ("bun.lock", BUN),
    ("bun.lockb", BUN),
    ("deno.json", "Deno's imports are not fetched"),
];

/// Manifests that count at the root alone.
const ROOT_ONLY: &[&str] =
    &["requirements.txt", "pyproject.toml", "setup.py", "Pipfile", "Pipfile.lock", "package.json", "setup.sh"];

/// Files at the root that may name others which are then read.
const READERS: &[&str] = &["requirements.txt", "pyproject.toml", "package.json", "pnpm-workspace.yaml", "setup.sh"];

/// Whether a path may be a manifest, or may name one: those alone need to be given to [`ignored_manifests`].
pub fn may_be_manifest(path: &str) -> bool {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let known = FOREIGN.iter().any(|(foreign, _)| *foreign == name)
        || ROOT_ONLY.contains(&name)
        || (directory.is_empty()
            && (READERS.contains(&name) || is_other_requirements(name) || locked_by(name).is_some()));
    known && !directory.contains('/') && !matches!(directory, "node_modules" | ".venv" | "venv")
}

/// Whether a path is a file whose text tells what else is read.
pub fn names_others(path: &str) -> bool {
    READERS.contains(&path)
}

/// The manifests among `paths` that a build does not use, in their order. `texts` is the text of every file that
/// [`names_others`].
pub fn ignored_manifests<'a>(paths: &[&'a str], texts: &str) -> Vec<IgnoredManifest<'a>> {
    let at_root = |name: &str| paths.contains(&name);
    let everywhere = ["\"*\"", "'*'", "\"./*\"", "\"**\"", "- *"].iter().any(|pattern| texts.contains(pattern));
    let why = |path: &str| {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let foreign = FOREIGN.iter().find(|(foreign, _)| *foreign == name).map(|(_, reason)| *reason);
        if let Some(reason) = foreign {
            // A setup script may well use it.
            return (!mentions(texts, name)).then_some(reason);
        }
        if !directory.is_empty() {
            let read = everywhere || mentions(texts, directory);
            return (!read).then_some("only manifests at the root are installed from, and none there names this one");
        }
        match name {
            "setup.py" if !at_root("requirements.txt") && !at_root("pyproject.toml") => {
                Some("alone it installs nothing; a requirements.txt with the line `.` installs the project with it")
            }
            _ if is_other_requirements(name) => {
                (!mentions(texts, name)).then_some("requirements.txt does not include it")
            }
            _ => locked_by(name).filter(|manifest| !at_root(manifest)).map(|manifest| match manifest {
                "pyproject.toml" => "there is no pyproject.toml beside it",
                _ => "there is no package.json beside it",
            }),
        }
    };
    paths.iter().filter_map(|path| why(path).map(|reason| IgnoredManifest { path, reason })).collect()
}

fn is_other_requirements(name: &str) -> bool {
    let stem = name.strip_suffix(".txt").unwrap_or_default();
    stem.starts_with("requirements-") || stem.starts_with("requirements_") || stem.ends_with("-requirements")
}

/// The manifest that a lock belongs to.
fn locked_by(name: &str) -> Option<&'static str> {
    match name {
        "uv.lock" | "poetry.lock" => Some("pyproject.toml"),
        "package-lock.json" | "npm-shrinkwrap.json" | "yarn.lock" | "pnpm-lock.yaml" => Some("package.json"),
        _ => None,
    }
}

/// Whether a name stands in a text as a word of its own.
fn mentions(texts: &str, name: &str) -> bool {
    let inside = |character: Option<char>| {
        character.is_some_and(|character| character.is_alphanumeric() || matches!(character, '-' | '_'))
    };
    texts.match_indices(name).any(|(start, _)| {
        !inside(texts[..start].chars().next_back()) && !inside(texts[start + name.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str], texts: &str) -> Vec<String> {
        assert!(paths.iter().all(|path| may_be_manifest(path)), "{paths:?}");
        ignored_manifests(paths, texts).iter().map(|ignored| ignored.path.to_owned()).collect()
    }

    #[test]
    fn what_nothing_reads_is_named() {
        assert_eq!(names(&["setup.py"], ""), ["setup.py"]);
        assert!(names(&["setup.py", "requirements.txt"], ".").is_empty());
        let mixed =
            ["Gemfile", "package.json", "package-lock.json", "requirements-dev.txt", "uv.lock", "web/package.json"];
        assert_eq!(names(&mixed, "{}"), ["Gemfile", "requirements-dev.txt", "uv.lock", "web/package.json"]);
    }

    #[test]
    fn a_lock_of_bun_says_what_becomes_of_a_build() {
        let [ignored] = ignored_manifests(&["bun.lock", "package.json"], "{}")[..] else { panic!("one is ignored") };
        assert_eq!(ignored.path, "bun.lock");
        assert!(ignored.reason.starts_with("Bun is not supported: a build fails unless"), "{}", ignored.reason);
    }

    #[test]
    fn what_may_be_read_is_not() {
        assert!(names(&["requirements-dev.txt"], "-r requirements-dev.txt\n").is_empty());
        assert!(names(&["web/package.json"], "{\"workspaces\": [\"web\"]}").is_empty());
        assert!(names(&["web/package.json"], "{\"workspaces\": [\"*\"]}").is_empty());
        assert_eq!(names(&["web/package.json"], "{\"name\": \"my-web\"}"), ["web/package.json"]);
        assert!(names(&["go.mod"], "go mod download # of go.mod").is_empty());
        for path in ["a/b/package.json", "node_modules/package.json", "src/uv.lock", "readme.md"] {
            assert!(!may_be_manifest(path), "{path}");
        }
    }
}
