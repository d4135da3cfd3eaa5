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

/// All placements, the loads of the equilibrium and of the best one, and the origin of the costs.
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
    let mut table = Table::headed("device|placement|#operators|#load|#share of period");
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use opdata::DeviceKind;

    use super::*;
    use crate::place::problem::{Device, Job, Link};
    use crate::place::{Equilibria, Outcome};

    #[test]
    fn a_cycle_a_bound_and_missing_costs_are_named() {
        let device = |name: &str| Device {
            name: name.to_owned(),
            kind: DeviceKind::CPU,
            threads: 1,
            power_w: 0.0,
            memory_bytes: None,
            group: None,
        };
        let job = |name: &str| Job {
            name: name.to_owned(),
            model: 0,
            costs_ns: vec![Some(2e6), Some(3e6)],
            weight_bytes: 0,
            output_bytes: 0,
            inputs: Vec::new(),
        };
        let problem = Problem {
            devices: vec![device("cpu:1"), device("vta")],
            jobs: vec![job("conv2d"), job("dense")],
            links: vec![vec![Link::default(); 2]; 2],
            slowdowns: Vec::new(),
            energy_weight: 0.0,
        };
        let outcome = |name: &str, energy_j, placement: [usize; 2]| Outcome {
            name: name.to_owned(),
            period_ns: 3e6,
            latency_ns: 5e6,
            energy_j,
            objective_ns: 3e6 + placement[0] as f64 * 1e5,
            placement: placement.to_vec(),
        };
        let placed = Placed {
            outcomes: vec![
                outcome("HEFT", None, [1, 0]),
                outcome(EQUILIBRIUM, Some(0.012), [1, 0]),
                outcome("best found", Some(0.011), [0, 1]),
            ],
            equilibria: Equilibria {
                starts: 20,
                found: 19,
                most_moves: 4,
                loads_fell: false,
                cycle: Some(vec![
                    "conv2d to vta".to_owned(),
                    "conv2d to cpu:1".to_owned(),
                ]),
                price_of_anarchy: Some(1.0333),
                price_of_stability: Some(1.0),
            },
            bound_ns: 2.9e6,
            is_optimal: false,
        };
        let missing = ["add", "max_pool2d", "mean", "softmax"].map(str::to_owned);
        let sources = Sources {
            measured: 3,
            predicted: 1,
            missing: BTreeMap::from([("vta".to_owned(), missing.to_vec())]),
        };
        insta::assert_snapshot!(super::placed(&problem, &sources, &placed, Style::PLAIN));
    }
}
