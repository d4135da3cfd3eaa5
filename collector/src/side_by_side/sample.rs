//! Chooses the groups of operators to measure, if not all are.
//!
//! The choice spreads over the causes of interference. The next group is the one whose operators differ most from every
//! group before, in traffic and in arithmetic per byte (farthest-point sampling, Gonzalez 1985). It needs no
//! measurement, and the same groups are chosen every time.

/// Indices of the chosen groups, in the order of choice; `features` are those of each group, all of one length.
pub(super) fn spread(features: &[Vec<f64>], most: usize) -> Vec<usize> {
    let scaled = scaled(features);
    let size = |point: &Vec<f64>| point.iter().map(|x| x * x).sum::<f64>();
    let farthest = |distance: &[f64]| {
        let all = distance.iter().enumerate();
        all.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))
            .map(|(place, _)| place)
    };
    let mut distance: Vec<f64> = scaled.iter().map(size).collect();
    let mut chosen = Vec::new();
    while chosen.len() < most.min(features.len()) {
        let Some(next) = farthest(&distance) else {
            break;
        };
        if chosen.is_empty() {
            distance.fill(f64::INFINITY);
        }
        for (place, known) in distance.iter_mut().enumerate() {
            let between = scaled[place].iter().zip(&scaled[next]);
            let own: f64 = between.map(|(a, b)| (a - b) * (a - b)).sum();
            *known = known.min(own);
        }
        // A chosen group is never chosen again, even if others are equal to it.
        distance[next] = f64::NEG_INFINITY;
        chosen.push(next);
    }
    chosen
}

/// Each feature with mean 0 and standard deviation 1; one that is the same everywhere says nothing.
fn scaled(features: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let width = features.first().map_or(0, Vec::len);
    let mut scaled = features.to_vec();
    for column in 0..width {
        let values: Vec<f64> = features.iter().map(|point| point[column]).collect();
        let Some((mean, deviation)) = opdata::stats::moments(&values) else {
            continue;
        };
        for point in &mut scaled {
            point[column] = match deviation > 0.0 {
                true => (point[column] - mean) / deviation,
                false => 0.0,
            };
        }
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_spreads_and_takes_nothing_twice() {
        let line: Vec<Vec<f64>> = [0.0, 0.1, 0.2, 5.0, 9.8, 10.0]
            .map(|x| vec![x, 1.0])
            .to_vec();
        assert_eq!(spread(&line, 3), [5, 0, 3], "the ends, then the middle");
        let mut all = spread(&line, 100);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        let equal = vec![vec![1.0]; 3];
        assert_eq!(spread(&equal, 2).len(), 2);
        assert!(spread(&[], 2).is_empty());
    }
}
