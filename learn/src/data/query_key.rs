//! Identity of a default-schedule query: rows with equal keys are repeats of one measurement.

use opdata::{CacheState, Row};
use serde::{Deserialize, Serialize};

/// Memory that leaves the caches equally: bytes between two uses may differ by this factor.
const REUSE_FACTOR: f64 = 4.0;

/// An operator, scheduled by default, on a number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryKey {
    workload_hash: String,
    threads: u64,
    cache: CacheState,
    weight_reuse_bytes: Option<u64>,
    output_reuse_bytes: Option<u64>,
}

impl QueryKey {
    /// The key of a row. `None` if its schedule is not a default one or its operator has no name.
    pub fn of_row(row: &Row) -> Option<Self> {
        if !row.has_default_schedule() {
            return None;
        }
        Some(Self {
            workload_hash: row.workload_hash.clone()?,
            threads: row.threads?,
            cache: row.cache_state?,
            weight_reuse_bytes: row.weight_reuse_bytes,
            output_reuse_bytes: row.output_reuse_bytes,
        })
    }

    /// Hash of the computation.
    pub fn workload(&self) -> &str {
        &self.workload_hash
    }

    /// Whether an answer to `other` answers this one.
    pub fn same_as(&self, other: &Self) -> bool {
        // Rows that lack the reuse of weights have no weights. Older rows lack that of outputs, so it may be unknown.
        self.weight_reuse_bytes.is_none() == other.weight_reuse_bytes.is_none()
            && alike(self.weight_reuse_bytes, other.weight_reuse_bytes)
            && alike(self.output_reuse_bytes, other.output_reuse_bytes)
            && self.workload_hash == other.workload_hash
            && self.threads == other.threads
            && self.cache == other.cache
    }
}

/// Whether two numbers of bytes between uses leave the same data in the caches; unknown ones do.
fn alike(a: Option<u64>, b: Option<u64>) -> bool {
    a.zip(b).is_none_or(|(a, b)| {
        let ratio = a.max(1) as f64 / b.max(1) as f64;
        (1.0 / REUSE_FACTOR..=REUSE_FACTOR).contains(&ratio)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dense_row;

    fn asked(change: impl FnOnce(&mut Row)) -> Option<QueryKey> {
        let mut row = dense_row(1, 1000, 512, "{}");
        row.schedule_space = Some("default".to_owned());
        row.threads = Some(2);
        row.cache_state = Some(CacheState::Model);
        row.weight_reuse_bytes = Some(10_000_000);
        row.output_reuse_bytes = Some(1_000_000);
        change(&mut row);
        QueryKey::of_row(&row)
    }

    #[test]
    fn the_same_operator_under_like_conditions_has_the_same_key() {
        let key = asked(|_| ()).unwrap();
        let same = |change: fn(&mut Row)| key.same_as(&asked(change).unwrap());
        assert!(same(|row| row.weight_reuse_bytes = Some(30_000_000)));
        assert!(!same(|row| row.weight_reuse_bytes = Some(2_000_000)));
        assert!(!same(|row| row.weight_reuse_bytes = None));
        assert!(same(|row| row.output_reuse_bytes = None));
        assert!(!same(|row| row.output_reuse_bytes = Some(5_000_000)));
        assert!(!same(|row| row.threads = Some(1)));
        assert!(!same(|row| row.cache_state = Some(CacheState::Hot)));
        assert!(!same(|row| row.workload_hash = Some("other".to_owned())));
    }

    #[test]
    fn a_schedule_of_its_own_is_no_answer() {
        assert_eq!(
            asked(|row| row.schedule_space = Some("template".to_owned())),
            None
        );
        assert_eq!(asked(|row| row.threads = None), None);
    }
}
