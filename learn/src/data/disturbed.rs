//! Rows measured while other work ran on the machine.

use opdata::Row;

/// Keeps only the measurements without interference, if there are any. `disturbed` returns whether there
/// was interference, or `None` if that is unknown.
pub fn keep_of_use<T>(measurements: &mut Vec<T>, disturbed: impl Fn(&T) -> Option<bool>) {
    let is_quiet = |one: &T| disturbed(one) == Some(false);
    if measurements.iter().any(is_quiet) {
        measurements.retain(is_quiet);
    }
}

/// Counts rows that were measured while something else ran.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Disturbed {
    graded: usize,
    disturbed: usize,
}

impl Disturbed {
    /// Counts a row that records its interference.
    pub(super) fn add(&mut self, row: &Row) {
        if let Some(disturbed) = row.interference().was_disturbed() {
            self.graded += 1;
            self.disturbed += usize::from(disturbed);
        }
    }

    /// Their share of the rows that report interference or its absence; `None` without any such row.
    pub(super) fn share(self) -> Option<f64> {
        (self.graded > 0).then(|| self.disturbed as f64 / self.graded as f64)
    }
}

#[cfg(test)]
mod tests {
    use opdata::Quality;

    use super::*;
    use crate::testing::dense_row;

    fn row(quality: Option<Quality>, drift_ratio: Option<f64>) -> Row {
        Row {
            quality,
            drift_ratio,
            ..dense_row(1, 8, 8, "{}")
        }
    }

    fn of(rows: &[&Row]) -> Disturbed {
        let mut counted = Disturbed::default();
        rows.iter().for_each(|row| counted.add(row));
        counted
    }

    #[test]
    fn rows_of_a_disturbed_machine_are_counted() {
        let silent = row(None, None);
        let quiet = row(Some(Quality::A), Some(1.02));
        let slowed = row(Some(Quality::B), Some(1.3));
        let poor = row(Some(Quality::D), None);
        let poor_by_itself = row(Some(Quality::D), Some(1.0));
        let ungraded = row(None, Some(1.0));
        assert_eq!(of(&[&silent]).share(), None);
        assert_eq!(of(&[&quiet, &slowed, &poor, &quiet]).share(), Some(0.5));
        assert_eq!(of(&[&poor_by_itself]).share(), Some(1.0));
        assert_eq!(of(&[&ungraded]).share(), Some(0.0));
        assert_eq!(of(&[&slowed, &silent]).share(), Some(1.0));
    }
}
