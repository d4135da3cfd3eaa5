//! Suggestions as text.

use std::fmt::Write;

use opreport::Style;
use opreport::table::{Cell, Table};
use opreport::units::plural;

use crate::suggest::plan::Written;
use crate::suggest::{Suggestion, duration};

/// The chosen points, their expected gain, and how to measure them.
pub fn suggestion(suggestion: &Suggestion, written: &[Written], style: Style) -> String {
    let mut text = format!(
        "{} of {} candidates chosen, about {} of {}\n\n",
        suggestion.chosen,
        suggestion.candidates,
        duration(suggestion.cost_ns),
        duration(suggestion.budget_ns),
    );
    let mut table = Table::headed("kind|#measured|#candidates|#chosen");
    for (kind, share) in &suggestion.kinds {
        table.row([
            Cell::from(kind.as_str()),
            share.measured.to_string().into(),
            share.candidates.to_string().into(),
            share.chosen.to_string().into(),
        ]);
    }
    text += &table.render(style);
    let _ = writeln!(
        text,
        "\nexpected error on the candidates: {:.2} of today's (as much time at random: {:.2})",
        suggestion.error_ratio, suggestion.random_error_ratio
    );
    for (reason, count) in &suggestion.left_out {
        let _ = writeln!(text, "left out: {count} {reason}");
    }
    for plan in written {
        let file = plan.file.display();
        let _ = writeln!(
            text,
            "{} of {}: opcollect --sweep {file}",
            plural(plan.points as u64, "point"),
            plan.model
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suggest::KindShare;

    #[test]
    fn in_words() {
        let share = KindShare {
            candidates: 192,
            chosen: 40,
            measured: 12,
        };
        let chosen = Suggestion {
            order: vec![0; 40],
            chosen: 40,
            candidates: 192,
            budget_ns: 60e9,
            cost_ns: 58.7e9,
            error_ratio: 0.712,
            random_error_ratio: 0.79,
            kinds: [("conv2d".to_owned(), share)].into(),
            left_out: [("measured already", 12)].into(),
        };
        let written = Written {
            file: "plan.toml".into(),
            model: "resnet-18".to_owned(),
            points: 40,
        };
        insta::assert_snapshot!(suggestion(&chosen, &[written], Style::PLAIN), @"
        40 of 192 candidates chosen, about 59s of 1m

        kind    measured  candidates  chosen
        conv2d        12         192      40

        expected error on the candidates: 0.71 of today's (as much time at random: 0.79)
        left out: 12 measured already
        40 points of resnet-18: opcollect --sweep plan.toml
        ");
    }
}
