//! `random`: points at random, each once.

use super::grid::Point;
use super::tuner::{ATTEMPTS, SearchState, Tuner, take_new};

pub(super) struct Random;

impl Tuner for Random {
    fn propose(&mut self, search: &mut SearchState<'_>, n: usize) -> anyhow::Result<Vec<Point>> {
        let history = search.history;
        let drawn = (0..ATTEMPTS).map(|_| history.grid.random(search.random));
        Ok(take_new(history, n, drawn))
    }
}
