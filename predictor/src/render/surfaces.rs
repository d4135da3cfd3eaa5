//! Turning points over two factors.

use std::fmt::Write;

use crate::turning::SurfaceReport;
use crate::turning::crease::{Estimate, TurnAt};

/// Maximum number of lines in text; JSON has all.
const MOST: usize = 20;

/// A number with a suitable number of digits.
fn number(value: f64) -> String {
    if value >= 1e5 {
        format!("{value:.1e}")
    } else if value >= 10.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

fn turn(at: &TurnAt) -> String {
    let Estimate { value, low, high } = at.turn;
    let (value, low, high) = (number(value), number(low), number(high));
    format!("{value} ({low} … {high}) at {}", number(at.second))
}

/// The surfaces with a turning line, clearest first, and how many have none; nothing without surfaces.
pub fn lines(reports: &[SurfaceReport]) -> String {
    if reports.is_empty() {
        return String::new();
    }
    let found: Vec<_> = reports
        .iter()
        .filter_map(|report| Some((report, report.crease.as_ref()?)))
        .collect();
    let mut text = format!(
        "\nwhere a factor stops paying, by a second one: {} of {} surfaces have a turning line\n",
        found.len(),
        reports.len()
    );
    for (report, crease) in found.iter().take(MOST) {
        let moves = crease.moves;
        let verdict = if moves.low > 0.0 {
            "more of it moves the turn up"
        } else if moves.high < 0.0 {
            "more of it moves the turn down"
        } else {
            "it does not surely move the turn"
        };
        let _ = writeln!(
            text,
            "{} {}\n    {} by {}: {}; {}; {}\n    \
             turn ~ {}^{:.2} ({:.2} … {:.2}): {verdict}; slope {:.2} → {:.2}, p = {:.3}, {} cells",
            report.device,
            report.name,
            report.first,
            report.second,
            turn(&crease.turns[0]),
            turn(&crease.turns[1]),
            turn(&crease.turns[2]),
            report.second,
            moves.value,
            moves.low,
            moves.high,
            crease.slope_before,
            crease.slope_after,
            crease.p_value,
            report.cells,
        );
    }
    if found.len() > MOST {
        let _ = writeln!(text, "… and {} more (--json has all)", found.len() - MOST);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turning::Crease;

    #[test]
    fn lines_are_told_with_their_intervals() {
        let estimate = |value: f64| Estimate {
            value,
            low: 0.8 * value,
            high: 1.25 * value,
        };
        let at = |second: f64, value: f64| TurnAt {
            second,
            turn: estimate(value),
        };
        let report = |crease| SurfaceReport {
            name: "conv2d 3x3 by 1x1".to_owned(),
            device: "m".to_owned(),
            first: "threads".to_owned(),
            second: "flops".to_owned(),
            cells: 42,
            crease,
        };
        let crease = Crease {
            turns: [at(1e6, 2.0), at(1e7, 6.3), at(1e8, 20.0)],
            moves: estimate(0.5),
            slope_before: -0.98,
            slope_after: 0.02,
            residual_ratio: 0.03,
            p_value: 0.005,
        };
        insta::assert_snapshot!(lines(&[report(Some(crease)), report(None)]), @r"

        where a factor stops paying, by a second one: 1 of 2 surfaces have a turning line
        m conv2d 3x3 by 1x1
            threads by flops: 2.0 (1.6 … 2.5) at 1.0e6; 6.3 (5.0 … 7.9) at 1.0e7; 20 (16 … 25) at 1.0e8
            turn ~ flops^0.50 (0.40 … 0.62): more of it moves the turn up; slope -0.98 → 0.02, p = 0.005, 42 cells
        ");
        assert_eq!(lines(&[]), "");
    }
}
