//! `xgb` and its relatives: XGBoost learns from the operator's own trials, drafts are ranked by it, and the best measured.
//!
//! | name | objective | what it sees |
//! | --- | --- | --- |
//! | `xgb`, `xgb_itervar` | squared error of the cost | the loop nest: the predictor's features |
//! | `xgb-rank` | ranking | the same |
//! | `xgb_knob` | squared error | the knobs' values |
//! | `xgb_curve` | squared error | the knobs, and the products of neighbouring ones: how tiles nest |
//!
//! The names are AutoTVM's.

use rand::Rng as _;

use super::genetic::child;
use super::grid::Point;
use super::learned::{predict, train};
use super::tuner::{SearchState, Tuner, take_new};

/// Trials before the first model.
const LEAST: usize = 16;
/// Points drafted for a batch.
pub(super) const DRAFTS: usize = 1000;
/// Share of a batch that is drawn at random (AutoTVM: 0.05).
const RANDOM_SHARE: f64 = 0.1;
/// Number of trees.
const ROUNDS: u32 = 60;

/// The model's view of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sees {
    LoopNest,
    Knobs,
    Curve,
}

/// The objective of its training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Objective {
    Cost,
    Rank,
}

pub(super) struct Boosted {
    pub sees: Sees,
    pub objective: Objective,
}

impl Boosted {
    fn features(&self, search: &SearchState<'_>, point: &[usize]) -> Vec<f32> {
        let knobs = search.history.grid.numbers(point);
        match self.sees {
            Sees::Knobs => knobs,
            Sees::Curve => {
                let products = knobs.windows(2).map(|pair| pair[0] + pair[1]);
                let running = knobs.iter().scan(0.0, |sum, knob| {
                    *sum += knob;
                    Some(*sum)
                });
                let more: Vec<f32> = products.chain(running).collect();
                [knobs, more].concat()
            }
            Sees::LoopNest => match super::candidate_row(search, point) {
                Some(row) => [search.learned.features(&row), knobs].concat(),
                None => knobs,
            },
        }
    }
}

impl Tuner for Boosted {
    fn propose(&mut self, search: &mut SearchState<'_>, n: usize) -> anyhow::Result<Vec<Point>> {
        let history = search.history;
        let best = history.best();
        if best.len() < LEAST {
            return super::random::Random.propose(search, n);
        }
        let rows: Vec<Vec<f32>> = best
            .iter()
            .map(|trial| self.features(search, &trial.point))
            .collect();
        let worst = best.last().and_then(|trial| trial.cost).unwrap_or_default();
        let costs = best.iter().filter_map(|trial| trial.cost);
        let (objective, targets): (&str, Vec<f32>) = match self.objective {
            Objective::Cost => ("reg:squarederror", costs.map(|cost| cost as f32).collect()),
            // Relevance: the faster, the higher.
            Objective::Rank => (
                "rank:pairwise",
                costs.map(|cost| (worst - cost) as f32).collect(),
            ),
        };
        let seed = search.random.random();
        let booster = train(&rows, &targets, objective, ROUNDS, seed)?;
        let drafts: Vec<Point> = (0..DRAFTS)
            .map(|draft| match draft % 2 {
                0 => history.grid.random(search.random),
                _ => child(&best[..best.len().min(LEAST)], &history.grid, search.random),
            })
            .filter(|point| history.is_new(point))
            .collect();
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        let features: Vec<Vec<f32>> = drafts
            .iter()
            .map(|point| self.features(search, point))
            .collect();
        let scores = predict(&booster, &features)?;
        let sign = match self.objective {
            Objective::Cost => 1.0,
            Objective::Rank => -1.0,
        };
        let mut order: Vec<usize> = (0..drafts.len()).collect();
        order.sort_by(|&a, &b| (sign * scores[a]).total_cmp(&(sign * scores[b])));
        let at_random = ((n as f64 * RANDOM_SHARE).round() as usize).min(n);
        let ranked = order.into_iter().map(|place| drafts[place].clone());
        let mut points = take_new(history, n - at_random, ranked);
        points.extend(super::random::Random.propose(search, at_random)?);
        Ok(points)
    }
}
