//! The machine's peak rates: arithmetic, and reads from each level of its memory, by number of threads.
//!
//! `opcollect doctor --calibrate` measures them once. The result is kept for the machine ([`store`]), and runs record
//! it in their environment. `oppredict` takes its hardware features from there. The kernels ([`kernels`]) are compiled
//! like any operator, so a rate is what TVM's code can reach, not a data sheet's. [`sets`] chooses the working set for
//! each level; [`Meter`] takes the times. Calibrating never changes a machine's name.

mod clock;
mod kernels;
mod meter;
mod sets;
mod store;

use std::collections::BTreeMap;

pub use clock::clock_ghz;
pub(crate) use meter::reference_kernel;
pub use meter::{Meter, Probe, ProbeTimes, TvmMeter, Work};
pub use sets::Hierarchy;
pub use store::{Store, StoreError};

use crate::interrupt::Interrupt;
use crate::measure::TimingPolicy;
use crate::measure::counters::CounterError;
use crate::stats::{StatsError, StopRule};
use opdata::contract::{Level, Rate, ReadRate, ThreadRates};
use opreport::progress::Progress;
use opreport::units;

/// Why a machine was not calibrated. Nothing was written then.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A kernel could not be built or run.
    #[error(transparent)]
    Tvm(#[from] tvm_bridge::Error),
    /// The clock gave nonsense.
    #[error(transparent)]
    Stats(#[from] StatsError),
    /// A counter does not count.
    #[error(transparent)]
    Counter(#[from] CounterError),
    /// A kernel computed something else than it should.
    #[error("the kernel for {} computed {found} instead of {expected}, so its time says nothing; check the machine's memory, and the target with `opcollect doctor`", label(*probe))]
    Wrong {
        /// The kernel.
        probe: Probe,
        /// The computed result.
        found: f32,
        /// The expected result.
        expected: f32,
    },
    /// There is nothing to measure.
    #[error("no number of threads to calibrate for; give some, as in --threads 1,2")]
    NoThreads,
    /// The user has asked to stop.
    #[error("interrupted before the calibration was complete: nothing was written")]
    Interrupted,
}

/// The thread counts that a machine is calibrated for by default: powers of two, and all cores.
pub fn usual_threads(cores: u32) -> Vec<u32> {
    let cores = cores.max(1);
    let powers = std::iter::successors(Some(1u32), |n| n.checked_mul(2));
    let mut threads: Vec<u32> = powers.take_while(|n| *n < cores).collect();
    threads.push(cores);
    threads
}

/// How a rate is timed: for all of its budget, however precise the median is. The fastest sample counts, and a shared
/// machine is often slow for a while.
pub fn timing(budget_ns: u64) -> TimingPolicy {
    TimingPolicy {
        warmup: 3,
        number: None,
        stop: StopRule {
            ci_target: 0.0,
            min_samples: 10,
            max_samples: 100_000,
            budget_ns,
        },
    }
}

/// Measures the rates at each number of threads.
///
/// # Errors
/// Fails if a kernel fails, if there is no number of threads, or if the user asked to stop.
pub fn measure(
    threads: &[u32],
    hierarchy: Hierarchy<'_>,
    policy: TimingPolicy,
    meter: &mut dyn Meter,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Vec<ThreadRates>, CalibrateError> {
    let mut threads = threads.to_vec();
    threads.sort_unstable();
    threads.dedup();
    let step = meter.step_bytes();
    let plan: Vec<(u32, Vec<(Level, u64)>)> = threads
        .into_iter()
        .filter(|n| *n > 0)
        .map(|n| (n, hierarchy.sets(n, step)))
        .collect();
    if plan.is_empty() {
        return Err(CalibrateError::NoThreads);
    }
    let total: usize = plan.iter().map(|(_, sets)| 1 + sets.len()).sum();
    let wall = policy.stop.budget_ns.saturating_mul(total as u64);
    progress.note(&format!(
        "calibrating: {total} rates, about {}",
        units::wall(wall)
    ));
    progress.begin("calibrate", total as u64);
    let mut take = |probe: Probe| -> Result<Rate, CalibrateError> {
        if interrupt.requested() {
            return Err(CalibrateError::Interrupted);
        }
        progress.working(&label(probe));
        let rate = Rate::from(meter.read(probe, policy)?);
        progress.point(&label(probe), &outcome(probe, rate));
        Ok(rate)
    };
    let rates = plan
        .into_iter()
        .map(|(threads, sets)| {
            let peak_gflops_per_s = take(Probe {
                threads,
                work: Work::Peak,
            })?;
            let mut read_gbytes_per_s = BTreeMap::new();
            for (level, set_bytes) in sets {
                let work = Work::Read { level, set_bytes };
                let rate = take(Probe { threads, work })?;
                read_gbytes_per_s.insert(level, ReadRate { rate, set_bytes });
            }
            Ok(ThreadRates {
                threads,
                peak_gflops_per_s,
                read_gbytes_per_s,
            })
        })
        .collect::<Result<Vec<_>, CalibrateError>>();
    progress.end();
    rates
}

fn label(probe: Probe) -> String {
    let threads = units::plural(u64::from(probe.threads), "thread");
    match probe.work {
        Work::Peak => format!("peak ({threads})"),
        Work::Read { level, set_bytes } => {
            let set = units::bytes(set_bytes as f64);
            format!("{} ({threads}, {set} each)", level.name())
        }
    }
}

fn outcome(probe: Probe, rate: Rate) -> String {
    let unit = match probe.work {
        Work::Peak => "GFLOP/s",
        Work::Read { .. } => "GB/s",
    };
    format!(
        "{} {unit}, median {} ±{}",
        units::giga(rate.best * 1e9),
        units::giga(rate.median * 1e9),
        units::percent(rate.spread)
    )
}

#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
