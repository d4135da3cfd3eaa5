//! Kernels of NVIDIA's GPUs: grid, blocks, staged tiles, and their cost on multiprocessors.

pub(super) mod nest;
pub(super) mod waves;

mod describe;
mod own;

use super::ablation::{Estimate, is_on};
use super::autotvm::Decode;
use super::device::{DeviceFeatures, Nest, Query};
use super::list::Values;
use super::operator::Operator;
use super::schedule::{PieceSteps, Pieces, Schedule};
use nest::{GpuNest, SMS};
use waves::Waves;

/// Kernels of GPUs.
pub(super) struct Cuda;

impl DeviceFeatures for Cuda {
    fn nest(&self, query: &Query<'_>) -> Option<Box<dyn Nest>> {
        let (operator, row, knobs) = (query.operator, query.row, query.knobs);
        let nest = match knobs.template() {
            Some(_) => own::nest(operator, knobs).filter(|_| is_on(Estimate::GpuOwn)),
            None => GpuNest::decode(operator, row, knobs),
        };
        Some(Box::new(nest?))
    }

    fn describe(&self, values: &mut Values, query: &Query<'_>) {
        if let Some(best) = query.best {
            describe::describe_share(values, query.operator, best, query.machine);
        }
    }
}

impl Nest for GpuNest {
    fn describe(&self, values: &mut Values, query: &Query<'_>) {
        describe::describe(values, query.operator, self, query.machine);
    }

    fn pieces(&self, operator: &Operator) -> f64 {
        operator.results()
    }

    fn schedule(&self, query: &Query<'_>, _: Option<f64>) -> Option<Schedule> {
        if !is_on(Estimate::Waves) {
            return None;
        }
        let units = query.machine.units_or(SMS);
        let waves = Waves::of(query.operator, self);
        let pieces = Pieces {
            count: self.blocks,
            work: self.thread_work * self.warps(),
            before: 0.0,
            steps: PieceSteps::Blocks(waves),
        };
        Some(Schedule {
            serial: (self.blocks / units).ceil() * pieces.work,
            steps: Some(waves.cycles(units)),
            in_cycles: false,
            pieces: Some(pieces).filter(|_| query.machine.units.is_none()),
        })
    }
}
