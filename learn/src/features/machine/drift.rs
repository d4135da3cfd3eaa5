//! Slowdown by interference while a point was measured.
//!
//! A process on the same core or caches slows some operators by half and others hardly at all. So the trees learn it:
//! the slowdown of the reference kernel is a feature. Queries ask about the quiet machine.

use opdata::contract::interference::is_disturbed;

/// The feature: 0 where nothing else ran, or nothing is known of it.
pub(in crate::features) fn feature(drift: Option<f64>) -> f32 {
    drift
        .filter(|&drift| is_disturbed(drift))
        .map_or(0.0, |drift| drift.log2() as f32)
}

#[cfg(test)]
mod tests {
    use crate::features::machine::MachineFacts;
    use crate::features::point_of;
    use crate::testing::dense_row;

    #[test]
    fn a_point_can_be_moved_to_a_machine_that_is_more_or_less_disturbed() {
        let of = |drift_ratio| {
            let row = opdata::Row {
                drift_ratio,
                ..dense_row(1, 8, 8, "{}")
            };
            let features = point_of(&row, &MachineFacts::default()).features;
            features.iter().map(|f| f.to_bits()).collect::<Vec<_>>()
        };
        let quiet = of(Some(1.0));
        assert_eq!(of(None), quiet);
        assert_eq!(of(Some(1.05)), quiet, "that is quiet");
        let slowed = of(Some(2.0));
        let differ = quiet.iter().zip(&slowed).filter(|(a, b)| a != b);
        assert_eq!(
            differ.collect::<Vec<_>>(),
            [(&0f32.to_bits(), &1f32.to_bits())]
        );

        let mut point = point_of(&dense_row(1, 8, 8, "{}"), &MachineFacts::default());
        point.set_drift(Some(2.0));
        let moved: Vec<u32> = point.features.iter().map(|f| f.to_bits()).collect();
        assert_eq!(moved, slowed);
    }
}
