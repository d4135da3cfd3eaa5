//! Kernels of CPUs: the loops of OpBench's schedules, and their cost on a core.

pub(super) mod nest;

pub(super) mod cycles;
mod default_tile;
mod describe;
mod own;
mod sampled;
mod tile_axes;

pub(super) use describe::describe_flat;

use super::ablation::{Estimate, is_on};
use super::autotvm::Decode;
use super::autotvm::processor::core_of;
use super::device::{DeviceFeatures, Nest, Query};
use super::list::Values;
use super::operator::Operator;
use super::schedule::{PieceSteps, Pieces, Schedule};
use nest::{CpuNest, Template};

/// Workers of a CPU whose number is not known.
const WORKERS: f64 = 8.0;

/// Kernels of CPUs.
pub(super) struct Cpu;

impl DeviceFeatures for Cpu {
    fn nest(&self, query: &Query<'_>) -> Option<Box<dyn Nest>> {
        let (operator, row, knobs) = (query.operator, query.row, query.knobs);
        let nest = match knobs.template() {
            Some("contraction") => own::tiled(operator, row, knobs),
            Some("sampled") => sampled::nest(operator, knobs),
            Some("convolution") => own::by_products(operator, knobs),
            _ => CpuNest::decode(operator, row, knobs),
        };
        Some(Box::new(nest?))
    }

    fn default_nest(&self, query: &Query<'_>) -> Option<Box<dyn Nest>> {
        let unit = query
            .machine
            .vector
            .filter(|_| is_on(Estimate::DefaultTile))?;
        let nest = default_tile::nest(query.row, query.operator, unit)?;
        Some(Box::new(nest))
    }
}

impl Nest for CpuNest {
    fn describe(&self, values: &mut Values, query: &Query<'_>) {
        describe::describe(values, query, self);
        describe::describe_step(values, query, self);
        let knobs = query.knobs.contraction();
        if let Some(knobs) = knobs.filter(|_| is_on(Estimate::TileAxes)) {
            tile_axes::describe(values, query.row, knobs);
        }
    }

    fn pieces(&self, _: &Operator) -> f64 {
        self.parallel
    }

    fn schedule(&self, query: &Query<'_>, threads: Option<f64>) -> Option<Schedule> {
        let machine = query.machine;
        let workers = threads.unwrap_or_else(|| machine.units_or(WORKERS));
        let rounds = (self.parallel / workers).ceil();
        let tiled = self.template == Template::Tiled;
        let step = if tiled {
            let core = machine.core().filter(|_| is_on(Estimate::Cycles));
            core.and_then(|core| self.task_cycles(query.operator, core))
        } else {
            self.autotvm_cycles(query.operator, core_of(query.row))
        };
        let before = self.autotvm_preparation(query.operator);
        let known = threads.is_some() || machine.units.is_some() || machine.cores.is_some();
        let pieces = Pieces {
            count: self.parallel,
            work: self.task_work,
            before,
            steps: step.map_or(PieceSteps::Unknown, PieceSteps::Round),
        };
        Some(Schedule {
            serial: rounds * self.task_work,
            steps: step.map(|step| before + rounds * step),
            in_cycles: tiled,
            pieces: Some(pieces).filter(|_| !known),
        })
    }
}
