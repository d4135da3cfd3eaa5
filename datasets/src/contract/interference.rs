//! Interference in rows, and the bounds from which on it counts.
//!
//! Interference is whatever else runs: other processes, and other virtual machines on the same processors. A row has two
//! signs of it. The *slowdown* (column `drift_ratio`) is the time of a reference kernel around the point over its time on
//! the idle machine. The other is the share of CPU time that other processes took (`other_cpu_share`).

use crate::schema::Row;
use crate::values::{DeviceKind, Quality};

/// A point with a greater slowdown is disturbed, and measured again. Repeats of undisturbed points on rented virtual
/// machines differ by 5 % in the middle; this is twice that. 22 November 2026.
pub const SLOWDOWN_BOUND: f64 = 1.10;
/// Maximum slowdown of a quiet moment: half of a point's bound, because there are enough moments to choose from.
pub const QUIET_MOMENT: f64 = 1.05;
/// Share of the CPU time beyond which other processes make a machine busy.
pub const BUSY_SHARE: f64 = 0.10;

/// Whether a slowdown is beyond the bound.
pub fn is_disturbed(slowdown: f64) -> bool {
    slowdown > SLOWDOWN_BOUND
}

/// A row's record of interference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interference {
    /// Time of the reference kernel over its time on the idle machine; `None` where it was not run.
    pub slowdown: Option<f64>,
    /// The grade of the row.
    pub quality: Option<Quality>,
    /// Share of the CPU time that other processes took, where the point ran on the same processors.
    pub other_cpu_share: Option<f64>,
}

impl Interference {
    /// Whether the measurement was disturbed: its slowdown is beyond the bound, or its grade is D. `None` for a row that says
    /// neither.
    pub fn was_disturbed(&self) -> Option<bool> {
        let slowed = self.slowdown.map(is_disturbed);
        let poor = self.quality.map(|quality| quality == Quality::D);
        slowed.into_iter().chain(poor).reduce(|a, b| a || b)
    }

    /// Whether other processes took more than [`BUSY_SHARE`] of the CPU time.
    pub fn was_busy(&self) -> bool {
        self.other_cpu_share.is_some_and(|share| share > BUSY_SHARE)
    }
}

impl Row {
    /// The row's record of interference.
    pub fn interference(&self) -> Interference {
        Interference {
            slowdown: self.drift_ratio,
            quality: self.quality,
            other_cpu_share: self
                .other_cpu_share
                .filter(|_| self.device_kind == DeviceKind::CPU),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_knows_whether_it_was_disturbed() {
        let row = |quality, drift_ratio| Row {
            quality,
            drift_ratio,
            ..crate::testing::measured("dense")
        };
        for (quality, slowdown, disturbed) in [
            (None, None, None),
            (Some(Quality::A), Some(1.02), Some(false)),
            (Some(Quality::B), Some(1.3), Some(true)),
            (Some(Quality::D), None, Some(true)),
            (Some(Quality::D), Some(1.0), Some(true)),
            (None, Some(1.0), Some(false)),
        ] {
            let found = row(quality, slowdown).interference();
            assert_eq!(found.was_disturbed(), disturbed, "{quality:?} {slowdown:?}");
        }
        let mut busy = row(None, None);
        busy.other_cpu_share = Some(0.2);
        assert!(busy.interference().was_busy());
        busy.device_kind = DeviceKind::CUDA;
        assert!(
            !busy.interference().was_busy(),
            "it waits for other processors"
        );
    }
}
