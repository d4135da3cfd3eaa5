//! t(x) = a/x + b·x + c with non-negative coefficients: work that the workers share, cost that grows with each worker,
//! and a constant. The fit minimises relative errors, so that the many slow points do not decide alone.

use super::linear::least_squares;

/// The coefficients.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Saturation {
    /// Shared work: time on one worker.
    pub shared: f64,
    /// Cost of each worker.
    pub each: f64,
    /// The constant part.
    pub fixed: f64,
}

impl Saturation {
    /// Fits points with times above 0; the best of all subsets of terms without a negative coefficient.
    pub fn fit(points: &[(f64, f64)]) -> Self {
        let mut best = (f64::INFINITY, Self::default());
        for subset in 1u8..8 {
            let terms: Vec<usize> = (0..3).filter(|term| subset & (1 << term) != 0).collect();
            let Some(solution) = relative_fit(points, &terms) else {
                continue;
            };
            if solution.iter().any(|c| *c < 0.0) {
                continue;
            }
            let mut all = [0.0; 3];
            for (term, value) in terms.iter().zip(solution) {
                all[*term] = value;
            }
            let candidate = Self {
                shared: all[0],
                each: all[1],
                fixed: all[2],
            };
            let error: f64 = points
                .iter()
                .map(|(x, time)| (candidate.at(*x) / time - 1.0).powi(2))
                .sum();
            if error < best.0 {
                best = (error, candidate);
            }
        }
        best.1
    }

    /// The time at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.shared / x + self.each * x + self.fixed
    }
}

fn term(which: usize, x: f64) -> f64 {
    match which {
        0 => 1.0 / x,
        1 => x,
        _ => 1.0,
    }
}

/// Least squares of relative errors over some terms. `None` if the points do not determine them.
fn relative_fit(points: &[(f64, f64)], terms: &[usize]) -> Option<Vec<f64>> {
    let relative = |&which: &usize| -> Vec<f64> {
        points
            .iter()
            .map(|(x, time)| term(which, *x) / time)
            .collect()
    };
    let terms: Vec<Vec<f64>> = terms.iter().map(relative).collect();
    least_squares(&terms, &vec![1.0; points.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_curves_are_found_again() {
        let truth = Saturation {
            shared: 640.0,
            each: 0.5,
            fixed: 3.0,
        };
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
            .map(|x| (x, truth.at(x)))
            .to_vec();
        let found = Saturation::fit(&points);
        assert!(
            (found.shared - 640.0).abs() < 1e-6 && (found.each - 0.5).abs() < 1e-6,
            "{found:?}"
        );
    }

    #[test]
    fn coefficients_are_never_negative() {
        let found = Saturation::fit(&[(1.0, 10.0), (2.0, 4.0), (4.0, 1.0), (8.0, 0.2)]);
        assert!(found.shared > 0.0 && found.each >= 0.0 && found.fixed >= 0.0);
        assert_eq!(Saturation::fit(&[]).at(3.0), 0.0);
    }
}
