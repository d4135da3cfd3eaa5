//! Placements as text.

use std::fmt::Write;

use opreport::Style;
use opreport::table::{Cell, Column, Table};
use opreport::units::{percent, plural, time};

use crate::place::build::Sources;
use crate::place::problem::Problem;
use crate::place::{EQUILIBRIUM, Placed};

/// Names of operators that a line lists.
const LISTED: usize = 3;

/// All placements, the loads of the equilibrium and of the best, and where costs come from.
pub fn placed(problem: &Problem, sources: &Sources, placed: &Placed, style: Style) -> String {
    let best_ns = placed
        .outcomes
        .last()
        .map_or(f64::NAN, |best| best.objective_ns);
    let mut table = Table::new(&[
        Column::left("placement"),
        Column::right("period"),
        Column::right("latency"),
        Column::right("energy, mJ").hides(0),
        Column::right("over best"),
    ]);
    for outcome in &placed.outcomes {
        table.row([
            Cell::from(outcome.name.as_str()),
            time(outcome.period_ns).into(),
            time(outcome.latency_ns).into(),
            outcome
                .energy_j
                .map_or_else(String::new, |joule| format!("{:.3}", joule * 1e3))
                .into(),
            format!("{:.3}", outcome.objective_ns / best_ns).into(),
        ]);
    }
    let mut text = table.render(style);
    text.push('\n');
    let mut table = Table::new(&[
        Column::left("device"),
        Column::left("placement"),
        Column::right("operators"),
        Column::right("load"),
        Column::right("share of period"),
    ]);
    let shown = [placed.outcome(EQUILIBRIUM), placed.outcomes.last()];
    for outcome in shown.into_iter().flatten() {
        let loads = problem.loads_ns(&outcome.placement);
        for (device, load) in loads.iter().enumerate() {
            let own = outcome.placement.iter().filter(|d| **d == device).count();
            table.row([
                Cell::from(problem.devices[device].name.as_str()),
                outcome.name.as_str().into(),
                own.to_string().into(),
                time(*load).into(),
                percent(load / outcome.period_ns).into(),
            ]);
        }
    }
    text += &table.render(style);
    let found = &placed.equilibria;
    let _ = writeln!(
        text,
        "\n{} of {} games ended in an equilibrium, after {} at most; in each no operator gains by moving (checked)",
        found.found,
        found.starts,
        plural(found.most_moves as u64, "move"),
    );
    if found.loads_fell {
        text += "every move made the sorted loads smaller, so the games had to end\n";
    }
    if let Some(cycle) = &found.cycle {
        let _ = writeln!(
            text,
            "a game went round in a circle of {}:",
            plural(cycle.len() as u64, "move")
        );
        for step in cycle {
            let _ = writeln!(text, "    {step}");
        }
    }
    let against = if placed.is_optimal {
        "the optimum"
    } else {
        "the lower bound"
    };
    if let (Some(worst), Some(best)) = (found.price_of_anarchy, found.price_of_stability) {
        let _ = writeln!(
            text,
            "price of anarchy {worst:.3}, of stability {best:.3}: the worst and the best equilibrium found over {against}"
        );
    }
    if !placed.is_optimal {
        let _ = writeln!(
            text,
            "the search ended at its time limit: no placement is below {}, the best found is {:.1} % above",
            time(placed.bound_ns),
            (best_ns / placed.bound_ns - 1.0) * 100.0
        );
    }
    let _ = writeln!(
        text,
        "costs: {} measured or simulated, {} predicted",
        sources.measured, sources.predicted
    );
    for (device, missing) in &sources.missing {
        let more = missing.len().saturating_sub(LISTED);
        let names: Vec<&str> = missing.iter().take(LISTED).map(String::as_str).collect();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "no cost on {device}, so not placed there: {}{more}",
            names.join(", ")
        );
    }
    text
}
