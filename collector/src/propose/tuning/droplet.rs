//! `droplet`: coordinate descent. All neighbours of the best point are measured, until none is faster.
//!
//! After Canesche et al., *The Droplet Search Algorithm for Kernel Scheduling*, ACM TACO 21 (2024), which TVM's AutoTVM had.

use rand_pcg::Pcg64Mcg;

use super::grid::Point;
use super::tuner::{History, Shared, Tuner, take_new};

#[derive(Default)]
pub(super) struct Droplet;

impl Tuner for Droplet {
    fn propose(
        &mut self,
        history: &History,
        shared: &Shared<'_>,
        n: usize,
        random: &mut Pcg64Mcg,
    ) -> anyhow::Result<Vec<Point>> {
        let best = history.best();
        let Some(best) = best.first() else {
            // If the default schedule failed or lies outside the space, the descent starts at a random point.
            return super::random::Random.propose(history, shared, 1, random);
        };
        Ok(take_new(history, n, history.grid.neighbours(&best.point)))
    }
}
