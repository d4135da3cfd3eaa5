//! A point of one machine on another. A model of several machines is asked about a new one in this way.

use std::sync::LazyLock;

use crate::features::list::{FEATURES, Values};
use crate::features::machine::MachineFacts;
use crate::features::point::{Point, number};

/// Features that [`MachineFacts::describe`] sets.
#[rustfmt::skip]
const DESCRIBED: [&str; 12] = [
    "machine", "cores", "frequency", "l1_bytes", "l2_bytes", "l3_bytes", "lanes", "peak_flops",
    "bandwidth_l1", "bandwidth_l2", "bandwidth_l3", "bandwidth_memory",
];

/// Indices of these features and of the number of threads. They are found once, because every prediction of an adapted
/// model needs them.
static PLACES: LazyLock<(Vec<usize>, Option<usize>)> = LazyLock::new(|| {
    let place = |name: &str| FEATURES.iter().position(|feature| feature.name == name);
    let described = DESCRIBED.iter().filter_map(|name| place(name)).collect();
    (described, place("threads"))
});

impl MachineFacts {
    /// A point of another machine as if this one ran it. The machine and its figures are this one's; everything else
    /// stays, the estimates included.
    #[must_use]
    pub fn host(&self, point: &Point) -> Point {
        let (described_places, threads) = &*PLACES;
        let threads = threads.map(|place| point.features[place]);
        let threads = threads.filter(|threads| threads.is_finite());
        let mut values = Values::default();
        self.describe(&mut values, threads.map(|log| log.exp2().round() as u64));
        let described = values.to_vec();
        let mut own = point.clone();
        for &place in described_places {
            own.features[place] = described[place];
        }
        own.machine = number(self.id.bytes());
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::point_of;
    use crate::testing::dense_row;

    #[test]
    fn a_point_has_the_figures_of_who_runs_it_and_keeps_the_rest() {
        let here = MachineFacts {
            number: Some(0),
            cores: Some(2),
            l2_bytes: Some(1 << 20),
            ..MachineFacts::named("here")
        };
        let there = MachineFacts {
            number: Some(3),
            cores: Some(64),
            frequency_ghz: Some(3.0),
            ..MachineFacts::named("there")
        };
        let mut row = dense_row(8, 8, 8, "{}");
        row.threads = Some(2);
        let [point, other] = [&here, &there].map(|machine| point_of(&row, machine));
        let hosted = there.host(&point);
        assert_eq!(hosted.machine, other.machine);
        let bits = |point: &Point| -> Vec<u32> {
            point.features.iter().map(|value| value.to_bits()).collect()
        };
        let changed = |a: &Point, b: &Point| -> Vec<&str> {
            let differs = bits(a).into_iter().zip(bits(b)).map(|(a, b)| a != b);
            let named = FEATURES.iter().zip(differs).filter(|(_, differs)| *differs);
            named.map(|(feature, _)| feature.name).collect()
        };
        assert_eq!(
            changed(&hosted, &point),
            ["cores", "l2_bytes", "frequency", "machine"]
        );
        assert!(changed(&hosted, &other).is_empty());
        assert!(changed(&here.host(&hosted), &point).is_empty());
        let known = |name: &&&str| FEATURES.iter().any(|feature| feature.name == **name);
        assert_eq!(DESCRIBED.iter().filter(known).count(), DESCRIBED.len());
    }
}
