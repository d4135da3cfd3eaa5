//! Chooses the samples that a member is trained on.
//!
//! A few hundred trees have some ten thousand leaves. A million samples teach them little more than a fifth of
//! them does, and take five times as long. With a copy of all features in each member that trains, they fill the
//! memory.

use crate::data::split::shuffled;

/// Maximum number of samples that a member learns from.
const LEARNED: usize = 200_000;

/// Indices of the training samples of a member among `count`: all, or a random part, ascending. Members of other seeds
/// have other parts.
pub(super) fn learned(count: usize, seed: u64) -> Vec<usize> {
    if count <= LEARNED {
        return (0..count).collect();
    }
    let mut places = shuffled(count, seed);
    places.truncate(LEARNED);
    places.sort_unstable();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_all_and_many_are_parts_that_differ() {
        assert_eq!(learned(3, 1), [0, 1, 2]);
        let [one, other] = [1, 2].map(|seed| learned(LEARNED + 1000, seed));
        assert!(one.len() == LEARNED && one.is_sorted() && one != other);
        assert!(one.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
