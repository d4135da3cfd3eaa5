//! Measures of dependence between two series of equal length.

use oplearn::crossval::metrics::ranks;

/// Bins of each side for mutual information.
const BINS: usize = 8;

/// Kendall's tau-b, ties counted; `None` if a side is constant. Takes quadratic time: for a few hundred values.
pub fn kendall(a: &[f64], b: &[f64]) -> Option<f64> {
    let mut agree = 0i64;
    let (mut pairs_a, mut pairs_b) = (0i64, 0i64);
    for i in 1..a.len() {
        for j in 0..i {
            let (x, y) = (a[i] - a[j], b[i] - b[j]);
            pairs_a += i64::from(x != 0.0);
            pairs_b += i64::from(y != 0.0);
            if x != 0.0 && y != 0.0 {
                agree += if (x > 0.0) == (y > 0.0) { 1 } else { -1 };
            }
        }
    }
    (pairs_a > 0 && pairs_b > 0)
        .then(|| agree as f64 / ((pairs_a as f64) * (pairs_b as f64)).sqrt())
}

/// Distances between all values, centred by row, column and whole (Székely, Rizzo and Bakirov 2007).
fn centred_distances(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let mut distances: Vec<f64> = (0..n * n)
        .map(|k| (values[k / n] - values[k % n]).abs())
        .collect();
    let means: Vec<f64> = (0..n)
        .map(|i| distances[i * n..(i + 1) * n].iter().sum::<f64>() / n as f64)
        .collect();
    let mean = means.iter().sum::<f64>() / n as f64;
    for i in 0..n {
        for j in 0..n {
            distances[i * n + j] += mean - means[i] - means[j];
        }
    }
    distances
}

/// Distance correlation, 0 to 1: 0 only if the sides are independent. None if a side is constant. Quadratic.
pub fn distance_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (x, y) = (centred_distances(a), centred_distances(b));
    let dot = |p: &[f64], q: &[f64]| p.iter().zip(q).map(|(p, q)| p * q).sum::<f64>();
    let (xy, xx, yy) = (dot(&x, &y), dot(&x, &x), dot(&y, &y));
    (xx > 0.0 && yy > 0.0).then(|| (xy.max(0.0) / (xx * yy).sqrt()).sqrt())
}

/// The bin of each value, by rank: bins are equally full, but equal values share one.
pub fn bins(values: &[f64]) -> Vec<usize> {
    let count = values.len() as f64;
    ranks(values)
        .into_iter()
        .map(|rank| (((rank - 0.5) / count * BINS as f64) as usize).min(BINS - 1))
        .collect()
}

/// Mutual information of two binned series, bits, with Miller and Madow's correction; at least 0.
pub fn mutual_information(a: &[usize], b: &[usize]) -> f64 {
    let mut joint = [[0u32; BINS]; BINS];
    for (&x, &y) in a.iter().zip(b) {
        joint[x][y] += 1;
    }
    let entropy = |counts: &mut dyn Iterator<Item = u32>| -> (f64, usize) {
        let total = a.len() as f64;
        counts.filter(|c| *c > 0).fold((0.0, 0), |(h, cells), c| {
            let p = f64::from(c) / total;
            (h - p * p.log2(), cells + 1)
        })
    };
    let rows = entropy(&mut joint.iter().map(|row| row.iter().sum()));
    let columns = entropy(&mut (0..BINS).map(|c| joint.iter().map(|row| row[c]).sum()));
    let cells = entropy(&mut joint.iter().flatten().copied());
    let correction = (rows.1 as f64 + columns.1 as f64 - cells.1 as f64 - 1.0)
        / (2.0 * a.len() as f64 * std::f64::consts::LN_2);
    (rows.0 + columns.0 - cells.0 + correction).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(f: impl Fn(f64) -> f64) -> (Vec<f64>, Vec<f64>) {
        let x: Vec<f64> = (-100..=100).map(|i| f64::from(i) / 10.0).collect();
        let y = x.iter().map(|v| f(*v)).collect();
        (x, y)
    }

    #[test]
    fn lines_are_seen_by_all() {
        let (x, y) = line(|v| 3.0 - 2.0 * v);
        assert_eq!(kendall(&x, &y), Some(-1.0));
        assert!((distance_correlation(&x, &y).unwrap() - 1.0).abs() < 1e-12);
        assert!(mutual_information(&bins(&x), &bins(&y)) > 2.5);
    }

    #[test]
    fn a_parabola_is_seen_by_those_that_do_not_look_for_lines() {
        let (x, y) = line(|v| v * v);
        assert!(kendall(&x, &y).unwrap().abs() < 0.02);
        assert!(distance_correlation(&x, &y).unwrap() > 0.4);
        assert!(mutual_information(&bins(&x), &bins(&y)) > 1.5);
    }

    #[test]
    fn independence_and_constants() {
        let x: Vec<f64> = oplearn::data::split::shuffled(400, 1)
            .into_iter()
            .map(|v| v as f64)
            .collect();
        let y: Vec<f64> = oplearn::data::split::shuffled(400, 2)
            .into_iter()
            .map(|v| v as f64)
            .collect();
        assert!(distance_correlation(&x, &y).unwrap() < 0.15);
        assert!(mutual_information(&bins(&x), &bins(&y)) < 0.1);
        assert_eq!(kendall(&x, &[1.0; 400]), None);
        assert_eq!(distance_correlation(&[2.0; 400], &y), None);
        assert_eq!(
            kendall(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]),
            Some(2.0 / 6f64.sqrt())
        );
    }
}
