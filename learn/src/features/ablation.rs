//! Switching single estimates off, to see what each of them earns: `scripts/bench ablate`.
//!
//! Only builds with the feature `testing` can switch estimates off.

/// An estimate that is made by hand, by the module that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// Cycles of a core for this project's own tiled kernels.
    Cycles,
    /// How data under windows that slide over each channel are staged.
    Windows,
    /// Weights and outputs that have left the caches.
    Reuse,
    /// Time of a GPU for a kernel's blocks.
    Waves,
    /// Arithmetic and traffic at calibrated rates.
    Moving,
    /// How a register tile lies on the axes.
    TileAxes,
    /// The loop nest of a default schedule.
    DefaultTile,
    /// The loop nests of this project's own GPU templates.
    GpuOwn,
}

impl Estimate {
    /// All estimates, with the names of their modules.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Cycles, "cycles"),
        (Self::Windows, "windows"),
        (Self::Reuse, "reuse"),
        (Self::Waves, "waves"),
        (Self::Moving, "moving"),
        (Self::TileAxes, "tile_axes"),
        (Self::DefaultTile, "default_tile"),
        (Self::GpuOwn, "gpu_own"),
    ];
}

#[cfg(feature = "testing")]
mod switch {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Estimate;

    static OFF: AtomicU32 = AtomicU32::new(0);

    /// Switches one estimate off in this process, or none.
    pub fn switch_off(estimate: Option<Estimate>) {
        OFF.store(estimate.map_or(0, |e| 1 << e as u32), Ordering::Relaxed);
    }

    pub(in crate::features) fn is_on(estimate: Estimate) -> bool {
        OFF.load(Ordering::Relaxed) & (1 << estimate as u32) == 0
    }
}

#[cfg(feature = "testing")]
pub(super) use switch::is_on;
#[cfg(feature = "testing")]
pub use switch::switch_off;

#[cfg(not(feature = "testing"))]
pub(super) const fn is_on(_estimate: Estimate) -> bool {
    true
}
