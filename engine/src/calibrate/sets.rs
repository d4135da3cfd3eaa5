//! Chooses working sets for the levels of the memory hierarchy, by arithmetic on the machine's description.
//!
//! Each thread has its own set; the sets are adjacent. A level whose set would be too similar to the level above is
//! left out: its rate is missing, never guessed.

use opdata::contract::{Cache, Level};

/// Minimum ratio of a set to the level above, so that it is read from its own level.
const APART: u64 = 2;
/// Maximum size of the third level's set, as a multiple of the second level. Other processes may fill the rest of a huge
/// shared cache.
const FAR: u64 = 8;
/// Size of main memory's set, as a multiple of all last-level caches. Little of such a set is still cached in the next
/// round.
const BEYOND: u64 = 4;
/// Main memory's set where no cache is known.
const UNKNOWN_BYTES: u64 = 512 << 20;
/// Sets may take one part in this many of the available memory.
const AVAILABLE_PART: u64 = 4;
/// Maximum bytes of all sets together. Each lane adds up ones, and `float32` is still exact for this many of them.
const MOST_BYTES: u64 = 2 << 30;

/// The machine, as far as sets depend on it.
#[derive(Debug, Clone, Copy)]
pub struct Hierarchy<'a> {
    /// Its caches, as the first core sees them.
    pub caches: &'a [Cache],
    /// Its logical cores.
    pub cores: u32,
    /// Memory that can be had, bytes.
    pub available_bytes: Option<u64>,
}

impl<'a> Hierarchy<'a> {
    /// Bytes that each of `threads` reads at each level, in whole multiples of `step`.
    pub fn sets(self, threads: u32, step: u64) -> Vec<(Level, u64)> {
        let threads = u64::from(threads.max(1));
        let mut sets = Vec::new();
        let mut above = 0;
        for (level, number) in Level::CACHES.into_iter().zip(1..) {
            let Some(cache) = self.data_cache(number) else {
                continue;
            };
            // Half of a thread's share leaves room for everything else. The kernel's numbering decides which threads
            // share a cache, so the worst case is assumed.
            let share = cache.size_bytes / self.sharers(cache).min(threads);
            let mut set = share / 2;
            if level == Level::L3 {
                set = set.min(FAR * above);
            }
            if set >= (APART * above).max(step) {
                sets.push((level, set));
            }
            above = cache.size_bytes;
        }
        if let Some(memory) = self.memory_bytes() {
            sets.push((Level::Memory, memory / threads));
        }
        for (_, bytes) in &mut sets {
            *bytes -= *bytes % step.max(1);
        }
        sets.retain(|(_, bytes)| *bytes > 0);
        sets
    }

    /// Bytes of all threads' sets of main memory. `None` if there is too little memory for them.
    fn memory_bytes(self) -> Option<u64> {
        let last = self
            .caches
            .iter()
            .filter(|c| holds_data(c))
            .max_by_key(|c| c.level);
        let cached = last.map_or(0, |cache| {
            cache.size_bytes * u64::from(self.cores).div_ceil(self.sharers(cache)).max(1)
        });
        let wanted = match cached {
            0 => UNKNOWN_BYTES,
            cached => BEYOND * cached,
        };
        let most = self
            .available_bytes
            .map_or(MOST_BYTES, |bytes| MOST_BYTES.min(bytes / AVAILABLE_PART));
        let bytes = wanted.min(most);
        (bytes > 0 && bytes >= APART * cached).then_some(bytes)
    }

    fn data_cache(self, level: u32) -> Option<&'a Cache> {
        self.caches
            .iter()
            .find(|c| c.level == level && holds_data(c))
    }

    /// Logical cores that share a cache. If the system does not say, the first two levels are assumed to be private.
    fn sharers(self, cache: &Cache) -> u64 {
        let usual = if cache.level <= 2 { 1 } else { self.cores };
        u64::from(cache.shared_by.unwrap_or(usual).max(1))
    }
}

fn holds_data(cache: &Cache) -> bool {
    cache.kind != "instruction"
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn cache(level: u32, kind: &str, size_bytes: u64, shared_by: Option<u32>) -> Cache {
        Cache {
            level,
            kind: kind.to_owned(),
            size_bytes,
            line_bytes: Some(64),
            ways: None,
            shared_by,
        }
    }

    /// Eight cores, each with L1 and L2 of its own, and a shared L3.
    fn caches(l3: u64) -> Vec<Cache> {
        vec![
            cache(1, "data", 32 * KIB, Some(1)),
            cache(1, "instruction", 64 * KIB, Some(1)),
            cache(2, "unified", MIB, Some(1)),
            cache(3, "unified", l3, Some(8)),
        ]
    }

    fn sets(caches: &[Cache], threads: u32, available_bytes: u64) -> Vec<(Level, u64)> {
        let hierarchy = Hierarchy {
            caches,
            cores: 8,
            available_bytes: Some(available_bytes),
        };
        hierarchy.sets(threads, 768)
    }

    fn down(bytes: u64) -> u64 {
        bytes - bytes % 768
    }

    #[test]
    fn half_of_each_level_and_more_than_the_last() {
        assert_eq!(
            sets(&caches(32 * MIB), 2, 64 << 30),
            [
                (Level::L1, down(16 * KIB)),
                (Level::L2, down(512 * KIB)),
                (Level::L3, down(8 * MIB)),
                (Level::Memory, down(64 * MIB)),
            ]
        );
        let huge = sets(&caches(512 * MIB), 1, 64 << 30);
        assert_eq!(huge[2], (Level::L3, down(8 * MIB)), "not half of 512 MiB");
        assert_eq!(huge[3], (Level::Memory, down(2048 * MIB)));
    }

    #[test]
    fn a_share_that_is_no_larger_than_the_level_above_is_left_out() {
        let levels = |threads| -> Vec<Level> {
            let sets = sets(&caches(11 * MIB), threads, 64 << 30);
            sets.into_iter().map(|(level, _)| level).collect()
        };
        assert_eq!(levels(2), Level::ALL);
        assert_eq!(levels(8), [Level::L1, Level::L2, Level::Memory]);
    }

    #[test]
    fn threads_of_one_core_share_its_caches() {
        let mut caches = caches(32 * MIB);
        caches
            .iter_mut()
            .take(3)
            .for_each(|c| c.shared_by = Some(2));
        assert_eq!(sets(&caches, 1, 64 << 30)[0].1, down(16 * KIB));
        assert_eq!(sets(&caches, 4, 64 << 30)[0].1, down(8 * KIB));
    }

    #[test]
    fn memory_needs_memory() {
        let levels = |available| -> Vec<Level> {
            let sets = sets(&caches(32 * MIB), 1, available);
            sets.into_iter().map(|(level, _)| level).collect()
        };
        assert!(levels(256 * MIB).contains(&Level::Memory));
        assert!(!levels(255 * MIB).contains(&Level::Memory));
    }

    #[test]
    fn what_is_hidden_is_missing() {
        let unknown = sets(&[], 2, 64 << 30);
        assert_eq!(unknown, [(Level::Memory, down(UNKNOWN_BYTES / 2))]);
        let no_l3 = sets(&caches(32 * MIB)[..3], 1, 64 << 30);
        assert_eq!(no_l3.len(), 3);
        assert_eq!(no_l3[2], (Level::Memory, down(4 * 8 * MIB)));
    }
}
