//! The memory level that a call's data come from, by the traffic between two of their uses.

use crate::features::operator::Operator;

/// Weights are evicted from a core's caches if more than this is read between two uses, bytes. How much more does not matter
/// where a call uses each weight many times; as a feature it would only identify the model.
const COLD_BYTES: f64 = 4e6;
/// Weights are evicted from all caches if more than this is read between two uses, bytes.
const FAR_BYTES: f64 = 67_108_864.0;
/// Data come from main memory if more than this passes between two uses, bytes: others share the last-level cache.
const LOST_BYTES: f64 = 32e6;

/// Bytes of traffic between two uses of a weight, rounded to a power of two. A call that uses each weight once waits
/// for the cache that holds it. The power of two shows which cache that is.
pub(in crate::features) fn of_weights(bytes: u64, operator: &Operator) -> f64 {
    let bytes = bytes as f64;
    let once = operator.batch * operator.rows <= 1.0;
    if once && bytes > COLD_BYTES {
        return bytes.log2().round().exp2().min(FAR_BYTES);
    }
    bytes.min(COLD_BYTES)
}

/// Bytes of an operator that a call must load again, after this much traffic between two of their uses. With more
/// traffic, fewer of them are left in a last-level cache that others share.
pub(in crate::features) fn cold(bytes: f64, between_uses: u64) -> f64 {
    let beyond = (between_uses as f64 - COLD_BYTES) / (LOST_BYTES - COLD_BYTES);
    bytes * beyond.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dense_row;

    #[test]
    fn memory_is_colder_the_more_passes_between_two_uses() {
        assert_eq!((cold(8.0, 3_000_000), cold(8.0, 500_000_000)), (0.0, 8.0));
        assert_eq!(cold(8.0, 18_000_000), 4.0);
    }

    #[test]
    fn weights_that_are_used_once_differ_by_the_cache_that_holds_them() {
        let of = |rows: u64, bytes: u64| {
            let operator = Operator::of_row(&dense_row(rows, 1000, 512, "{}"));
            of_weights(bytes, &operator)
        };
        assert_eq!((of(1, 3_000_000), of(16, 3_000_000)), (3e6, 3e6));
        // Models of 14 and 21 MB read from the third-level cache alike, what is larger than that from memory.
        assert_eq!(of(1, 14_000_000), of(1, 21_000_000));
        assert_eq!(of(1, 100_000_000), of(1, 500_000_000));
        assert!(of(1, 47_000_000) > of(1, 21_000_000));
        assert_eq!((of(16, 14_000_000), of(16, 500_000_000)), (4e6, 4e6));
    }
}
