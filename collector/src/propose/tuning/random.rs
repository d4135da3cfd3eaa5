//! `random`: points at random, each once.

use rand_pcg::Pcg64Mcg;

use super::grid::Point;
use super::tuner::{ATTEMPTS, History, Shared, Tuner, take_new};

pub(super) struct Random;

impl Tuner for Random {
    fn propose(
        &mut self,
        history: &History,
        _shared: &Shared<'_>,
        n: usize,
        random: &mut Pcg64Mcg,
    ) -> anyhow::Result<Vec<Point>> {
        let drawn = (0..ATTEMPTS).map(|_| history.grid.random(random));
        Ok(take_new(history, n, drawn))
    }
}
