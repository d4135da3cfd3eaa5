//! Where to place operators, or whole models, that run side by side on several devices.
//!
//! | module | owns |
//! | --- | --- |
//! | [`devices`] | which devices there are, and the table of links, power, memory and sharing |
//! | [`build`] | the problem: a job for each call of the models, its costs from datasets and predictions |
//! | [`problem`] | jobs, devices, loads, energy, memory |
//! | [`game`] | Nash equilibria by best response |
//! | [`exact`] | the optimum, or the best placement with a bound |
//! | [`timeline`] | placements in time; HEFT and greedy |

pub mod build;
pub mod devices;
pub mod exact;
pub mod game;
pub mod problem;
pub mod timeline;

use std::time::Duration;

use opdata::random::SplitMix64;
use serde::Serialize;

use crate::error::{Error, Result};
use game::{Ending, Move, Play};
use problem::{Placement, Problem};

/// Number of random starts of the search for equilibria, besides those of the heuristics.
const STARTS: usize = 16;

/// A placement with its costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The algorithm that made it.
    pub name: String,
    /// The largest load, ns: the time between two runs of everything, one after the other.
    pub period_ns: f64,
    /// Time from the first begin to the last end of one run, ns.
    pub latency_ns: f64,
    /// Energy of one run, J. `None` if the power of a device in use is not known.
    pub energy_j: Option<f64>,
    /// Cost of the placement by the weights of time and energy, ns.
    pub objective_ns: f64,
    /// The device of each job.
    pub placement: Placement,
}

impl Outcome {
    fn of(problem: &Problem, name: &str, placement: Placement) -> Outcome {
        let loads = problem.loads_ns(&placement);
        Outcome {
            name: name.to_owned(),
            period_ns: loads.into_iter().fold(0.0, f64::max),
            latency_ns: timeline::latency_ns(&timeline::of_placement(problem, &placement)),
            energy_j: placement
                .iter()
                .all(|&device| problem.devices[device].power_w > 0.0)
                .then(|| problem.all_energy_nj(&placement) * 1e-9),
            objective_ns: problem.objective_ns(&placement),
            placement,
        }
    }
}

/// The equilibria that were found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Equilibria {
    /// Starts.
    pub starts: usize,
    /// Number of starts that ended in an equilibrium.
    pub found: usize,
    /// Maximum number of moves until then.
    pub most_moves: usize,
    /// Whether every move of every game made the sorted loads smaller. This proves that the game ends.
    pub loads_fell: bool,
    /// The cycle of a game that had none, in words.
    pub cycle: Option<Vec<String>>,
    /// The worst equilibrium over the optimum (over its bound where that is not proven).
    pub price_of_anarchy: Option<f64>,
    /// The best equilibrium over the same.
    pub price_of_stability: Option<f64>,
}

/// Placements of a problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placed {
    /// The placements, the best last.
    pub outcomes: Vec<Outcome>,
    /// The equilibria.
    pub equilibria: Equilibria,
    /// No placement costs less than this, ns.
    pub bound_ns: f64,
    /// Whether the last placement is the optimum.
    pub is_optimal: bool,
}

impl Placed {
    /// The outcome of a name.
    pub fn outcome(&self, name: &str) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.name == name)
    }
}

/// Name of the equilibrium's outcome: the best one that was found.
pub const EQUILIBRIUM: &str = "Nash equilibrium";

/// Places by all strategies.
///
/// # Errors
/// Fails if no placement fits into the devices' memory.
pub fn place(problem: &Problem, seed: u64, limit: Duration) -> Result<Placed> {
    let mut outcomes = Vec::new();
    for (device, facts) in problem.devices.iter().enumerate() {
        let alone = vec![device; problem.jobs.len()];
        let runs = problem
            .jobs
            .iter()
            .all(|job| job.costs_ns[device].is_some());
        let again = outcomes.iter().any(|outcome: &Outcome| {
            let other = outcome.placement.first().map(|d| &problem.devices[*d]);
            other.is_some_and(|o| o.kind == facts.kind && o.threads == facts.threads)
        });
        if runs && !again && problem.fits(&alone) {
            outcomes.push(Outcome::of(
                problem,
                &format!("all on {}", facts.name),
                alone,
            ));
        }
    }
    let heuristics = [
        ("greedy", timeline::greedy(problem)),
        ("HEFT", timeline::heft(problem)),
    ];
    for (name, placement) in heuristics {
        if let Some(placement) = placement {
            outcomes.push(Outcome::of(problem, name, placement));
        }
    }
    let mut starts: Vec<Placement> = outcomes.iter().map(|o| o.placement.clone()).collect();
    let (divided_ns, rounded) = exact::divided(problem);
    starts.extend(rounded);
    starts.extend((0..STARTS).filter_map(|start| at_random(problem, seed + start as u64)));
    let plays: Vec<Play> = starts
        .iter()
        .map(|start| game::play(problem, start))
        .collect();
    let settled = plays
        .iter()
        .filter(|play| play.ending == Ending::Equilibrium);
    let mut equilibria: Vec<Outcome> = settled
        .map(|play| Outcome::of(problem, EQUILIBRIUM, play.placement.clone()))
        .collect();
    equilibria.sort_by(|a, b| a.objective_ns.total_cmp(&b.objective_ns));
    let known = outcomes.iter().chain(&equilibria);
    let best = known.min_by(|a, b| a.objective_ns.total_cmp(&b.objective_ns));
    let best = best.map(|outcome| outcome.placement.clone());
    let optimum =
        exact::optimum(problem, best, divided_ns, limit).ok_or_else(|| no_room(problem))?;
    let over = |outcome: Option<&Outcome>| Some(outcome?.objective_ns / optimum.bound_ns);
    let cycle = plays.iter().find_map(|play| match &play.ending {
        Ending::Cycle(moves) => Some(moves.iter().map(|step| in_words(problem, step)).collect()),
        _ => None,
    });
    let found = Equilibria {
        starts: plays.len(),
        found: equilibria.len(),
        most_moves: plays.iter().map(|play| play.moves).max().unwrap_or(0),
        loads_fell: plays.iter().all(|play| play.loads_fell),
        cycle,
        price_of_anarchy: over(equilibria.last()),
        price_of_stability: over(equilibria.first()),
    };
    if !equilibria.is_empty() {
        outcomes.push(equilibria.swap_remove(0));
    }
    let name = match optimum.is_proven {
        true => "optimum",
        false => "best found",
    };
    outcomes.push(Outcome::of(problem, name, optimum.placement));
    Ok(Placed {
        outcomes,
        equilibria: found,
        bound_ns: optimum.bound_ns,
        is_optimal: optimum.is_proven,
    })
}

fn in_words(problem: &Problem, step: &Move) -> String {
    let name = |device: usize| &problem.devices[device].name;
    format!(
        "{} moves from {} to {}: {:.0} ns → {:.0} ns",
        problem.jobs[step.job].name,
        name(step.from),
        name(step.to),
        step.before_ns,
        step.after_ns
    )
}

fn no_room(problem: &Problem) -> Error {
    let weights: u64 = problem.jobs.iter().map(|job| job.weight_bytes).sum();
    let devices = problem.devices.iter().map(|device| {
        let most = device
            .memory_bytes
            .map_or("any number of".to_owned(), |b| b.to_string());
        format!("{} {most}", device.name)
    });
    Error::Query(format!(
        "no placement fits into memory: weights take {weights} bytes, and the devices hold {} bytes; place fewer models or raise `memory`",
        devices.collect::<Vec<_>>().join(", ")
    ))
}

/// A placement at random that fits.
fn at_random(problem: &Problem, seed: u64) -> Option<Placement> {
    let mut random = SplitMix64::new(seed);
    let placement = (0..problem.jobs.len()).map(|job| {
        let choices: Vec<usize> = problem.choices(job).map(|(device, _)| device).collect();
        choices[(random.next_u64() % choices.len() as u64) as usize]
    });
    let placement: Placement = placement.collect();
    problem.fits(&placement).then_some(placement)
}

#[cfg(test)]
mod tests;
