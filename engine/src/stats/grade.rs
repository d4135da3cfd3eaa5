//! The quality grade of a measured point. It follows from the width of its interval, the number of samples, and the
//! larger of two drifts: the trend of its own samples and the slowdown of the reference kernel, as a share.
//!
//! | grade | half width / median | drift | samples |
//! | --- | --- | --- | --- |
//! | A | ≤ 3 % | ≤ 3 % | ≥ 10 |
//! | B | ≤ 6 % | ≤ 6 % | ≥ 8 |
//! | C | ≤ 12 % | ≤ 12 % | ≥ 6 |
//! | D | anything else | | |
//!
//! The worst of the three decides. A missing drift does not lower the grade: it was not measured.

use opdata::Quality;

/// The inputs of a grade.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GradeInput {
    /// Half the interval's width over the median ([`super::Summary::relative_half_width`]).
    pub relative_half_width: f64,
    /// Relative drifts that apply to the point (its own, the reference kernel's slowdown); the largest in size
    /// counts, `None` where not measured.
    pub drifts: [Option<f64>; 2],
    /// Number of samples.
    pub samples: u64,
}

/// Largest half width and drift, and fewest samples, of A, B and C.
const BOUNDS: [(Quality, f64, u64); 3] = [
    (Quality::A, 0.03, 10),
    (Quality::B, 0.06, 8),
    (Quality::C, 0.12, 6),
];

/// The grade by the table of this module.
pub fn grade(input: GradeInput) -> Quality {
    let drift = input
        .drifts
        .iter()
        .flatten()
        .fold(0.0f64, |largest, d| largest.max(d.abs()));
    BOUNDS
        .iter()
        .find(|(_, bound, samples)| {
            input.relative_half_width <= *bound && drift <= *bound && input.samples >= *samples
        })
        .map_or(Quality::D, |(grade, ..)| *grade)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(relative_half_width: f64, drift: f64, samples: u64) -> Quality {
        grade(GradeInput {
            relative_half_width,
            drifts: [Some(drift), None],
            samples,
        })
    }

    #[test]
    fn the_worst_decides() {
        assert_eq!(of(0.01, 0.0, 10), Quality::A);
        assert_eq!(of(0.01, 0.0, 9), Quality::B);
        assert_eq!(of(0.01, -0.05, 100), Quality::B);
        assert_eq!(of(0.07, 0.0, 100), Quality::C);
        assert_eq!(of(0.01, 0.0, 5), Quality::D);
        assert_eq!(of(f64::INFINITY, 0.0, 100), Quality::D);
        assert_eq!(of(f64::NAN, 0.0, 100), Quality::D);
    }

    #[test]
    fn missing_drift_is_not_held_against_a_point() {
        let input = GradeInput {
            relative_half_width: 0.02,
            drifts: [None, None],
            samples: 20,
        };
        assert_eq!(grade(input), Quality::A);
    }
}
