//! Stable identifiers: hashes that mean the same on every machine and in every build.
//!
//! The first 64 bits of the SHA-256 of labelled, length-prefixed parts, in hexadecimal, so that
//! other languages can compute them. With 64 bits, any collision among ten million points has a
//! chance below one in 300,000.

use sha2::{Digest, Sha256};

use crate::values::CacheState;

/// The attributes that identify a point across runs.
#[derive(Debug, Clone, Copy)]
pub struct PointKey<'a> {
    /// Hash of the computation (`workload_hash`).
    pub workload: &'a str,
    /// The schedule: its trace, or its knobs if those decide it.
    pub schedule: &'a str,
    /// The target, as its JSON text.
    pub target: &'a str,
    /// Threads that run the kernel.
    pub threads: u64,
    /// State of the caches.
    pub cache: CacheState,
    /// Seed of inputs and random choices.
    pub seed: u64,
}

/// The `point_id` of a point.
pub fn point_id(key: &PointKey<'_>) -> String {
    stable_hash(&[
        ("workload", key.workload),
        ("schedule", key.schedule),
        ("target", key.target),
        ("threads", &key.threads.to_string()),
        ("cache", key.cache.as_str()),
        ("seed", &key.seed.to_string()),
    ])
}

/// 16 hexadecimal digits for labelled parts: the start of the SHA-256 of
/// `<label>=<bytes in the value>:<value>\n` for each part in turn. The length keeps values that
/// contain separators apart.
pub fn stable_hash(parts: &[(&str, &str)]) -> String {
    let mut hasher = Sha256::new();
    for (label, value) in parts {
        hasher.update(format!("{label}={}:{value}\n", value.len()));
    }
    hasher.finalize()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PointKey<'_> = PointKey {
        workload: "w",
        schedule: "s",
        target: "{}",
        threads: 2,
        cache: CacheState::Hot,
        seed: 0,
    };

    #[test]
    fn ids_never_change() {
        // sha256 of "workload=1:w\nschedule=1:s\ntarget=2:{}\nthreads=1:2\ncache=3:hot\nseed=1:0\n",
        // as Python's hashlib gives it.
        assert_eq!(point_id(&KEY), "bfcf037fe68053a0");
    }

    #[test]
    fn every_part_counts() {
        let base = point_id(&KEY);
        for other in [
            PointKey {
                workload: "v",
                ..KEY
            },
            PointKey {
                schedule: "t",
                ..KEY
            },
            PointKey {
                target: "[]",
                ..KEY
            },
            PointKey { threads: 1, ..KEY },
            PointKey {
                cache: CacheState::Flushed,
                ..KEY
            },
            PointKey { seed: 1, ..KEY },
        ] {
            assert_ne!(point_id(&other), base, "{other:?}");
        }
    }

    #[test]
    fn separators_in_values_do_not_confuse() {
        assert_ne!(
            stable_hash(&[("a", "x\nb=1:y"), ("c", "")]),
            stable_hash(&[("a", "x"), ("b", "y\nc=0:")])
        );
    }
}
