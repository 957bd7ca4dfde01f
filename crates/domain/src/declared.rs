//! What an owner asks for besides the project's own manifests: packages by name, and an interpreter (UHP Environments §2).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

/// Who installs a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageManager {
    /// Python packages.
    Pip,
    /// Node packages.
    Npm,
    /// The system's packages.
    Apt,
}

impl PackageManager {
    /// Every manager.
    pub const ALL: [PackageManager; 3] = [Self::Pip, Self::Npm, Self::Apt];

    /// The manager as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Npm => "npm",
            Self::Apt => "apt",
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|manager| manager.as_str() == text)
    }
}

/// The most packages that one manager is asked for.
pub const MAX_SPECS: usize = 200;
/// The longest spec, in bytes.
pub const MAX_SPEC: usize = 200;

/// One package, as its manager takes it on a command line: `requests>=2.31`, `sharp@^0.33`, `jq=1.6-2.1`.
///
/// What could mean anything but a package of a registry (an option, an address, a path, a shell's character) does not fit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageSpec {
    manager: PackageManager,
    text: String,
    /// Where the name ends.
    name: usize,
    /// Where what restricts the version begins, its operator included.
    constraint: usize,
}

impl PackageSpec {
    /// Reads a spec; one that does not fit is refused by name.
    pub fn parse(manager: PackageManager, text: &str) -> Result<Self> {
        // Line ends and tabs count as spaces: a spec becomes a line of a file, and a word of a log.
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        let text = text.as_str();
        let refused = |why: &str| {
            let shown: String = text.chars().take(60).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let message = format!("`{shown}` is not a package that {} installs by name: {why}", manager.as_str());
            Error::new(Code::ProjectInvalid, message).at(format!("packages.{}", manager.as_str()))
        };
        if text.len() > MAX_SPEC {
            return Err(refused("it is too long"));
        }
        let name = match manager {
            PackageManager::Pip => pip_name(text),
            PackageManager::Npm => npm_name(text),
            PackageManager::Apt => apt_name(text),
        };
        let name = name.ok_or_else(|| match manager {
            PackageManager::Apt => refused(
                "it begins with no name that a package can have (two or more of `a-z`, `0-9`, `.`, `+` and `-`, the last two not at its end)",
            ),
            _ => refused("it does not begin with a package's name"),
        })?;
        let constraint = match manager {
            PackageManager::Pip => pip_constraint(text, name),
            PackageManager::Npm => npm_constraint(text, name),
            PackageManager::Apt => apt_constraint(text, name),
        };
        let constraint = constraint.ok_or_else(|| match manager {
            PackageManager::Apt => refused("what follows the name is neither `=version` nor `/release`"),
            manager => refused(outside(manager, text[name..].trim_start())),
        })?;
        Ok(Self { manager, text: text.to_owned(), name, constraint })
    }

    /// Who installs it.
    pub fn manager(&self) -> PackageManager {
        self.manager
    }

    /// The whole spec.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The package's name, without extras: `uvicorn` of `uvicorn[standard]>=0.30`.
    pub fn name(&self) -> &str {
        &self.text[..self.name]
    }

    /// What restricts the version, with its operator; empty for any: `>=0.30`, `@^0.33`, `=1.6-2.1`.
    pub fn constraint(&self) -> &str {
        self.text[self.constraint..].trim()
    }

    /// The version that it asks for, without a sole operator in front: `0.33.5`, `>=2,<3`, `latest`; empty for any.
    pub fn version(&self) -> &str {
        let constraint = self.constraint();
        match self.manager {
            PackageManager::Pip => {
                let exact = constraint.strip_prefix("==").filter(|rest| !rest.starts_with('=') && !rest.contains(','));
                exact.unwrap_or(constraint).trim()
            }
            PackageManager::Npm => constraint.strip_prefix('@').unwrap_or(constraint),
            PackageManager::Apt => constraint.strip_prefix(['=', '/']).unwrap_or(constraint),
        }
    }
}

impl fmt::Display for PackageSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Why what follows a name restricts no version, told by what it seems to be meant as.
fn outside(manager: PackageManager, rest: &str) -> &'static str {
    let place = rest.contains("://") || rest.contains("file:") || rest.contains('/');
    match manager {
        PackageManager::Pip if rest.contains(';') => {
            "environment markers are not taken here; a requirements.txt of the project takes them"
        }
        PackageManager::Pip if place || rest.starts_with('@') => {
            "addresses and paths are not taken here; a requirements.txt of the project takes them"
        }
        PackageManager::Npm if rest.starts_with("@npm:") => {
            "aliases are not taken here; a package.json of the project takes them"
        }
        PackageManager::Npm if place || rest.contains(':') => {
            "addresses and paths are not taken here; a package.json of the project takes them"
        }
        _ => "what follows the name is no version or range",
    }
}

/// The length of the longest prefix of these characters.
fn run(text: &str, allowed: impl Fn(char) -> bool) -> usize {
    text.find(|character| !allowed(character)).unwrap_or(text.len())
}

fn starts_alphanumeric(text: &str) -> bool {
    text.starts_with(|character: char| character.is_ascii_alphanumeric())
}

fn pip_name(text: &str) -> Option<usize> {
    let end = run(text, |character| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-'));
    (starts_alphanumeric(text) && text[..end].ends_with(|last: char| last.is_ascii_alphanumeric())).then_some(end)
}

/// Extras, then versions with their operators, separated by commas.
fn pip_constraint(text: &str, name: usize) -> Option<usize> {
    let mut rest = text[name..].trim_start();
    if let Some(extras) = rest.strip_prefix('[') {
        let (extras, after) = extras.split_once(']')?;
        if !extras.split(',').all(|extra| pip_name(extra.trim()) == Some(extra.trim().len())) {
            return None;
        }
        rest = after.trim_start();
    }
    let at = text.len() - rest.len();
    let fits = |clause: &str| {
        let clause = clause.trim();
        let operators = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];
        let version = operators.into_iter().find_map(|operator| clause.strip_prefix(operator)).unwrap_or("").trim();
        starts_alphanumeric(version)
            && version.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '*' | '+' | '!' | '-'))
    };
    (rest.is_empty() || rest.split(',').all(fits)).then_some(at)
}

fn npm_name(text: &str) -> Option<usize> {
    let part = |text: &str| {
        let end = run(text, |character| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-'));
        (starts_alphanumeric(text)).then_some(end)
    };
    match text.strip_prefix('@') {
        None => part(text),
        Some(scoped) => {
            let scope = part(scoped)?;
            let package = scoped[scope..].strip_prefix('/')?;
            Some(1 + scope + 1 + part(package)?)
        }
    }
}

/// A version, a range or a tag behind `@`. Nothing of it can name a place: no colon, no slash.
fn npm_constraint(text: &str, name: usize) -> Option<usize> {
    let rest = &text[name..];
    let range = |range: &str| {
        !range.is_empty()
            && range.chars().all(|character| {
                character.is_ascii_alphanumeric()
                    || matches!(character, '.' | '_' | '*' | '+' | '^' | '~' | '<' | '>' | '=' | '-' | '|' | ' ')
            })
            && !range.starts_with('-')
    };
    (rest.is_empty() || rest.strip_prefix('@').is_some_and(range)).then_some(name)
}

fn apt_name(text: &str) -> Option<usize> {
    let lower = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    let mut end = run(text, |character| lower(character) || matches!(character, '+' | '.' | '-'));
    if end < 2 || !text.starts_with(lower) {
        return None;
    }
    if let Some(architecture) = text[end..].strip_prefix(':') {
        let length = run(architecture, |character| lower(character) || character == '-');
        if length == 0 {
            return None;
        }
        end += 1 + length;
    }
    // apt takes a trailing `+` or `-` for "install" and "remove".
    (!text[..end].ends_with('-') && (!text[..end].ends_with('+') || text[..end].ends_with("++"))).then_some(end)
}

/// `=version`, or `/release`.
fn apt_constraint(text: &str, name: usize) -> Option<usize> {
    let rest = &text[name..];
    let version =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '+' | '~' | ':' | '-');
    let fits = match rest.strip_prefix(['=', '/']) {
        None => rest.is_empty(),
        Some(value) => starts_alphanumeric(value) && value.chars().all(version),
    };
    fits.then_some(name)
}

/// Packages and interpreter that the owner declared. A build takes what was declared when it was admitted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, try_from = "Stored", into = "Stored")]
pub struct Declared {
    /// Python packages.
    pub pip: Vec<PackageSpec>,
    /// Node packages.
    pub npm: Vec<PackageSpec>,
    /// System packages.
    pub apt: Vec<PackageSpec>,
    /// The minor of the Python interpreter, such as `3.12`; empty for the server's default.
    pub python: String,
}

/// The form in a column.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    pip: Vec<String>,
    npm: Vec<String>,
    apt: Vec<String>,
    python: String,
}

impl Declared {
    /// What one manager was asked for.
    pub fn of(&self, manager: PackageManager) -> &[PackageSpec] {
        match manager {
            PackageManager::Pip => &self.pip,
            PackageManager::Npm => &self.npm,
            PackageManager::Apt => &self.apt,
        }
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads one manager's list: in order, each spec once. A package may be named once only, since two restrictions of one
    /// package would leave it to the installer which of them counts.
    pub fn read(manager: PackageManager, specs: &[impl AsRef<str>]) -> Result<Vec<PackageSpec>> {
        let param = format!("packages.{}", manager.as_str());
        if specs.len() > MAX_SPECS {
            let message = format!("`{param}` names more than {MAX_SPECS} packages");
            return Err(Error::new(Code::ProjectInvalid, message).at(param));
        }
        let mut read: Vec<PackageSpec> = Vec::new();
        let mut names = BTreeSet::new();
        for spec in specs {
            let spec = PackageSpec::parse(manager, spec.as_ref())?;
            if read.contains(&spec) {
                continue;
            }
            if !names.insert(normal_name(manager, spec.name())) {
                let message = format!("`{param}` names the package `{}` more than once", spec.name());
                return Err(Error::new(Code::ProjectInvalid, message).at(param));
            }
            read.push(spec);
        }
        Ok(read)
    }

    /// Reads the interpreter: empty, or major and minor such as `3.12`.
    pub fn read_python(text: &str) -> Result<String> {
        let text = text.trim();
        let number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let fits = text.is_empty() || text.split_once('.').is_some_and(|(major, minor)| number(major) && number(minor));
        if fits {
            return Ok(text.to_owned());
        }
        let message = "`runtime.python` is the minor of an interpreter, such as `3.12`, or empty for the default";
        Err(Error::new(Code::ProjectInvalid, message).at("runtime.python"))
    }
}

/// Python's index takes `Foo_Bar` and `foo-bar` for one name.
fn normal_name(manager: PackageManager, name: &str) -> String {
    match manager {
        PackageManager::Pip => name.to_ascii_lowercase().replace(['_', '.'], "-"),
        PackageManager::Npm | PackageManager::Apt => name.to_owned(),
    }
}

impl TryFrom<Stored> for Declared {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self> {
        let read = |manager, specs: &[String]| Self::read(manager, specs);
        Ok(Self {
            pip: read(PackageManager::Pip, &stored.pip)?,
            npm: read(PackageManager::Npm, &stored.npm)?,
            apt: read(PackageManager::Apt, &stored.apt)?,
            python: Self::read_python(&stored.python)?,
        })
    }
}

impl From<Declared> for Stored {
    fn from(declared: Declared) -> Self {
        let texts = |specs: Vec<PackageSpec>| specs.into_iter().map(|spec| spec.text).collect();
        Self { pip: texts(declared.pip), npm: texts(declared.npm), apt: texts(declared.apt), python: declared.python }
    }
}

#[cfg(test)]
mod tests {
    use super::PackageManager::{Apt, Npm, Pip};
    use super::*;

    #[test]
    fn what_names_a_package_fits_and_nothing_else_does() {
        for (manager, spec, name, version) in [
            (Pip, "requests", "requests", ""),
            (Pip, " Django == 5.1.4 ", "Django", "5.1.4"),
            (Pip, "uvicorn[standard, x]>=0.30,<1", "uvicorn", ">=0.30,<1"),
            (Pip, "a~=1.0.*", "a", "~=1.0.*"),
            (Pip, "a\t<2,\n>1\u{2028}", "a", "<2, >1"),
            (Npm, "sharp@^0.33.5", "sharp", "^0.33.5"),
            (Npm, "@scope/name", "@scope/name", ""),
            (Npm, "@scope/name@latest", "@scope/name", "latest"),
            (Npm, "a@>=1 <2 || 3.x", "a", ">=1 <2 || 3.x"),
            (Apt, "jq=1.6-2.1", "jq", "1.6-2.1"),
            (Apt, "libpq-dev", "libpq-dev", ""),
            (Apt, "g++", "g++", ""),
            (Apt, "libc6:i386/bookworm-backports", "libc6:i386", "bookworm-backports"),
            (Apt, "openssl=3.0.15-1~deb12u1", "openssl", "3.0.15-1~deb12u1"),
        ] {
            let read = PackageSpec::parse(manager, spec).unwrap();
            assert_eq!((read.name(), read.version()), (name, version), "{spec}");
        }
        for (manager, specs) in [
            (
                Pip,
                &[
                    "",
                    "-r x",
                    "--index-url=http://x",
                    "./a",
                    "a @ http://x",
                    "a;import",
                    "a==",
                    "a>",
                    "a==1 b",
                    "a$(b)",
                ][..],
            ),
            (
                Npm,
                &["", "-g", "@scope", "a/b", "a@http://x", "a@file:x", "a@npm:b", "git+ssh://x", "a@", "a==1", "../a"]
                    [..],
            ),
            (Apt, &["", "-y", "a", "./a.deb", "Jq", "jq-", "jq+", "jq=", "jq=-1", "jq/..", "jq; rm", "jq:"][..]),
        ] {
            for spec in specs {
                let refused = PackageSpec::parse(manager, spec).unwrap_err();
                assert_eq!(refused.param.as_deref(), Some(format!("packages.{}", manager.as_str()).as_str()), "{spec}");
            }
        }
    }

    #[test]
    fn what_is_refused_is_told_from_what_is_right() {
        for (spec, part) in
            [("a/b/c", "no name"), ("jq-", "no name"), ("jq/b/c", "what follows"), ("jq=", "what follows")]
        {
            let message = PackageSpec::parse(Apt, spec).unwrap_err().message;
            assert!(message.contains(part), "{message}");
        }
        for (manager, spec, part) in [
            (Pip, "requests; python_version>\"3\"", "markers"),
            (Pip, "a @ http://x", "addresses"),
            (Pip, "a==", "no version"),
            (Npm, "left-pad@npm:is-odd", "aliases"),
            (Npm, "a@file:x", "addresses"),
            (Npm, "a/b", "addresses"),
            (Npm, "a@", "no version"),
        ] {
            let message = PackageSpec::parse(manager, spec).unwrap_err().message;
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn lists_name_each_package_once_and_survive_a_column() {
        let pip = Declared::read(Pip, &["a==1", "b", "a==1"]).unwrap();
        assert_eq!(pip.len(), 2);
        assert!(Declared::read(Pip, &["Foo_Bar", "foo-bar>1"]).unwrap_err().message.contains("more than once"));
        let declared = Declared { pip, python: "3.12".into(), ..Declared::default() };
        let text = serde_json::to_string(&declared).unwrap();
        assert_eq!(serde_json::from_str::<Declared>(&text).unwrap(), declared);
        assert!(serde_json::from_str::<Declared>("{}").unwrap().is_empty());
        for (python, fits) in
            [("", true), ("3.12", true), ("3", false), ("3.12.1", false), ("../3.1", false), ("x.y", false)]
        {
            assert_eq!(Declared::read_python(python).is_ok(), fits, "{python}");
        }
    }
}
