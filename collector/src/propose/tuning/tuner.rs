//! The interface of a tuner: it proposes points of one operator's space, given the outcomes of those before.

use std::collections::HashSet;

use opdata::Row;
use opengine::schedule::{Choice, ScheduleSpec};
use rand_pcg::Pcg64Mcg;

use super::grid::{Grid, Point};

/// A point that was measured, or failed.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    /// Its point; empty for a schedule outside of the grid.
    pub point: Point,
    /// Key of its schedule.
    pub key: String,
    /// Natural logarithm of its time over the default schedule's, the mean over all conditions. `None` if it has no
    /// time.
    pub cost: Option<f64>,
}

/// The trials of one operator.
#[derive(Debug)]
pub(super) struct History {
    pub grid: Grid,
    pub trials: Vec<Trial>,
    /// Keys of the schedules that were proposed.
    proposed: HashSet<String>,
}

impl History {
    pub fn new(grid: Grid) -> History {
        History {
            grid,
            trials: Vec::new(),
            proposed: HashSet::new(),
        }
    }

    /// Whether a point is possible and was not proposed.
    pub fn is_new(&self, point: &[usize]) -> bool {
        let spec = self.grid.spec(point);
        spec.is_some_and(|spec| !self.proposed.contains(&spec.key()))
    }

    /// Records that a schedule is proposed. False if it was proposed before.
    pub fn note(&mut self, spec: &ScheduleSpec) -> bool {
        self.proposed.insert(spec.key())
    }

    /// The trials with a time, the fastest first.
    pub fn best(&self) -> Vec<&Trial> {
        let mut best: Vec<&Trial> = self.trials.iter().filter(|t| t.cost.is_some()).collect();
        let cost = |trial: &Trial| trial.cost.unwrap_or(f64::INFINITY);
        best.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        best
    }
}

/// What a tuner knows of the search in one operator's space.
pub(super) struct SearchState<'a> {
    /// The trials so far.
    pub history: &'a History,
    /// Predicts costs from the rows of all operators and of histories.
    pub learned: &'a super::learned::Learned,
    /// The default schedule's row of the operator.
    pub base: Option<&'a Row>,
    /// Schedules of the store for the same or the nearest workload, the best first.
    pub known: &'a [Choice],
    /// The source of random decisions.
    pub random: &'a mut Pcg64Mcg,
}

/// Chooses the points of one operator.
pub(super) trait Tuner {
    /// Up to `n` points to measure next; none when the tuner is at its end.
    ///
    /// # Errors
    /// Fails if the cost model's library fails.
    fn propose(&mut self, search: &mut SearchState<'_>, n: usize) -> anyhow::Result<Vec<Point>>;

    /// The next points as schedules.
    ///
    /// # Errors
    /// As for [`Tuner::propose`].
    fn schedules(
        &mut self,
        search: &mut SearchState<'_>,
        n: usize,
    ) -> anyhow::Result<Vec<(Point, ScheduleSpec)>> {
        let points = self.propose(search, n)?.into_iter();
        let grid = &search.history.grid;
        let spec = |point: Point| Some((point.clone(), grid.spec(&point)?));
        Ok(points.filter_map(spec).collect())
    }

    /// Whether its schedules are outside the grid.
    fn leaves_the_grid(&self) -> bool {
        false
    }
}

/// Up to `n` new points of `candidates`, each once.
pub(super) fn take_new(
    history: &History,
    n: usize,
    candidates: impl IntoIterator<Item = Point>,
) -> Vec<Point> {
    let mut taken = Vec::new();
    let mut keys = HashSet::new();
    for point in candidates {
        if taken.len() >= n {
            break;
        }
        let Some(spec) = history.grid.spec(&point) else {
            continue;
        };
        if history.is_new(&point) && keys.insert(spec.key()) {
            taken.push(point);
        }
    }
    taken
}

/// Tries at drawing a new point before a space counts as exhausted.
pub(super) const ATTEMPTS: usize = 2000;
