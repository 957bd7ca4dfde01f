//! Whose files and processes a slot's are, on the host.

use stead_sandbox::plan::Ids;

use crate::config::UIDS_PER_SLOT;

/// The user and group that everything in a sandbox runs as, inside.
pub(crate) const RUN_ID: u32 = 1000;

/// The host's user ids, as far as this service has any to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// The service is root: each slot has consecutive ids of its own, from `base` on. The id before them is the proxy's.
    Ranges {
        /// What is 0 in the sandbox of slot 0.
        base: u32,
    },
    /// The service is an ordinary user, and so is everything that it starts. Namespaces alone keep sandboxes apart.
    Own,
}

impl Users {
    /// The ids of a slot's sandbox.
    pub(crate) fn ids(self, slot: u32) -> Ids {
        match self {
            Self::Ranges { base } => Ids::Range { first: base + slot * UIDS_PER_SLOT, count: UIDS_PER_SLOT },
            Self::Own => Ids::Own,
        }
    }

    /// The host user that owns a slot's files; `None` where that is the service.
    pub(crate) fn owner(self, slot: u32) -> Option<u32> {
        match self {
            Self::Ranges { base } => Some(base + slot * UIDS_PER_SLOT + RUN_ID),
            Self::Own => None,
        }
    }

    /// The host user of the egress proxy; `None` where that is the service.
    pub(crate) fn egress(self) -> Option<u32> {
        match self {
            Self::Ranges { base } => Some(base - 1),
            Self::Own => None,
        }
    }

    /// Whether all sandboxes have the service's one id.
    pub(crate) fn is_own(self) -> bool {
        self == Self::Own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_ids_of_its_own_and_so_has_the_proxy() {
        let users = Users::Ranges { base: 0x1000_0000 };
        let ranges = [0, 1].map(|slot| match users.ids(slot) {
            Ids::Range { first, count } => first..first + count,
            Ids::Own => panic!("a range"),
        });
        assert_eq!(ranges[0].end, ranges[1].start);
        assert!(ranges.iter().all(|range| !range.contains(&users.egress().unwrap())));
        assert_eq!(users.owner(1), Some(ranges[1].start + RUN_ID));
        assert_eq!((Users::Own.ids(7), Users::Own.owner(7), Users::Own.egress()), (Ids::Own, None, None));
    }
}
