//! `gridsearch`: all points in order, the last dimension the fastest.

use super::grid::Point;
use super::tuner::{SearchState, Tuner, take_new};

/// Index of the next point. `None` at the end.
#[derive(Default)]
pub(super) struct GridSearch {
    next: Option<Point>,
    ended: bool,
}

impl Tuner for GridSearch {
    fn propose(&mut self, search: &mut SearchState<'_>, n: usize) -> anyhow::Result<Vec<Point>> {
        /// Points looked at for a batch: most combinations of a large space may be impossible.
        const MOST: usize = 1 << 20;
        let lengths = search.history.grid.lengths();
        let mut taken: Vec<Point> = Vec::new();
        for _ in 0..MOST {
            if taken.len() >= n || self.ended {
                break;
            }
            let point = self.next.take().unwrap_or_else(|| vec![0; lengths.len()]);
            let mut after = point.clone();
            let place = (0..lengths.len()).rev().find(|&place| {
                after[place] += 1;
                let fits = after[place] < lengths[place];
                if !fits {
                    after[place] = 0;
                }
                fits
            });
            self.ended = place.is_none();
            self.next = Some(after);
            taken.extend(take_new(search.history, 1, [point]));
        }
        Ok(taken)
    }
}
