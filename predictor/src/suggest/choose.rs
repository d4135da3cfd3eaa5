//! Chooses the candidates to measure within a time budget. The next one always has the largest gain, given those chosen
//! before, over the square root of its cost.
//!
//! Gain per second would use the budget best if errors were alike everywhere. But then only fast kernels are measured,
//! and slow ones are predicted badly. Without the cost the budget goes into a few slow ones. The square root keeps most
//! of the advantage of both (`scripts/bench suggest`).
//!
//! Work grows with the square of the candidates, so they are looked at in blocks of `BLOCK`. Each block has its
//! share of the budget, and each candidate is compared with the measured points nearest to it.

use std::collections::{BTreeMap, HashSet};

use oplearn::data::split::shuffled;
use oplearn::features::Point;
use oplearn::models::ensemble::Ensemble;
use rayon::prelude::*;

use super::cost::Cost;
use super::similarity::{Importance, Similarity};
use super::uncertainty::Uncertainty;
use crate::error::Result;

/// Candidates looked at together.
const BLOCK: usize = 2048;
/// Maximum number of measured points that a block is compared with.
const KNOWN: usize = 1024;
/// Number of measured points whose feature contributions are computed.
const ASKED: usize = 256;

/// The candidates. All lists have the same length.
#[derive(Debug)]
pub struct Pool<'a> {
    /// Features.
    pub points: Vec<&'a Point>,
    /// Costs of the measurements.
    pub costs: Vec<Cost>,
    /// Number of the kernel: points of one kernel share its build.
    pub kernels: Vec<usize>,
    /// Weight of each point in the objective.
    pub weights: Vec<f64>,
}

/// Limits of the choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Time to spend, ns.
    pub budget_ns: f64,
    /// Points at most.
    pub points: usize,
}

/// A choice.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenSamples {
    /// Positions in the pool, most useful first.
    pub order: Vec<usize>,
    /// Their cost, ns.
    pub cost_ns: f64,
    /// Root mean square error to expect over the candidates after measuring them, relative to that before.
    pub error_ratio: f64,
    /// The same after spending as much time on random candidates.
    pub random_error_ratio: f64,
}

/// Chooses from a pool, given measured points.
///
/// # Errors
/// Fails if XGBoost's library fails.
pub fn choose(
    ensemble: &Ensemble,
    measured: &[&Point],
    pool: &Pool<'_>,
    limits: Limits,
    seed: u64,
) -> Result<ChosenSamples> {
    let importance = Importance::new(&ensemble.members, measured, ASKED)?;
    Ok(by_importance(&importance, measured, pool, limits, seed))
}

fn by_importance(
    importance: &Importance,
    measured: &[&Point],
    pool: &Pool<'_>,
    limits: Limits,
    seed: u64,
) -> ChosenSamples {
    let mut sums = Sums::default();
    let mut order: Vec<(f64, usize)> = Vec::new();
    let blocks = blocks(&pool.kernels, seed);
    let total = pool.points.len().max(1) as f64;
    let (mut seen, mut spent_ns) = (0, 0.0);
    for block in &blocks {
        seen += block.len();
        // A later block gets the time that earlier blocks did not spend.
        let share = seen as f64 / total;
        let own = Limits {
            budget_ns: limits.budget_ns * share - spent_ns,
            points: ((limits.points as f64 * share).ceil() as usize).saturating_sub(order.len()),
        };
        let points: Vec<&Point> = measured
            .iter()
            .copied()
            .chain(block.iter().map(|&i| pool.points[i]))
            .collect();
        let similarity = Similarity::new(importance, &points);
        let unknown: Vec<usize> = (measured.len()..points.len()).collect();
        let known = nearest(&similarity, measured.len(), &unknown);
        let weights: Vec<f64> = block.iter().map(|&i| pool.weights[i]).collect();
        let before = Uncertainty::new(&similarity, &known, &unknown, &weights);
        let (chosen, cost_ns, after) = greedy(before.clone(), pool, block, own);
        sums.add(
            &before,
            &after,
            &at_random(before.clone(), pool, block, own, seed),
        );
        spent_ns += cost_ns;
        order.extend(chosen);
    }
    // Stable: within a block the order of the choice stays.
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    ChosenSamples {
        order: order.into_iter().map(|(_, place)| place).collect(),
        cost_ns: spent_ns,
        error_ratio: (sums.after / sums.before).sqrt(),
        random_error_ratio: (sums.random / sums.before).sqrt(),
    }
}

/// Uncertainty before, after, and after a random choice, over all blocks.
#[derive(Default)]
struct Sums {
    before: f64,
    after: f64,
    random: f64,
}

impl Sums {
    fn add(&mut self, before: &Uncertainty, after: &Uncertainty, random: &Uncertainty) {
        self.before += before.total_with_noise();
        self.after += after.total_with_noise();
        self.random += random.total_with_noise();
    }
}

/// What is left of the limits while points of a block are chosen. A kernel is paid for once, with its first point.
struct Purse<'a> {
    pool: &'a Pool<'a>,
    block: &'a [usize],
    built: HashSet<usize>,
    left: Limits,
    spent_ns: f64,
}

impl Purse<'_> {
    fn new<'a>(pool: &'a Pool<'a>, block: &'a [usize], limits: Limits) -> Purse<'a> {
        Purse {
            pool,
            block,
            built: HashSet::new(),
            left: limits,
            spent_ns: 0.0,
        }
    }

    fn cost_ns(&self, place: usize) -> f64 {
        let index = self.block[place];
        let cost = self.pool.costs[index];
        if self.built.contains(&self.pool.kernels[index]) {
            cost.measure_ns
        } else {
            cost.build_ns + cost.measure_ns
        }
    }

    fn affords(&self, place: usize) -> bool {
        self.left.points > 0 && self.cost_ns(place) <= self.left.budget_ns
    }

    fn pay(&mut self, place: usize) {
        let cost_ns = self.cost_ns(place);
        self.built.insert(self.pool.kernels[self.block[place]]);
        self.left.budget_ns -= cost_ns;
        self.left.points -= 1;
        self.spent_ns += cost_ns;
    }
}

/// The greedy choice: the gain of each point, its cost, and the uncertainty left.
fn greedy(
    mut uncertainty: Uncertainty,
    pool: &Pool<'_>,
    block: &[usize],
    limits: Limits,
) -> (Vec<(f64, usize)>, f64, Uncertainty) {
    let mut purse = Purse::new(pool, block, limits);
    let mut open: Vec<usize> = (0..block.len()).collect();
    let mut gains = uncertainty.gains();
    let mut chosen: Vec<(f64, usize)> = Vec::new();
    loop {
        open.retain(|&place| purse.affords(place));
        let rate = |place: usize| f64::from(gains[place]) / purse.cost_ns(place).sqrt();
        let best = open
            .iter()
            .copied()
            .max_by(|&a, &b| rate(a).total_cmp(&rate(b)).then(b.cmp(&a)));
        let Some(best) = best else { break };
        // A later point may be worth more, because its kernel is built by then; it cannot come before its kernel.
        let last = chosen.last().map_or(f64::INFINITY, |c| c.0);
        chosen.push((rate(best).min(last), block[best]));
        purse.pay(best);
        open.retain(|&place| place != best);
        uncertainty.learn(best);
        gains = uncertainty.gains();
    }
    (chosen, purse.spent_ns, uncertainty)
}

/// The uncertainty left after spending the budget on random candidates.
fn at_random(
    mut uncertainty: Uncertainty,
    pool: &Pool<'_>,
    block: &[usize],
    limits: Limits,
    seed: u64,
) -> Uncertainty {
    let mut purse = Purse::new(pool, block, limits);
    for place in shuffled(block.len(), seed) {
        if purse.affords(place) {
            purse.pay(place);
            uncertainty.learn(place);
        }
    }
    uncertainty
}

/// Parts of the pool, points of one kernel together.
fn blocks(kernels: &[usize], seed: u64) -> Vec<Vec<usize>> {
    let mut by_kernel: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, kernel) in kernels.iter().enumerate() {
        by_kernel.entry(*kernel).or_default().push(place);
    }
    let groups: Vec<Vec<usize>> = by_kernel.into_values().collect();
    let count = kernels.len().div_ceil(BLOCK).max(1);
    let size = kernels.len().div_ceil(count);
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    for group in shuffled(groups.len(), seed) {
        match blocks.last_mut() {
            Some(last) if last.len() < size => last.extend(&groups[group]),
            _ => blocks.push(groups[group].clone()),
        }
    }
    blocks
}

/// The measured points (the first `measured` ones) that a block is compared with. These are all, or of very many the
/// nearest to its points and an even selection of the others.
fn nearest(similarity: &Similarity, measured: usize, block: &[usize]) -> Vec<usize> {
    if measured <= KNOWN {
        return (0..measured).collect();
    }
    let mut wanted: Vec<usize> = block
        .par_iter()
        .map(|&point| {
            let gap = |i: usize| similarity.distance(i, point);
            (0..measured)
                .min_by(|&a, &b| gap(a).total_cmp(&gap(b)))
                .unwrap_or(0)
        })
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.len() > KNOWN {
        let step = wanted.len().div_ceil(KNOWN);
        return wanted.into_iter().step_by(step).collect();
    }
    let step = measured.div_ceil(KNOWN - wanted.len() + 1);
    wanted.extend((0..measured).step_by(step));
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::testing::points;
    use proptest::prelude::*;

    const BUILD_NS: f64 = 50.0;
    const MEASURE_NS: f64 = 10.0;

    fn pool(points: &[Point]) -> Pool<'_> {
        let count = points.len();
        Pool {
            points: points.iter().collect(),
            costs: vec![
                Cost {
                    build_ns: BUILD_NS,
                    measure_ns: MEASURE_NS
                };
                count
            ],
            kernels: (0..count).collect(),
            weights: vec![1.0; count],
        }
    }

    fn chosen(measured: &[(f32, f32)], open: &[(f32, f32)], limits: Limits) -> ChosenSamples {
        let (measured, open) = (points(measured), points(open));
        let measured: Vec<&Point> = measured.iter().collect();
        by_importance(
            &Importance::of_two_features(),
            &measured,
            &pool(&open),
            limits,
            1,
        )
    }

    fn limits(budget_ns: f64, points: usize) -> Limits {
        Limits { budget_ns, points }
    }

    #[test]
    fn what_is_known_and_what_is_alike_is_not_chosen() {
        // Three beside the measured point, three together far from it, one alone far from all.
        let open = [
            (0.0, 0.1),
            (0.1, 0.0),
            (0.1, 0.1),
            (9.0, 9.0),
            (9.0, 9.1),
            (9.1, 9.0),
            (-9.0, 9.0),
        ];
        let choice = chosen(&[(0.0, 0.0)], &open, limits(1e9, 2));
        assert!((3..6).contains(&choice.order[0]), "{choice:?}");
        assert_eq!(choice.order[1], 6, "{choice:?}");
        assert!(choice.error_ratio < choice.random_error_ratio.min(1.0));
    }

    #[test]
    fn kernels_are_paid_once() {
        let open = points(&[(0.0, 0.0), (0.0, 5.0), (5.0, 0.0), (5.0, 5.0)]);
        let mut pool = pool(&open);
        pool.kernels = vec![7, 7, 8, 8];
        let measured = points(&[(2.0, 2.0)]);
        let measured: Vec<&Point> = measured.iter().collect();
        let choice = |budget_ns| {
            by_importance(
                &Importance::of_two_features(),
                &measured,
                &pool,
                limits(budget_ns, 9),
                1,
            )
        };
        assert_eq!(choice(59.0).order.len(), 0);
        assert_eq!(choice(60.0).order.len(), 1);
        let two = choice(70.0);
        assert_eq!((two.order.len(), two.cost_ns), (2, 70.0));
        assert_eq!(
            two.order[0] / 2,
            two.order[1] / 2,
            "the same kernel: {two:?}"
        );
        assert_eq!(choice(1e9).cost_ns, 2.0 * BUILD_NS + 4.0 * MEASURE_NS);
    }

    proptest! {
        #[test]
        fn blocks_part_the_pool_and_keep_kernels_together(
            kernels in proptest::collection::vec(0usize..3000, 1..6000),
            seed in 0u64..9,
        ) {
            let blocks = blocks(&kernels, seed);
            let mut all: Vec<usize> = blocks.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..kernels.len()).collect::<Vec<_>>());
            let mut home = BTreeMap::new();
            for (number, block) in blocks.iter().enumerate() {
                for &place in block {
                    prop_assert_eq!(*home.entry(kernels[place]).or_insert(number), number);
                }
            }
        }
    }
}
