//! What a schedule is estimated to take, whatever the device.

use super::cuda::waves::Waves;

/// What the loops of a schedule take, in nominal operations.
pub(super) struct Schedule {
    /// Operations of the busiest unit, one piece after the other, whole rounds counted.
    pub serial: f64,
    /// Instructions or cycles of the busiest unit; none if they are not known.
    pub steps: Option<f64>,
    /// Whether the steps are cycles of all arithmetic.
    pub in_cycles: bool,
    /// How the schedule divides the work, where the machine's number of cores or multiprocessors is not known.
    pub pieces: Option<Pieces>,
}

/// Pieces of a kernel that cores or multiprocessors take one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pieces {
    /// How many there are.
    pub count: f64,
    /// Operations of a piece.
    pub work: f64,
    /// What they take.
    pub steps: PieceSteps,
}

/// What the pieces of a kernel take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PieceSteps {
    /// It is not known.
    Unknown,
    /// Instructions or cycles of a piece of a core; a last round that is not full takes as many as a full one.
    Round(f64),
    /// Those of a GPU's blocks.
    Blocks(Waves),
}
