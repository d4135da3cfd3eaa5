//! Times kernels that measure a rate. This is the seam between the choice of probes and the way of timing.
//!
//! [`TvmMeter`] builds, checks and times the kernels in this process, with the thread pool, the timer and the statistics
//! of any operator. Nothing here is unknown code that could crash or hang, so no worker is needed.

use opmodels::tile::VectorUnit;
use tvm_bridge::compile::{Asserts, compile};
use tvm_bridge::threads::Pool;
use tvm_bridge::{DType, Device, PrimFunc, Target, Tensor};

use super::kernels::{Kind, Tile, kernel};
use super::{CalibrateError, Level};
use crate::interrupt::Interrupt;
use crate::measure::TimingPolicy;
use crate::measure::sampling::{Caches, take, time_calls};
use crate::measure::timer::WallClock;
use crate::stats::Summary;
use opdata::contract::Rate;

/// A rate to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Threads at work.
    pub threads: u32,
    /// Their work.
    pub work: Work,
}

/// The work of the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Multiply and add in registers.
    Peak,
    /// Read a set of their own.
    Read {
        /// The memory level that the data fit into.
        level: Level,
        /// Bytes of each thread's set.
        set_bytes: u64,
    },
}

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeTimes {
    /// Times of one call.
    pub time: Summary,
    /// Work of one call, flop or bytes.
    pub work: f64,
}

impl From<ProbeTimes> for Rate {
    /// Flop per nanosecond equal Gflop per second.
    fn from(reading: ProbeTimes) -> Rate {
        let time = reading.time;
        Rate {
            best: reading.work / time.min.get(),
            median: reading.work / time.median.get(),
            spread: time.relative_half_width(),
            samples: time.samples,
        }
    }
}

/// Measures probes; tests put a double in its place.
pub trait Meter {
    /// Number of bytes that a thread's set must be a multiple of.
    fn step_bytes(&self) -> u64;
    /// Measures one probe.
    ///
    /// # Errors
    /// Fails if the kernel cannot be built or has a wrong output, or the user has asked to stop.
    fn read(&mut self, probe: Probe, policy: TimingPolicy) -> Result<ProbeTimes, CalibrateError>;
}

/// The real one.
#[derive(Debug)]
pub struct TvmMeter {
    target: Target,
    unit: VectorUnit,
    pool: Pool,
    interrupt: Interrupt,
    /// Ones, enough for the largest set so far.
    data: Option<Tensor>,
}

impl TvmMeter {
    /// A meter for code for `target` (TVM's dictionary), on up to `max_threads` threads.
    ///
    /// # Errors
    /// Fails if TVM cannot be loaded, or does not know the target.
    pub fn new(
        target: &serde_json::Value,
        max_threads: u32,
        interrupt: Interrupt,
    ) -> Result<TvmMeter, CalibrateError> {
        let target = Target::new(target)?;
        Ok(TvmMeter {
            unit: VectorUnit::of_width(target.vector_width_bits()?, cfg!(target_arch = "x86_64")),
            pool: Pool::start(max_threads as usize)?,
            target,
            interrupt,
            data: None,
        })
    }

    /// Ones, `bytes` of them at least.
    fn data(&mut self, bytes: u64) -> Result<Tensor, CalibrateError> {
        let enough = |t: &&Tensor| t.size_bytes() as u64 >= bytes;
        if let Some(tensor) = self.data.as_ref().filter(enough) {
            return Ok(tensor.clone());
        }
        // Frees the old tensor first, because memory may have room for one only.
        self.data = None;
        let elements = i64::try_from(bytes / 4).unwrap_or(i64::MAX);
        let mut tensor = Tensor::zeros(Device::cpu(), &[elements], DType::Float32)?;
        let bytes = tensor.host_bytes_mut().unwrap_or_default();
        for element in bytes.chunks_exact_mut(4) {
            element.copy_from_slice(&1f32.to_le_bytes());
        }
        self.data = Some(tensor.clone());
        Ok(tensor)
    }
}

impl Meter for TvmMeter {
    fn step_bytes(&self) -> u64 {
        Tile::new(Kind::Read, self.unit).step_bytes() as u64
    }

    fn read(&mut self, probe: Probe, policy: TimingPolicy) -> Result<ProbeTimes, CalibrateError> {
        let (kind, set_bytes, needed) = match probe.work {
            // One vector of factors and one of addends.
            Work::Peak => (Kind::Peak, 0, u64::from(2 * self.unit.bits / 8)),
            Work::Read { set_bytes, .. } => {
                (Kind::Read, set_bytes, set_bytes * u64::from(probe.threads))
            }
        };
        let tile = Tile::new(kind, self.unit);
        let counts = tile.counts(kind, set_bytes);
        let threads = i64::from(probe.threads);
        let data = self.data(needed)?;
        let function = kernel(kind, tile, threads, data.len() as i64)?;
        let compiled = compile(&function.to_module()?, &self.target, Asserts::Kept)?;
        let kernel = compiled.module.function(tvm_bridge::ir::ENTRY)?;
        self.pool.use_threads(probe.threads as usize)?;
        let loops = [counts.rounds, counts.steps].map(i64::to_le_bytes).concat();
        let tensors = [
            data,
            Tensor::from_bytes(Device::cpu(), &[2], DType::Int64, &loops)?,
            Tensor::zeros(Device::cpu(), &[threads * tile.elements()], DType::Float32)?,
        ];
        let bound = kernel.bind(&tensors);
        let mut clock = WallClock;
        let first = time_calls(&mut clock, 1, || bound.call())?;
        check(probe, (counts.rounds * counts.steps) as f32, &tensors[2])?;
        let taken = take(policy, first, &mut clock, &mut Caches::Kept, || {
            if self.interrupt.requested() {
                return Err(CalibrateError::Interrupted);
            }
            Ok(bound.call()?)
        })?;
        Ok(ProbeTimes {
            time: taken.samples.summary()?,
            work: (threads * tile.work(kind, counts)) as f64,
        })
    }
}

/// The arithmetic of one thread as a kernel for `target`, with its arguments on this machine. It is a fixed piece of
/// work that shows how fast a processor is at the moment.
pub(crate) fn reference_kernel(target: &Target) -> tvm_bridge::Result<(PrimFunc, Vec<Tensor>)> {
    let unit = VectorUnit::of_width(target.vector_width_bits()?, false);
    let tile = Tile::new(Kind::Peak, unit);
    let counts = tile.counts(Kind::Peak, 0);
    let elements = i64::from(2 * unit.bits / 8) / 4;
    let ones = 1_f32.to_le_bytes().repeat(elements as usize);
    let loops = [counts.rounds, counts.steps].map(i64::to_le_bytes).concat();
    let arguments = vec![
        Tensor::from_bytes(Device::cpu(), &[elements], DType::Float32, &ones)?,
        Tensor::from_bytes(Device::cpu(), &[2], DType::Int64, &loops)?,
        Tensor::zeros(Device::cpu(), &[tile.elements()], DType::Float32)?,
    ];
    Ok((kernel(Kind::Peak, tile, 1, elements)?, arguments))
}

/// Every addition must have been made: the outputs count them.
fn check(probe: Probe, expected: f32, out: &Tensor) -> Result<(), CalibrateError> {
    let bytes = out.bytes()?;
    let found = bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap_or_default()));
    match found.into_iter().find(|value| *value != expected) {
        None => Ok(()),
        Some(found) => Err(CalibrateError::Wrong {
            probe,
            found,
            expected,
        }),
    }
}
