//! Chooses the points to measure, so that the others are on average nearest to a measured one (k-medians, greedily).
//!
//! Distances are over features that vary, in standard deviations. A feature that only one side has counts as two.
//! Points at the edge are chosen only where others lie near them: a model of the measurements must be good for the
//! majority.

use opdata::stats::moments;
use oplearn::data::split::shuffled;
use oplearn::features::{FEATURES, Point, squared_distance};

/// Maximum number of points considered; distances are between all pairs.
const LOOKED_AT: usize = 1000;
/// Seed that chooses these.
const SEED: u64 = 1;

/// Indices of `count` points that represent all points.
pub fn typical(points: &[&Point], count: usize) -> Vec<usize> {
    let mut pool = shuffled(points.len(), SEED);
    pool.truncate(LOOKED_AT.max(count));
    pool.sort_unstable();
    let some: Vec<&Point> = pool.iter().map(|&i| points[i]).collect();
    let scaled = scaled(&some);
    // Distances from each point.
    let rows: Vec<Vec<f32>> = scaled
        .iter()
        .map(|a| scaled.iter().map(|b| distance(a, b)).collect())
        .collect();
    let mut gaps = vec![f32::INFINITY; pool.len()];
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < count.min(pool.len()) {
        let left = |candidate: usize| -> f32 {
            let near = gaps.iter().zip(&rows[candidate]);
            near.map(|(gap, distance)| gap.min(*distance)).sum()
        };
        let next = (0..pool.len())
            .filter(|i| !chosen.contains(i))
            .map(|i| (i, left(i)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((next, _)) = next else { break };
        chosen.push(next);
        for (gap, distance) in gaps.iter_mut().zip(&rows[next]) {
            *gap = gap.min(*distance);
        }
    }
    chosen.into_iter().map(|place| pool[place]).collect()
}

/// Number of points that each chosen one represents: those nearer to it than to any other. Each represents at least
/// itself.
pub fn standing_for(points: &[&Point], chosen: &[usize]) -> Vec<f64> {
    let mut counts = vec![1.0; chosen.len()];
    let step = points.len().div_ceil(LOOKED_AT).max(1);
    let asked: Vec<usize> = (0..points.len())
        .step_by(step)
        .filter(|i| !chosen.contains(i))
        .collect();
    let all: Vec<&Point> = chosen.iter().chain(&asked).map(|&i| points[i]).collect();
    let scaled = scaled(&all);
    let (own, others) = scaled.split_at(chosen.len());
    for other in others {
        let nearest = (0..own.len())
            .min_by(|&a, &b| distance(&own[a], other).total_cmp(&distance(&own[b], other)));
        if let Some(nearest) = nearest {
            counts[nearest] += step as f64;
        }
    }
    counts
}

/// Root of the squared differences.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    squared_distance(a, b).sqrt()
}

fn scaled(points: &[&Point]) -> Vec<Vec<f32>> {
    let mut columns = Vec::new();
    for column in 0..FEATURES.len() {
        let known: Vec<f32> = points
            .iter()
            .map(|p| p.features[column])
            .filter(|v| v.is_finite())
            .collect();
        if let Some((mean, deviation)) = moments(&known).filter(|m| m.1 > 1e-6) {
            columns.push((column, mean as f32, deviation as f32));
        }
    }
    points
        .iter()
        .map(|p| {
            columns
                .iter()
                .map(|(c, mean, deviation)| (p.features[*c] - mean) / deviation)
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::testing::points;

    fn line(places: &[f32]) -> Vec<Point> {
        let pairs: Vec<(f32, f32)> = places.iter().map(|&x| (x, 0.0)).collect();
        points(&pairs)
    }

    #[test]
    fn the_many_are_chosen_before_what_lies_alone() {
        let places = line(&[0.0, 1.0, 2.0, 3.0, 4.0, 10.0, 11.0, 12.0]);
        let all: Vec<&Point> = places.iter().collect();
        let chosen = typical(&all, 2);
        assert_eq!(chosen.iter().filter(|&&i| i < 5).count(), 1, "{chosen:?}");
        let mut everything = typical(&all, 99);
        everything.sort_unstable();
        assert_eq!(everything, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(typical(&[], 3).is_empty());
    }

    #[test]
    fn a_point_stands_for_those_near_it() {
        let places = line(&[0.0, 1.0, 2.0, 3.0, 20.0]);
        let all: Vec<&Point> = places.iter().collect();
        assert_eq!(standing_for(&all, &[1, 4]), [4.0, 1.0]);
        assert_eq!(standing_for(&all, &[]), [0.0; 0]);
    }
}
