//! Estimated time of a stream on a board: three stages in order, tokens between them, a fetch unit in front.
//!
//! An instruction is fetched, waits in the queue of its stage, waits for its tokens, runs, sends its tokens. Durations add
//! up from rows, beats, micro-ops and vectors. The host's work comes before and after, never beside. Nothing models that
//! loads and stores share a bus. How close this is to boards: docs/vta.md.

pub mod best;
pub mod calibrate;
pub mod compare;

mod stages;

use serde::{Deserialize, Serialize};

use crate::error::StreamError;
use crate::isa::{Instruction, MemoryType, Operation, Stage};
use crate::lower::Program;
use crate::profile::{Hardware, Profile, Timing};

pub use stages::{Span, run};

/// The result of a simulated run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Total time of host and fabric, nanoseconds.
    pub total_ns: f64,
    /// The host's part, nanoseconds.
    pub host_ns: f64,
    /// Cycles from the first fetch to FINISH.
    pub cycles: f64,
    /// Cycles in which each stage ran an instruction: load, compute, store.
    pub busy_cycles: [f64; 3],
    /// Cycles of GEMM instructions.
    pub gemm_cycles: f64,
    /// Bytes read from DRAM.
    pub bytes_read: u64,
    /// Bytes written to DRAM.
    pub bytes_written: u64,
    /// Instructions.
    pub instructions: u64,
}

/// The main limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Loads of inputs and weights.
    Load,
    /// The matrix unit.
    Gemm,
    /// The compute stage's other work: ALU, micro-ops.
    Compute,
    /// Stores.
    Store,
    /// The host.
    Host,
    /// No stage is busy most of the time: they wait for each other.
    Waiting,
}

impl Limit {
    /// The limit's name in listings.
    pub const fn word(self) -> &'static str {
        match self {
            Limit::Load => "load",
            Limit::Gemm => "gemm",
            Limit::Compute => "compute",
            Limit::Store => "store",
            Limit::Host => "host",
            Limit::Waiting => "waiting",
        }
    }
}

impl Simulated {
    /// The stage with the largest part of the time. Stages that are busy for less than half of it wait for each other.
    pub fn limit(&self, hardware: &Hardware) -> Limit {
        let ns = |cycles: f64| cycles * 1e3 / hardware.clock_mhz as f64;
        let [load, compute, store] = self.busy_cycles;
        let of_compute = match self.gemm_cycles * 2.0 >= compute {
            true => Limit::Gemm,
            false => Limit::Compute,
        };
        let parts = [
            (ns(load), Limit::Load),
            (ns(compute), of_compute),
            (ns(store), Limit::Store),
            (self.host_ns, Limit::Host),
        ];
        let largest = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        match largest {
            Some((part, limit)) if part * 2.0 >= self.total_ns => limit,
            _ => Limit::Waiting,
        }
    }
}

/// Simulates a lowered program.
///
/// # Errors
/// Fails if its tokens do not come, or it has no FINISH.
pub fn simulate(profile: &Profile, program: &Program) -> Result<Simulated, StreamError> {
    let (hardware, timing) = (&profile.hardware, &profile.timing);
    let mut simulated = Simulated {
        instructions: program.instructions.len() as u64,
        host_ns: (timing.host_run_us + timing.host_call_us * program.host_calls as f64) * 1e3,
        ..Simulated::default()
    };
    simulated.cycles = run(&program.instructions, timing, hardware, |span| {
        let instruction = &program.instructions[span.at];
        let cycles = span.end - span.begin;
        simulated.busy_cycles[instruction.stage() as usize] += cycles;
        match &instruction.operation {
            Operation::Gemm { .. } => simulated.gemm_cycles += cycles,
            Operation::Load(t) => {
                simulated.bytes_read += t.elements() * element_bytes(hardware, t.memory);
            }
            Operation::Store(t) => {
                simulated.bytes_written += t.elements() * element_bytes(hardware, t.memory);
            }
            _ => {}
        }
        Ok(())
    })?;
    simulated.total_ns = simulated.cycles * 1e3 / hardware.clock_mhz as f64 + simulated.host_ns;
    Ok(simulated)
}

/// Bytes of an element.
pub fn element_bytes(hardware: &Hardware, memory: MemoryType) -> u64 {
    let (batch, block) = (hardware.batch, hardware.block);
    match memory {
        MemoryType::Uop => 4,
        MemoryType::Wgt => block * block,
        MemoryType::Inp | MemoryType::Out => batch * block,
        MemoryType::Acc => batch * block * 4,
    }
}

/// Cycles of an instruction, once its tokens are there.
pub fn cycles(timing: &Timing, hardware: &Hardware, instruction: &Instruction) -> f64 {
    let fixed = match instruction.stage() {
        Stage::Load => timing.load_fixed,
        Stage::Compute => timing.compute_fixed,
        Stage::Store => timing.store_fixed,
    };
    let beats = |memory| {
        let bytes = element_bytes(hardware, memory);
        bytes.div_ceil(hardware.bus_bytes) as f64
    };
    fixed
        + match &instruction.operation {
            Operation::Load(t) | Operation::Store(t) if t.columns == 0 => 0.0,
            Operation::Load(t) => {
                let elements = t.elements() as f64;
                let padding = (t.padded_elements() - t.elements()) as f64 * timing.pad_element;
                let (row, beat) = match t.memory {
                    MemoryType::Uop => return fixed + timing.uop_load + elements * timing.uop_word,
                    MemoryType::Wgt => (timing.wgt_row, timing.wgt_beat),
                    // Accumulators come over the same port as inputs. No log separates the two.
                    MemoryType::Inp | MemoryType::Acc | MemoryType::Out => {
                        (timing.inp_row, timing.inp_beat)
                    }
                };
                f64::from(t.rows) * row + elements * beats(t.memory) * beat + padding
            }
            Operation::Store(t) => {
                f64::from(t.rows) * timing.store_row
                    + t.elements() as f64 * beats(t.memory) * timing.store_beat
            }
            Operation::Gemm { nest, .. } => {
                f64::from(nest.iterations[0]) * timing.gemm_outer
                    + nest.operations() as f64 * timing.gemm_uop
            }
            Operation::Alu { nest, .. } => nest.operations() as f64 * timing.alu_vector,
            Operation::Finish => 0.0,
        }
}
