//! Versions in the names of files.

use super::normalized;

/// Endings of source distributions that pip installs.
const ARCHIVES: [&str; 6] = [".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz", ".tar"];

/// The version in a file's name, of the package of that normalized name; `None` for what pip would not install.
pub(super) fn version(package: &str, file: &str) -> Option<String> {
    if let Some(wheel) = file.strip_suffix(".whl") {
        let mut parts = wheel.split('-');
        let (name, version) = (parts.next()?, parts.next()?);
        return (normalized(name) == package && parts.count() >= 3).then(|| version.to_owned());
    }
    let stem = ARCHIVES.iter().find_map(|ending| file.strip_suffix(ending))?;
    // Names of old source distributions have hyphens too, so the package's own name says where it ends.
    stem.match_indices('-')
        .map(|(at, _)| (&stem[..at], &stem[at + 1..]))
        .find(|(name, _)| normalized(name) == package)
        .map(|(_, version)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_say_their_version() {
        for (file, expected) in [
            ("foo_bar-1.0-py3-none-any.whl", Some("1.0")),
            ("Foo.Bar-1.0+cu12-1-cp312-cp312-linux_x86_64.whl", Some("1.0+cu12")),
            ("foo-bar-1.0.dev3.tar.gz", Some("1.0.dev3")),
            ("foo_bar-2.zip", Some("2")),
            ("foo-bar-1.0-py3.11.egg", None),
            ("foo_bar-1.0.exe", None),
            ("other-1.0.tar.gz", None),
            ("foo_bar-1.0.whl", None),
            ("", None),
        ] {
            assert_eq!(version("foo-bar", file).as_deref(), expected, "{file}");
        }
    }
}
