//! How well slowdowns of operators that run at the same time are predicted.

use oplearn::interference::{Errors, Evaluation};
use opreport::Style;
use opreport::table::{Cell, Table};
use opreport::units::percent;

/// Errors held out by group and by operator, beside the baselines.
pub fn evaluation(evaluation: &Evaluation, style: Style) -> String {
    let mut table = Table::headed(
        "held out|#model|#no slowdown|#sum of bandwidths|#mean slowdown|\
        #of best baseline|#90 % interval|#covers",
    );
    let mut row = |name: &str, errors: &Errors| {
        table.row([
            Cell::from(name),
            percent(errors.model).into(),
            percent(errors.no_slowdown).into(),
            errors
                .sum_of_bandwidths
                .map_or_else(|| "not calibrated".to_owned(), percent)
                .into(),
            percent(errors.mean_slowdown).into(),
            format!("{:.2}", errors.model / errors.best_baseline()).into(),
            format!("±{}", percent(errors.half_width)).into(),
            percent(errors.coverage).into(),
        ]);
    };
    row("group", &evaluation.by_group);
    row("operator", &evaluation.by_operator);
    format!(
        "{}\nmean absolute error of the slowdown, relative; {} slowdowns of {} groups, {} operators\n",
        table.render(style),
        evaluation.samples,
        evaluation.groups,
        evaluation.operators
    )
}
