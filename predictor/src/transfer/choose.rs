//! Which points to measure: the most central one, then always the one furthest from all chosen (k-centre).
//!
//! Distances are over features that vary, in standard deviations; what only one side has counts as two.

use oplearn::features::{FEATURES, Point};

/// Squared distance for a feature that only one side has.
const ONE_SIDED: f32 = 2.0;

/// Positions of `count` points that are spread out over all of them.
pub fn spread_out(points: &[&Point], count: usize) -> Vec<usize> {
    let scaled = scaled(points);
    let count = count.min(points.len());
    if count == 0 {
        return Vec::new();
    }
    let width = scaled.first().map_or(0, Vec::len);
    let centre: Vec<f32> = (0..width)
        .map(|c| {
            let known: Vec<f32> = scaled
                .iter()
                .map(|p| p[c])
                .filter(|v| v.is_finite())
                .collect();
            known.iter().sum::<f32>() / known.len().max(1) as f32
        })
        .collect();
    let nearest = |to: &[f32]| -> usize {
        (0..scaled.len())
            .min_by(|&a, &b| distance(&scaled[a], to).total_cmp(&distance(&scaled[b], to)))
            .unwrap_or(0)
    };
    let mut chosen = vec![nearest(&centre)];
    let mut gaps: Vec<f32> = scaled
        .iter()
        .map(|p| distance(p, &scaled[chosen[0]]))
        .collect();
    while chosen.len() < count {
        let next = (0..scaled.len())
            .filter(|i| !chosen.contains(i))
            .max_by(|&a, &b| gaps[a].total_cmp(&gaps[b]).then(b.cmp(&a)));
        let Some(next) = next else { break };
        chosen.push(next);
        for (gap, point) in gaps.iter_mut().zip(&scaled) {
            *gap = gap.min(distance(point, &scaled[next]));
        }
    }
    chosen
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| match (a.is_nan(), b.is_nan()) {
            (false, false) => (a - b).powi(2),
            (true, true) => 0.0,
            _ => ONE_SIDED,
        })
        .sum()
}

fn scaled(points: &[&Point]) -> Vec<Vec<f32>> {
    let mut columns = Vec::new();
    for column in 0..FEATURES.len() {
        let known: Vec<f32> = points
            .iter()
            .map(|p| p.features[column])
            .filter(|v| v.is_finite())
            .collect();
        let count = known.len().max(1) as f32;
        let mean = known.iter().sum::<f32>() / count;
        let deviation = (known.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / count).sqrt();
        if deviation > 1e-6 {
            columns.push((column, mean, deviation));
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
    use oplearn::features::machine::MachineFacts;
    use oplearn::features::point_of;
    use oplearn::testing::dense_row;

    #[test]
    fn the_ends_are_chosen_before_what_lies_between() {
        let knobs = r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#;
        let points: Vec<Point> = [64, 65, 66, 67, 68, 4096]
            .map(|columns| point_of(&dense_row(1, columns, 512, knobs), &MachineFacts::default()))
            .into();
        let all: Vec<&Point> = points.iter().collect();
        let chosen = spread_out(&all, 2);
        assert!(chosen.contains(&5), "{chosen:?}");
        let mut everything = spread_out(&all, 99);
        everything.sort_unstable();
        assert_eq!(everything, [0, 1, 2, 3, 4, 5]);
        assert!(spread_out(&[], 3).is_empty());
    }
}
