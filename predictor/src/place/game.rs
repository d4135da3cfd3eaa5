//! Nash equilibria: no job gains by moving to another device alone.
//!
//! Best response: one job after the other moves to the device where it costs itself least, until none gains. If devices share
//! nothing and only time counts, each move makes the loads, sorted from the largest, lexicographically smaller. So the moves
//! must end (Even-Dar, Kesselman and Mansour, "Convergence time to Nash equilibria", ICALP 2003). With transfers, shared
//! devices or energy it may go round in a circle, which is found and shown.

use std::collections::HashMap;

use super::problem::{Placement, Problem};

/// A gain that counts, as a share of the cost.
const GAIN: f64 = 1e-9;
/// Maximum number of moves before the game counts as unsettled.
const MOST_MOVES: usize = 20_000;

/// A job's move to another device.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The job.
    pub job: usize,
    /// The device before.
    pub from: usize,
    /// The device after.
    pub to: usize,
    /// The job's own cost before, ns.
    pub before_ns: f64,
    /// The same after.
    pub after_ns: f64,
}

/// How a game ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// No job gains by moving.
    Equilibrium,
    /// These moves lead back to where they began.
    Cycle(Vec<Move>),
    /// Neither was found within the maximum number of moves.
    Unsettled,
}

/// A game that was played.
#[derive(Debug, Clone, PartialEq)]
pub struct Play {
    /// The last placement.
    pub placement: Placement,
    /// Moves.
    pub moves: usize,
    /// Whether every move made the sorted loads lexicographically smaller: the proof that the game had to end.
    pub loads_fell: bool,
    /// How the game ended.
    pub ending: Ending,
}

/// The best move of a job, if it gains by one.
pub fn best_move(problem: &Problem, placement: &mut Placement, job: usize) -> Option<Move> {
    let from = placement[job];
    let before_ns = problem.own_cost_ns(placement, job);
    let mut best: Option<(usize, f64)> = None;
    for (to, _) in problem.choices(job).filter(|(to, _)| *to != from) {
        placement[job] = to;
        let after_ns = problem.own_cost_ns(placement, job);
        if problem.fits(placement) && best.is_none_or(|(_, least)| after_ns < least) {
            best = Some((to, after_ns));
        }
    }
    placement[job] = from;
    let (to, after_ns) = best.filter(|(_, after)| *after < before_ns * (1.0 - GAIN))?;
    Some(Move {
        job,
        from,
        to,
        before_ns,
        after_ns,
    })
}

/// Plays from a placement that fits.
pub fn play(problem: &Problem, start: &[usize]) -> Play {
    let mut placement = start.to_vec();
    let mut seen = HashMap::from([(placement.clone(), 0)]);
    let mut moves: Vec<Move> = Vec::new();
    let mut loads_fell = true;
    let mut sorted = sorted_loads(problem, &placement);
    let end = |placement, moves: &[Move], loads_fell, ending| Play {
        placement,
        moves: moves.len(),
        loads_fell,
        ending,
    };
    loop {
        let mut moved = false;
        for job in 0..problem.jobs.len() {
            let Some(step) = best_move(problem, &mut placement, job) else {
                continue;
            };
            placement[job] = step.to;
            moves.push(step);
            moved = true;
            let now = sorted_loads(problem, &placement);
            loads_fell &= is_smaller(&now, &sorted);
            sorted = now;
            if let Some(&before) = seen.get(&placement) {
                let cycle = moves[before..].to_vec();
                return end(placement, &moves, loads_fell, Ending::Cycle(cycle));
            }
            seen.insert(placement.clone(), moves.len());
        }
        if !moved {
            return end(placement, &moves, loads_fell, Ending::Equilibrium);
        }
        if moves.len() >= MOST_MOVES {
            return end(placement, &moves, loads_fell, Ending::Unsettled);
        }
    }
}

fn sorted_loads(problem: &Problem, placement: &[usize]) -> Vec<f64> {
    let mut loads = problem.loads_ns(placement);
    loads.sort_by(|a, b| b.total_cmp(a));
    loads
}

/// Whether loads are lexicographically smaller than before; differences of rounding do not count.
fn is_smaller(now: &[f64], before: &[f64]) -> bool {
    let scale = before.first().copied().unwrap_or(0.0) * 1e-12;
    let mut pairs = now.iter().zip(before);
    pairs
        .find(|(now, before)| (*now - *before).abs() > scale)
        .is_some_and(|(now, before)| now < before)
}
