//! `droplet`: coordinate descent. All neighbours of the best point are measured, until none is faster.
//!
//! After Canesche et al., *The Droplet Search Algorithm for Kernel Scheduling*, ACM TACO 21 (2024), which TVM's AutoTVM had.

use super::grid::Point;
use super::tuner::{SearchState, Tuner, take_new};

#[derive(Default)]
pub(super) struct Droplet;

impl Tuner for Droplet {
    fn propose(&mut self, search: &mut SearchState<'_>, n: usize) -> anyhow::Result<Vec<Point>> {
        let best = search.history.best();
        let Some(best) = best.first() else {
            // If the default schedule failed or lies outside the space, the descent starts at a random point.
            return super::random::Random.propose(search, 1);
        };
        let neighbours = search.history.grid.neighbours(&best.point);
        Ok(take_new(search.history, n, neighbours))
    }
}
