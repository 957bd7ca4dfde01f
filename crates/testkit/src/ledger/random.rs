//! Choices that a seed decides.

/// A stream of numbers (`SplitMix64`): the same seed makes the same choices on every machine.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Choices of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Choices of their own for a part of the work.
    #[must_use]
    pub fn part(&self, number: u64) -> Self {
        let mut part = Self(self.0 ^ number.wrapping_mul(0xD134_2543_DE82_EF95));
        part.next();
        part
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and nobody iterates over it")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True so many times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them; none of nothing.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        if among.is_empty() { None } else { among.get(usize::try_from(self.below(among.len() as u64)).ok()?) }
    }

    /// Bytes that compress badly and say where they are from.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_choices_and_parts_differ() {
        let draw = |mut random: Random| (0..5).map(|_| random.next()).collect::<Vec<_>>();
        assert_eq!(draw(Random::of(7)), draw(Random::of(7)));
        assert_ne!(draw(Random::of(7)), draw(Random::of(8)));
        assert_ne!(draw(Random::of(7).part(1)), draw(Random::of(7).part(2)));
        assert_eq!(Random::of(1).bytes(13).len(), 13);
        assert_eq!(Random::of(1).pick::<u8>(&[]), None);
    }
}
