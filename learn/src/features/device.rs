//! Features and estimates of a kind of device, besides those that every operator has.
//!
//! Each kind has a folder (or a file) with a [`DeviceFeatures`], and a line in [`features_of`].

use opdata::{DeviceKind, Row};

use super::cpu::Cpu;
use super::cuda::Cuda;
use super::knobs::Knobs;
use super::list::Values;
use super::machine::MachineFacts;
use super::machine::moving::AtBest;
use super::operator::Operator;
use super::schedule::Schedule;
use super::vta::Vta;

/// A point before it is measured.
pub(super) struct Query<'a> {
    /// Its row.
    pub row: &'a Row,
    /// The computation.
    pub operator: &'a Operator,
    /// The knobs of its schedule; empty under the default schedule.
    pub knobs: &'a Knobs,
    /// Facts about the machine that the point runs on.
    pub machine: &'a MachineFacts,
    /// Its time at the machine's calibrated rates, if these are known.
    pub best: Option<AtBest>,
}

/// Estimates about the kernels of a kind of device. By default, each method returns nothing.
pub(super) trait DeviceFeatures: Sync {
    /// The loops under the query's knobs. `None` if these are of an unknown template.
    fn nest(&self, _: &Query<'_>) -> Option<Box<dyn Nest>> {
        None
    }

    /// The loops under the default schedule, as far as they follow from the operator.
    fn default_nest(&self, _: &Query<'_>) -> Option<Box<dyn Nest>> {
        None
    }

    /// Sets the features that depend on the device but not on the schedule.
    fn describe(&self, _: &mut Values, _: &Query<'_>) {}
}

/// The loops of a kernel.
pub(super) trait Nest {
    /// Fills in their features.
    fn describe(&self, values: &mut Values, query: &Query<'_>);

    /// Pieces that the schedule divides the operator into.
    fn pieces(&self, operator: &Operator) -> f64;

    /// The cost on this many threads, if their number is known. `None` if there is no estimate.
    fn schedule(&self, query: &Query<'_>, threads: Option<f64>) -> Option<Schedule>;
}

/// A kind of device without features of its own.
struct Other;

impl DeviceFeatures for Other {}

/// Estimates about the kernels of a kind of device.
pub(super) fn features_of(kind: DeviceKind) -> &'static dyn DeviceFeatures {
    match kind {
        DeviceKind::CPU => &Cpu,
        DeviceKind::CUDA => &Cuda,
        DeviceKind::PYNQ | DeviceKind::VTA_SIM => &Vta,
        _ => &Other,
    }
}
