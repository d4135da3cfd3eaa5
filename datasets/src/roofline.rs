//! The roofline of a measured time: the share of the machine's calibrated rates that it reaches, and the resource that
//! bounds it.
//!
//! A kernel of F floating-point operations that moves B bytes takes at least max(F / peak, B / bandwidth) (Williams,
//! Waterman and Patterson, "Roofline", CACM 52, 2009). Peak and bandwidths are those that calibration measured with the
//! same number of threads; without such there is no roofline. B is the compulsory traffic (every tensor once), so the
//! share of a level is a lower bound of what really came from it. The level that counts is the nearest one whose cache
//! holds B, main memory for a flushed one. A call that would have to read faster than the first-level cache delivers
//! did not read all of its tensors (it gathers a few rows of a table). Its traffic is not known, and it has no shares
//! of levels.

use crate::contract::{Calibration, Level, ThreadRates};
use crate::schema::Row;
use crate::values::CacheState;

/// Below this share of every roof none of them bounds a kernel: it waits for something else.
pub const BOUND_FROM: f64 = 0.25;
/// A calibrated working set fills half of its cache.
const CACHE_PER_SET: f64 = 2.0;
/// Rates up to this much above the calibrated ones are noise of either.
pub(crate) const MARGIN: f64 = 1.05;

/// The work of a call, and its circumstances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Floating-point operations of `float32`; 0 for other types, for which no peak was calibrated.
    pub flops: f64,
    /// Compulsory traffic, bytes.
    pub bytes: f64,
    /// Time of the call, nanoseconds.
    pub time_ns: f64,
    /// Threads.
    pub threads: u32,
    /// Where its data were before, if that was arranged.
    pub cache: Option<CacheState>,
}

impl Work {
    /// The work of a row; nothing if it was not timed, or its traffic is not known.
    pub fn of(row: &Row) -> Option<Work> {
        let is_float = row
            .dtypes
            .as_ref()
            .is_some_and(|types| types.split(';').all(|t| t == "float32"));
        let flops = row.flops.unwrap_or(0) + row.flops_epilogue.unwrap_or(0);
        Some(Work {
            flops: if is_float { flops as f64 } else { 0.0 },
            bytes: (row.bytes_read? + row.bytes_written?) as f64,
            time_ns: row.time_median_ns?,
            threads: u32::try_from(row.threads?).ok()?,
            cache: row.cache_state,
        })
    }
}

impl Row {
    /// Sets the shares of the roofs, calibrated on the machine of the row's processor.
    pub fn fill_roofline(&mut self, calibration: &Calibration) {
        let standing = Work::of(self).and_then(|work| calibration.standing(&work));
        let Some(standing) = standing else {
            return;
        };
        let read = |level| standing.share(Roof::Read(level));
        self.compute_roof_share = standing.share(Roof::Compute);
        self.l1_roof_share = read(Level::L1);
        self.l2_roof_share = read(Level::L2);
        self.l3_roof_share = read(Level::L3);
        self.memory_roof_share = read(Level::Memory);
        self.bound_by = standing.bound_by().map(str::to_owned);
    }
}

/// A roof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roof {
    /// Arithmetic.
    Compute,
    /// Reading from a level of the memory hierarchy.
    Read(Level),
}

impl Roof {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Roof::Compute => "compute",
            Roof::Read(level) => level.name(),
        }
    }
}

/// Where a call stands under the roofs.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The share of each roof that the call reaches (1 is the roof): compute first, then the levels from the nearest.
    pub shares: Vec<(Roof, f64)>,
    /// The nearest level that holds the call's data.
    pub level: Level,
}

impl Standing {
    /// The share of a roof. `None` for a level if the call cannot have moved all of its tensors.
    pub fn share(&self, roof: Roof) -> Option<f64> {
        let known = roof == Roof::Compute || self.knows_traffic();
        self.reached(roof).filter(|_| known)
    }

    /// The share of a roof, if all tensors were moved.
    fn reached(&self, roof: Roof) -> Option<f64> {
        let found = self.shares.iter().find(|(of, _)| *of == roof);
        found.map(|(_, share)| *share)
    }

    /// Whether the call can have moved all of its tensors in its time.
    pub fn knows_traffic(&self) -> bool {
        let nearest = Level::ALL
            .into_iter()
            .find_map(|level| self.reached(Roof::Read(level)));
        nearest.is_none_or(|share| share <= MARGIN)
    }

    /// The roof that the call is nearest to, arithmetic or the level of its data, and its share of it.
    pub fn nearest(&self) -> Option<(Roof, f64)> {
        [Roof::Compute, Roof::Read(self.level)]
            .into_iter()
            .filter_map(|roof| Some((roof, self.share(roof)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The name of the roof that bounds the call; `none` if it is far from all of them.
    pub fn bound_by(&self) -> Option<&'static str> {
        let (roof, share) = self.nearest()?;
        match share < BOUND_FROM {
            // The time is far from the known roof, and the other roof is unknown.
            true if !self.knows_traffic() => None,
            true => Some("none"),
            false => Some(roof.name()),
        }
    }

    /// The resource that bounds the call, in words: `compute 61 %`, `L2 40 %`, or that none does.
    pub fn words(&self) -> Option<String> {
        let (roof, share) = self.nearest()?;
        let percent = share * 100.0;
        Some(match self.bound_by()? {
            "none" => format!("none ({} {percent:.0} %)", roof.name()),
            roof => format!("{roof} {percent:.0} %"),
        })
    }
}

impl Calibration {
    /// Bytes that all caches of this number of threads hold together, as far as they were calibrated; nothing without rates.
    pub fn cache_bytes(&self, threads: u32) -> Option<f64> {
        let levels = self.rates_of(threads)?.read_gbytes_per_s.iter();
        let caches = levels.filter(|(level, _)| **level != Level::Memory);
        let held = caches.map(|(_, read)| held_bytes(read.set_bytes, threads));
        Some(held.fold(0.0, f64::max))
    }

    /// The rates of this number of threads.
    pub fn rates_of(&self, threads: u32) -> Option<&ThreadRates> {
        self.rates.iter().find(|rates| rates.threads == threads)
    }

    /// Where a call stands under the roofs of its number of threads; nothing if those were not calibrated, or it took no
    /// time.
    pub fn standing(&self, work: &Work) -> Option<Standing> {
        let rates = self.rates_of(work.threads)?;
        if work.time_ns.is_nan() || work.time_ns <= 0.0 {
            return None;
        }
        // 10⁹ a second is one a nanosecond.
        let reached = |amount: f64, rate: f64| amount / work.time_ns / rate;
        let compute = (work.flops > 0.0).then(|| {
            let share = reached(work.flops, rates.peak_gflops_per_s.best);
            (Roof::Compute, share)
        });
        let levels = rates.read_gbytes_per_s.iter().map(|(level, read)| {
            let share = reached(work.bytes, read.rate.best);
            (Roof::Read(*level), share)
        });
        let holds = |set_bytes: u64| work.bytes <= held_bytes(set_bytes, work.threads);
        let level = match work.cache {
            Some(CacheState::Flushed) => Level::Memory,
            _ => rates
                .read_gbytes_per_s
                .iter()
                .find(|(_, read)| holds(read.set_bytes))
                .map_or(Level::Memory, |(level, _)| *level),
        };
        Some(Standing {
            shares: compute.into_iter().chain(levels).collect(),
            level,
        })
    }
}

/// Capacity of a level's caches together. Each thread has one, twice as large as the calibrated set.
fn held_bytes(set_bytes: u64, threads: u32) -> f64 {
    set_bytes as f64 * CACHE_PER_SET * f64::from(threads.max(1))
}

#[cfg(test)]
pub(crate) mod testing {
    //! A made-up machine: 100 GFLOP/s, 400, 100 and 10 GB/s, 2 GHz.

    use std::collections::BTreeMap;

    use super::*;
    use crate::contract::{CALIBRATION_FORMAT, Rate, ReadRate};
    use crate::values::Timestamp;

    fn rate(best: f64) -> Rate {
        Rate {
            best,
            median: best,
            spread: 0.01,
            samples: 10,
        }
    }

    pub fn calibration() -> Calibration {
        let read = |best, set_bytes| ReadRate {
            rate: rate(best),
            set_bytes,
        };
        Calibration {
            format: CALIBRATION_FORMAT,
            env_hash: "e".to_owned(),
            measured_at_utc: Timestamp::from_unix_ms(0),
            versions: BTreeMap::new(),
            target: serde_json::Value::Null,
            cores_usable: 1,
            load_1min: None,
            other_cpu_share: None,
            clock_ghz: Some(2.0),
            rates: vec![ThreadRates {
                threads: 1,
                peak_gflops_per_s: rate(100.0),
                read_gbytes_per_s: BTreeMap::from([
                    (Level::L1, read(400.0, 16_000)),
                    (Level::L2, read(100.0, 500_000)),
                    (Level::Memory, read(10.0, 100_000_000)),
                ]),
            }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::calibration;
    use super::*;

    #[test]
    fn a_row_has_the_shares_of_its_time_and_none_where_nothing_was_calibrated() {
        let mut row = Row {
            threads: Some(1),
            dtypes: Some("float32;float32".to_owned()),
            flops: Some(50_000),
            bytes_read: Some(15_000),
            bytes_written: Some(5_000),
            time_median_ns: Some(1_000.0),
            ..crate::testing::measured("conv2d")
        };
        row.fill_roofline(&calibration());
        let shares = |row: &Row| {
            let levels = [row.l1_roof_share, row.l2_roof_share, row.l3_roof_share];
            (row.compute_roof_share, levels, row.memory_roof_share)
        };
        let expected = (Some(0.5), [Some(0.05), Some(0.2), None], Some(2.0));
        assert_eq!(shares(&row), expected);
        assert_eq!(row.bound_by.as_deref(), Some("compute"));
        let mut other = Row {
            threads: Some(2),
            time_median_ns: Some(1_000.0),
            bytes_read: Some(1),
            bytes_written: Some(1),
            ..row.clone()
        };
        (other.compute_roof_share, other.bound_by) = (None, None);
        other.fill_roofline(&calibration());
        assert_eq!((other.compute_roof_share, other.bound_by), (None, None));
    }

    #[test]
    fn a_call_that_cannot_have_read_all_has_no_shares_of_levels() {
        let calibration = calibration();
        let gather = calibration.standing(&work(1_000.0, 5e6)).unwrap();
        assert!(!gather.knows_traffic());
        assert_eq!((gather.words(), gather.bound_by()), (None, None));
        let product = calibration.standing(&work(50_000.0, 5e6)).unwrap();
        assert_eq!(product.words().unwrap(), "compute 50 %");
        let mut row = Row {
            threads: Some(1),
            dtypes: Some("float32;float32".to_owned()),
            flops: Some(1_000),
            bytes_read: Some(5_000_000),
            bytes_written: Some(1_000),
            time_median_ns: Some(1_000.0),
            ..crate::testing::measured("gather")
        };
        row.fill_roofline(&calibration);
        assert_eq!(row.compute_roof_share, Some(0.01));
        assert_eq!((row.l1_roof_share, row.memory_roof_share), (None, None));
        assert_eq!(row.bound_by, None);
    }

    fn work(flops: f64, bytes: f64) -> Work {
        Work {
            flops,
            bytes,
            time_ns: 1_000.0,
            threads: 1,
            cache: Some(CacheState::Hot),
        }
    }

    #[test]
    fn shares_are_of_the_calibrated_rates_of_as_many_threads() {
        let calibration = calibration();
        let standing = calibration.standing(&work(50_000.0, 20_000.0)).unwrap();
        assert_eq!(standing.share(Roof::Compute), Some(0.5));
        assert_eq!(standing.share(Roof::Read(Level::L2)), Some(0.2));
        assert_eq!(standing.level, Level::L1);
        assert_eq!(standing.words().unwrap(), "compute 50 %");
        let two = Work {
            threads: 2,
            ..work(1.0, 1.0)
        };
        assert_eq!(calibration.standing(&two), None);
    }

    #[test]
    fn the_level_is_the_nearest_that_holds_the_data_and_memory_for_a_flushed_cache() {
        let calibration = calibration();
        let standing = calibration.standing(&work(0.0, 60_000.0)).unwrap();
        assert_eq!(standing.nearest(), Some((Roof::Read(Level::L2), 0.6)));
        let flushed = Work {
            cache: Some(CacheState::Flushed),
            ..work(0.0, 1_000.0)
        };
        let standing = calibration.standing(&flushed).unwrap();
        assert_eq!(standing.words().unwrap(), "none (memory 10 %)");
    }
}
