//! `auto`: starts from the store and the default schedule, drafts by the model that all operators share, then goes down
//! along single dimensions.
//!
//! A batch has three parts. The first is the store's schedules and the operator's other algorithms (once), the second
//! the best drafts by prediction, the third neighbours of the fastest points. Before there is a model, drafts are
//! neighbours of the default schedule and random points.

use rand::seq::SliceRandom as _;

use super::boosted::DRAFTS;
use super::genetic::child;
use super::grid::Point;
use super::tuner::{SearchState, Trial, Tuner, take_new};

/// Fastest points whose neighbours are drafted.
const CENTRES: usize = 3;
/// Maximum number of dimensions in which a draft differs from a fast point.
const STEPS: usize = 4;
/// Share of a batch that is taken from the neighbours of the fastest points.
const DESCENT: f64 = 0.5;

#[derive(Default)]
pub(super) struct Auto {
    asked_store: bool,
}

impl Tuner for Auto {
    fn propose(&mut self, search: &mut SearchState<'_>, n: usize) -> anyhow::Result<Vec<Point>> {
        let history = search.history;
        let mut points = Vec::new();
        if !std::mem::replace(&mut self.asked_store, true) {
            let known = search.known.iter();
            let known = known.filter_map(|choice| history.grid.point_of(choice));
            points = take_new(history, n / 2, known);
        }
        let best = history.best();
        let centres: Vec<&Trial> = best.iter().copied().take(CENTRES).collect();
        let mut near: Vec<Point> = centres
            .iter()
            .flat_map(|trial| history.grid.neighbours(&trial.point))
            .collect();
        // Before there is a model, no dimension comes first.
        near.shuffle(search.random);
        let is_first = history.trials.len() <= 1;
        if let (true, Some(default)) = (is_first, centres.first()) {
            let others = history.grid.other_algorithms(&default.point);
            let left = n.saturating_sub(points.len());
            points.extend(take_new(history, left, others));
        }
        let breed = &best[..best.len().min(CENTRES * 4)];
        // Most drafts differ from a fast schedule in a few dimensions. The first ones are random, because the default
        // one may be far from the best.
        let far = (0..DRAFTS).map(|draft| match (draft % 4, centres.first()) {
            (0 | 1, Some(_)) if !is_first => {
                let centre = centres[draft / 4 % centres.len()];
                history.grid.changed(&centre.point, STEPS, search.random)
            }
            (2, Some(_)) if !is_first => child(breed, &history.grid, search.random),
            _ => history.grid.random(search.random),
        });
        let far: Vec<Point> = far.collect();
        let wanted = n.saturating_sub(points.len());
        let share = if is_first { DESCENT / 2.0 } else { DESCENT };
        let descent = (wanted as f64 * share).ceil() as usize;
        let ranked = ranked(search, near)?;
        points.extend(take_new(history, descent, ranked));
        let left = n.saturating_sub(points.len());
        let ranked = self::ranked(search, far)?;
        let fresh = ranked.into_iter().filter(|point| !points.contains(point));
        let fresh = take_new(history, left, fresh);
        points.extend(fresh);
        Ok(points)
    }
}

/// New points in the order of their predicted cost, or in the given order if there is no model yet.
fn ranked(search: &SearchState<'_>, points: Vec<Point>) -> anyhow::Result<Vec<Point>> {
    let points: Vec<Point> = take_new(search.history, usize::MAX, points);
    if !search.learned.has_model() {
        return Ok(points);
    }
    let rows: Option<Vec<Vec<f32>>> = points
        .iter()
        .map(|point| {
            let row = super::candidate_row(search, point)?;
            Some(search.learned.features(&row))
        })
        .collect();
    let Some(rows) = rows.filter(|rows| !rows.is_empty()) else {
        return Ok(points);
    };
    let Some(costs) = search.learned.predict(&rows)? else {
        return Ok(points);
    };
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| costs[a].total_cmp(&costs[b]));
    Ok(order
        .into_iter()
        .map(|place| points[place].clone())
        .collect())
}
