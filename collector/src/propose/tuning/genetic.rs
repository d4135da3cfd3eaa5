//! `ga`: a genetic algorithm. Parents are drawn by their speed, children take each dimension from one of two, and change at
//! random.

use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

use super::grid::{Grid, Point};
use super::tuner::{ATTEMPTS, SearchState, Trial, Tuner, take_new};

/// Points of the first generation, and parents of later ones (AutoTVM's `GATuner` has 100 and 3 elites).
const POPULATION: usize = 32;
/// Chance that a dimension of a child changes (AutoTVM: 0.1).
const MUTATION: f64 = 0.1;

pub(super) struct Genetic;

/// A child of two parents that are drawn by rank.
pub(super) fn child(parents: &[&Trial], grid: &Grid, random: &mut Pcg64Mcg) -> Point {
    // The better of two at random.
    let mut parent = || {
        let (a, b) = (
            random.random_range(0..parents.len()),
            random.random_range(0..parents.len()),
        );
        parents[a.min(b)]
    };
    let (a, b) = (parent(), parent());
    let other = grid.random(random);
    let genes = a.point.iter().zip(&b.point).zip(other);
    genes
        .map(|((&a, &b), other)| match random.random_range(0.0..1.0) {
            chance if chance < MUTATION => other,
            chance if chance < 0.5 + MUTATION / 2.0 => a,
            _ => b,
        })
        .collect()
}

impl Tuner for Genetic {
    fn propose(&mut self, search: &mut SearchState<'_>, n: usize) -> anyhow::Result<Vec<Point>> {
        let history = search.history;
        let mut parents = history.best();
        parents.truncate(POPULATION);
        let is_first = history.trials.len() < POPULATION || parents.is_empty();
        let drawn = (0..ATTEMPTS).map(|_| match is_first {
            true => history.grid.random(search.random),
            false => child(&parents, &history.grid, search.random),
        });
        Ok(take_new(history, n, drawn))
    }
}
