//! Estimates of a point's time up to a constant, which the models correct.
//!
//! Trees do not extrapolate. A model that predicts `time ÷ estimate` carries over to sizes it has not seen, as far as
//! the estimate grows as the time does. The estimates err in different ways, and the ensemble averages over them.

use super::device::{Nest, Query};
use super::machine::moving::AtBest;
use super::schedule::{PieceSteps, Pieces};

/// Arithmetic that takes as long as moving one byte, on a nominal machine.
const FLOPS_PER_BYTE: f64 = 8.0;
/// Arithmetic that takes as long as an exponential.
const TRANSCENDENTAL_FLOPS: f64 = 40.0;
/// Bytes that take as long to move as looking for an element in one more input.
const CHOICE_BYTES: f64 = 1.0;
/// Operations that take as long as calling a kernel at all: tiny operators do not shrink below it.
const CALL_OPERATIONS: f64 = 5e4;

/// The kind of estimate.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// No estimate: the model predicts the time itself.
    None,
    /// Roofline: arithmetic plus traffic, shared by the threads.
    Work,
    /// Work of the busiest unit in sequence, in whole rounds.
    Serial,
    /// Cycles of a GPU's blocks, wave by wave; on a CPU cycles of the busiest worker.
    Steps,
    /// Arithmetic and traffic at the calibrated rates of the machine, and a floor, with fitted factors
    /// (`models::rates`). Each part of the traffic is at the rate of the cache that holds it.
    Calibrated,
    /// A sum of the others with rates fitted to the samples (`models::rates`).
    Fitted,
}

/// Estimates about a point's schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Scheduled {
    /// No estimate.
    #[default]
    Nothing,
    /// Work in sequence.
    Serial,
    /// The work in sequence, and the cycles of its nominal core.
    Steps,
    /// The cycles of the schedule's whole arithmetic.
    Cycles,
}

/// Threads that run a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Threads {
    /// Number of units, if known.
    pub asked: Option<f64>,
    /// Number of units with work; 1 if not known.
    pub busy: f64,
}

/// Memory that an operator finds outside the caches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cold {
    /// Bytes of weights that have left the caches since their last use.
    pub weights: f64,
    /// Bytes of outputs that are written to memory which has left the caches since its last use.
    pub outputs: f64,
}

/// The estimates of one point, base-2 logarithms of nominal operations.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bases {
    work: f64,
    serial: f64,
    steps: f64,
    /// The operator's time at the calibrated rates; missing if these are not known.
    at_best: Option<AtBest>,
    /// Estimates about the schedule.
    scheduled: Scheduled,
    /// How the schedule divides the work, where the machine's number of cores or multiprocessors is not known.
    pieces: Option<Pieces>,
    /// The share of one of the threads that find work: arithmetic (flop), compulsory traffic with choices between
    /// inputs (bytes), exponentials (calls), cold weights and cold outputs (bytes).
    shared: [f64; 5],
    /// Whether several threads have work, which must be started and waited for.
    several: bool,
    /// Bytes of the inputs and of the outputs.
    activations: [f64; 2],
}

impl Bases {
    /// The bases of a query on these threads of its machine, under the schedule of `nest` if it is known.
    pub(super) fn of(
        query: &Query<'_>,
        nest: Option<&dyn Nest>,
        threads: Threads,
        cold: Cold,
    ) -> Self {
        let operator = query.operator;
        let moved = operator.bytes() + CHOICE_BYTES * operator.choices();
        let exponentials = operator.transcendental_calls();
        let operations =
            operator.total_flops() + FLOPS_PER_BYTE * moved + TRANSCENDENTAL_FLOPS * exponentials;
        let work = (operations / threads.busy + CALL_OPERATIONS).log2();
        let shared = [
            operator.total_flops(),
            moved,
            exponentials,
            cold.weights,
            cold.outputs,
        ]
        .map(|whole| whole / threads.busy);
        let plain = Self {
            work,
            serial: work,
            steps: work,
            at_best: query.best,
            pieces: None,
            scheduled: Scheduled::Nothing,
            shared,
            several: threads.busy > 1.0,
            activations: [operator.input_bytes, operator.output_bytes],
        };
        let Some(schedule) = nest.and_then(|nest| nest.schedule(query, threads.asked)) else {
            return plain;
        };
        Self {
            pieces: schedule.pieces,
            serial: schedule.serial.max(1.0).log2(),
            steps: schedule.steps.map_or(work, |steps| steps.max(1.0).log2()),
            scheduled: match schedule.steps {
                Some(_) if schedule.in_cycles => Scheduled::Cycles,
                Some(_) => Scheduled::Steps,
                None => Scheduled::Serial,
            },
            ..plain
        }
    }

    /// The parts of a time that rates are fitted for; 0 where a part is not known or belongs to another one.
    ///
    /// First the work of the busiest unit, piece after piece, and its steps. Then the work of one busy thread:
    /// arithmetic, traffic, exponentials, cold weights, cold outputs. The last is 1 if several threads are busy.
    /// `units` is the number of cores or multiprocessors if the machine's own is not known.
    pub fn parts(&self, units: Option<f64>) -> [f64; 8] {
        let [
            arithmetic,
            traffic,
            exponentials,
            cold_weights,
            cold_outputs,
        ] = self.shared;
        let [serial, steps] = self.schedule(units);
        let [serial, steps, arithmetic] = match self.scheduled {
            Scheduled::Nothing => [0.0, 0.0, arithmetic],
            Scheduled::Serial => [serial, 0.0, arithmetic],
            Scheduled::Steps => [serial, steps, arithmetic],
            Scheduled::Cycles => [0.0, steps, 0.0],
        };
        let several = f64::from(u8::from(self.several));
        [
            serial,
            steps,
            arithmetic,
            traffic,
            exponentials,
            cold_weights,
            cold_outputs,
            several,
        ]
    }

    /// Whether its parts depend on a number of cores or multiprocessors that the machine does not report.
    pub fn asks_for_units(&self) -> bool {
        self.pieces.is_some()
    }

    /// The work of a piece of the schedule, in steps of 7 %. It is the same for schedules of one workload that differ
    /// only in how they divide it. `None` if the work is not known, or if the machine's number of cores is known already.
    pub fn pace_of_pieces(&self) -> Option<i64> {
        let pieces = self.pieces?;
        let PieceSteps::Round(steps) = pieces.steps else {
            return None;
        };
        Some(((steps / pieces.work).log2() * 10.0).round() as i64)
    }

    /// The schedule's work in sequence, as plain operations: [`Base::Serial`] and [`Base::Steps`].
    fn schedule(&self, units: Option<f64>) -> [f64; 2] {
        let (Some(pieces), Some(units)) = (self.pieces, units) else {
            return [self.serial.exp2(), self.steps.exp2()];
        };
        let rounds = (pieces.count / units).ceil();
        let steps = match pieces.steps {
            PieceSteps::Unknown => self.steps.exp2(),
            PieceSteps::Round(one) => pieces.before + rounds * one,
            PieceSteps::Blocks(waves) => waves.cycles(units),
        };
        [rounds * pieces.work, steps]
    }

    /// One estimate, with `units` cores or multiprocessors where the machine states none; 0 for a base that the point
    /// alone does not determine.
    pub fn get(&self, base: Base, units: Option<f64>) -> f64 {
        let [serial, steps] = self.schedule(units);
        match base {
            Base::None | Base::Fitted | Base::Calibrated => 0.0,
            Base::Work => self.work,
            Base::Serial => serial.max(1.0).log2(),
            Base::Steps => steps.max(1.0).log2(),
        }
    }

    /// Bytes of the inputs and of the outputs.
    pub fn activations(&self) -> [f64; 2] {
        self.activations
    }

    /// Whether the rates of the machine are known.
    pub fn knows_rates(&self) -> bool {
        self.at_best.is_some()
    }

    /// Time of arithmetic and of traffic at the calibrated rates of the machine, ns, and the first of them times the
    /// machine's power shortage. Where no rates are known, nominal operations replace all three.
    pub fn at_best(&self) -> [f64; 3] {
        self.at_best.map_or_else(
            || [self.work.exp2(), 0.0, 0.0],
            |best| [best.arithmetic, best.moving, best.short_of_power],
        )
    }
}
