//! The negotiated generation of the protocol.
//!
//! The frame never changes. Each message names the generation that introduced it; both peers speak the lower of the two
//! generations they know, so an old runtime never has to learn anything: the newer server adapts.

/// The newest generation that this build speaks.
pub const GENERATION: u32 = 2;

/// What every runtime's program file holds, before the number of its generation: whoever is about to use a file can see without
/// running it that it is a runtime.
pub const MARK: &str = "stead-runtime speaks link generation ";

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
