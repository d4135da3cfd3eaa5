//! The grade that a result gets: of its own spread, of the interference around it, and of the machine's load.

use opdata::Quality;
use opengine::stats::{GradeInput, Summary, grade};

/// The grade of a summary, with the reference kernel's slowdown around it.
pub(crate) fn quality(summary: &Summary, slowdown: f64) -> Quality {
    grade(GradeInput {
        relative_half_width: summary.relative_half_width(),
        drifts: [summary.drift, Some(slowdown - 1.0)],
        samples: summary.samples,
    })
}

/// A grade that takes the machine's load into account. With other processes at up to 6, 12 or 24 % of the CPU time it is
/// at best A, B or C. They seldom slow a kernel down by more than half of that.
pub(super) fn quality_under_load(quality: Quality, other_cpu_share: f64) -> Quality {
    let best = grade(GradeInput {
        relative_half_width: 0.0,
        drifts: [Some(other_cpu_share / 2.0), None],
        samples: u64::MAX,
    });
    worse(quality, best)
}

/// The worse of two grades.
pub(super) fn worse(one: Quality, other: Quality) -> Quality {
    if one.as_str() > other.as_str() {
        one
    } else {
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_lowers_a_grade_and_raises_none() {
        let under = |share| quality_under_load(Quality::A, share);
        assert_eq!(
            [0.0, 0.1, 0.2, 0.5].map(under),
            [Quality::A, Quality::B, Quality::C, Quality::D]
        );
        assert_eq!(quality_under_load(Quality::C, 0.0), Quality::C);
    }
}
