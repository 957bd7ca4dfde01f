//! The side effects that were seen from outside: each leaves a line with its own name.

use std::collections::BTreeMap;
use std::path::Path;

/// How often each side effect happened. What is gone with its directory was counted while it was there.
#[derive(Debug, Default, Clone)]
pub struct Counter {
    most: BTreeMap<String, usize>,
}

impl Counter {
    /// Counts the lines of every file together: the same name in two files is one thing that happened twice.
    pub fn count<'a>(&mut self, files: impl IntoIterator<Item = &'a Path>) {
        let mut now: BTreeMap<String, usize> = BTreeMap::new();
        for file in files {
            let Ok(text) = std::fs::read_to_string(file) else { continue };
            for line in text.lines().filter(|line| !line.is_empty()) {
                *now.entry(line.to_owned()).or_default() += 1;
            }
        }
        for (name, count) in now {
            let most = self.most.entry(name).or_default();
            *most = count.max(*most);
        }
    }

    /// How often it happened, as far as was seen.
    #[must_use]
    pub fn of(&self, name: &str) -> usize {
        self.most.get(name).copied().unwrap_or(0)
    }

    /// How many things happened.
    #[must_use]
    pub fn len(&self) -> usize {
        self.most.len()
    }

    /// Whether nothing was seen to happen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.most.is_empty()
    }

    /// What happened more than once.
    pub fn twice(&self) -> Vec<&str> {
        self.most.iter().filter(|(_, count)| **count > 1).map(|(name, _)| name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_line_in_two_places_happened_twice() {
        let scratch = tempfile::tempdir().unwrap();
        let (one, other) = (scratch.path().join("one"), scratch.path().join("other"));
        std::fs::write(&one, "a\nb\n").unwrap();
        std::fs::write(&other, "c\n").unwrap();
        let mut counter = Counter::default();
        counter.count([one.as_path(), &other, &scratch.path().join("missing")]);
        assert_eq!((counter.len(), counter.twice()), (3, vec![]));
        std::fs::write(&other, "a\n").unwrap();
        counter.count([one.as_path(), &other]);
        std::fs::remove_file(&one).unwrap();
        counter.count([other.as_path()]);
        assert_eq!((counter.of("a"), counter.of("c"), counter.of("d")), (2, 1, 0));
        assert_eq!(counter.twice(), ["a"]);
    }
}
