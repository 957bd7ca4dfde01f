//! Which finished versions of a project are kept, where an operator bounds their number.

use std::collections::BTreeSet;

use crate::build::Build;

/// The versions to give up: finished, neither among the `keep` newest of those that stand, nor active, nor held (pinned by a
/// session or read by a task). Any version may be activated again, so with `keep` 0 all are kept.
pub fn expendable(builds: &[Build], active: Option<u32>, held: &BTreeSet<u32>, keep: usize) -> Vec<u32> {
    if keep == 0 {
        return Vec::new();
    }
    let mut standing: Vec<u32> =
        builds.iter().filter(|build| build.standing().is_some()).map(|build| build.number).collect();
    standing.sort_unstable_by(|one, other| other.cmp(one));
    standing.into_iter().skip(keep).filter(|number| active != Some(*number) && !held.contains(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::BuildState;
    use crate::build::tests::{sample, version};
    use crate::time::Timestamp;

    #[test]
    fn the_newest_the_active_and_the_held_stay() {
        let ready = |number| Build { version: Some(version()), ..sample(number, BuildState::Ready) };
        let removed = ready(2).remove_version(Timestamp::from_micros(1)).unwrap();
        let builds = [
            ready(1),
            removed,
            ready(3),
            sample(4, BuildState::Failed),
            ready(5),
            ready(6),
            ready(7),
            sample(8, BuildState::Running),
        ];
        let held = BTreeSet::from([3]);
        assert_eq!(expendable(&builds, Some(7), &held, 2), [5, 1]);
        assert_eq!(expendable(&builds, Some(1), &held, 2), [5]);
        assert_eq!(expendable(&builds, None, &BTreeSet::new(), 2), [5, 3, 1]);
        for all in [0, 5, usize::MAX] {
            assert_eq!(expendable(&builds, None, &held, all), [0; 0]);
        }
    }
}
