//! A seeded generator of uniform numbers whose output never changes, for draws that must be repeatable everywhere.

/// SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). Good for shuffles and
/// for seeds of other generators; not for secrets.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

/// Increment of the state: 2^64 over the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SplitMix64 {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The number at `position` (from 0) of the sequence of `seed`, at once.
    pub fn at(seed: u64, position: u64) -> u64 {
        Self(seed.wrapping_add(position.wrapping_mul(STEP))).next_u64()
    }

    /// The next number, uniform over all values of its type.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The reference implementation's first numbers of seed 1234567 (S. Vigna, splitmix64.c).
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
        assert_eq!(SplitMix64::at(1_234_567, 2), first[2]);
    }
}
