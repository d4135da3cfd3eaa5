//! Estimated cost of a schedule, for all devices.

use super::cuda::waves::Waves;

/// Cost of a schedule's loops, in nominal operations.
pub(super) struct Schedule {
    /// Operations of the busiest unit, one piece after the other, whole rounds counted.
    pub serial: f64,
    /// Instructions or cycles of the busiest unit. `None` if they are not known.
    pub steps: Option<f64>,
    /// Whether the steps are cycles of all arithmetic.
    pub in_cycles: bool,
    /// How the schedule divides the work, where the machine's number of cores or multiprocessors is not known.
    pub pieces: Option<Pieces>,
}

/// Pieces of a kernel that cores or multiprocessors take one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pieces {
    /// Their number.
    pub count: f64,
    /// Operations of a piece.
    pub work: f64,
    /// Cycles of one core before the first of them.
    pub before: f64,
    /// Their cost.
    pub steps: PieceSteps,
}

/// The cost of a kernel's pieces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PieceSteps {
    /// The cost is not known.
    Unknown,
    /// Instructions or cycles of a piece on a core; a last round that is not full takes as many as a full one.
    Round(f64),
    /// The waves of a GPU's blocks.
    Blocks(Waves),
}
