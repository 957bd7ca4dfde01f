//! The negotiated generation of the protocol.
//!
//! The frame never changes. Each message names the generation that introduced it; both peers speak the lower of the two
//! generations they know, so an old runtime never has to learn anything: the newer server adapts.

/// The newest generation that this build speaks.
pub const GENERATION: u32 = 2;

/// The generation that two peers use: the lower one, or `None` when the other's number is not one (0).
pub fn negotiate(theirs: u32) -> Option<u32> {
    (theirs > 0).then(|| theirs.min(GENERATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_generation_wins() {
        assert_eq!(negotiate(GENERATION + 7), Some(GENERATION));
        assert_eq!(negotiate(1), Some(1));
        assert_eq!(negotiate(0), None);
    }
}
