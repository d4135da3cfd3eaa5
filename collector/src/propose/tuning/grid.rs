//! The space of an operator as a grid: a point is the index of a value for each dimension.
//!
//! The device decides which combinations are possible. This module turns points into schedules, draws random points,
//! and finds neighbours. Equal schedules have equal keys, also if several points lead to them.

use opengine::device::DeviceRef;
use opengine::schedule::{ALGORITHM, Choice, FactorValue, ScheduleSpec, Space};
use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

/// The index of a value for each dimension.
pub(crate) type Point = Vec<usize>;

/// An operator's space.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    device: DeviceRef,
    space: Space,
}

impl Grid {
    pub fn new(device: DeviceRef, space: Space) -> Grid {
        Grid { device, space }
    }

    /// The device.
    pub fn device(&self) -> DeviceRef {
        self.device
    }

    /// Number of values of each dimension.
    pub fn lengths(&self) -> Vec<usize> {
        let dimensions = self.space.dimensions.iter();
        dimensions.map(|dimension| dimension.values.len()).collect()
    }

    /// Number of points, impossible ones included.
    pub fn size(&self) -> f64 {
        self.space.size()
    }

    /// The schedule of a point. `None` if the combination is impossible.
    pub fn choice(&self, point: &[usize]) -> Option<Choice> {
        let dimensions = self.space.dimensions.iter().zip(point);
        let settings: Vec<_> = dimensions
            .map(|(dimension, &value)| (dimension, &dimension.values[value]))
            .collect();
        self.device.combine(&self.space, &settings).ok()
    }

    /// The point as a kernel's specification.
    pub fn spec(&self, point: &[usize]) -> Option<ScheduleSpec> {
        let choice = self.choice(point)?;
        Some(ScheduleSpec::Template { choice })
    }

    /// The point of a schedule of this space: the values of its knobs. A dimension without a knob gets its first value.
    pub fn point_of(&self, choice: &Choice) -> Option<Point> {
        let key = |choice: &Choice| serde_json::to_value(choice).ok();
        let wanted = key(choice)?;
        let mut point = vec![0; self.space.dimensions.len()];
        let distance = |point: &[usize]| {
            let made = self.choice(point).and_then(|made| key(&made));
            made.map_or(f64::INFINITY, |made| different(&wanted, &made))
        };
        // Goes through the dimensions twice, because knobs of some depend on those of others.
        for _ in 0..2 {
            for (place, length) in self.lengths().into_iter().enumerate() {
                let best = (0..length).min_by(|&a, &b| {
                    let mut at = |value| {
                        point[place] = value;
                        distance(&point)
                    };
                    let (a, b) = (at(a), at(b));
                    a.total_cmp(&b)
                });
                point[place] = best.unwrap_or_default();
            }
        }
        (distance(&point) == 0.0).then_some(point)
    }

    /// A point at random.
    pub fn random(&self, random: &mut Pcg64Mcg) -> Point {
        let lengths = self.lengths().into_iter();
        lengths
            .map(|length| random.random_range(0..length))
            .collect()
    }

    /// A point that differs in up to `steps` dimensions.
    pub fn changed(&self, point: &[usize], steps: usize, random: &mut Pcg64Mcg) -> Point {
        let mut changed = point.to_vec();
        let lengths = self.lengths();
        for _ in 0..random.random_range(1..=steps) {
            if let Some(place) =
                (!lengths.is_empty()).then(|| random.random_range(0..lengths.len()))
            {
                changed[place] = random.random_range(0..lengths[place]);
            }
        }
        changed
    }

    /// The points one step away along one dimension. Words have no order, so all other words are one step away.
    pub fn neighbours(&self, point: &[usize]) -> Vec<Point> {
        let mut all = Vec::new();
        for (place, dimension) in self.space.dimensions.iter().enumerate() {
            let own = point[place];
            let is_ordered = matches!(dimension.values[own], FactorValue::Number(_));
            let others = (0..dimension.values.len())
                .filter(|&value| value != own && (!is_ordered || value.abs_diff(own) == 1));
            all.extend(others.map(|value| {
                let mut neighbour = point.to_vec();
                neighbour[place] = value;
                neighbour
            }));
        }
        all
    }

    /// The same point by every other algorithm that computes the operator.
    pub fn other_algorithms(&self, point: &[usize]) -> Vec<Point> {
        let mut dimensions = self.space.dimensions.iter();
        let Some(place) = dimensions.position(|dimension| dimension.factor.name() == ALGORITHM)
        else {
            return Vec::new();
        };
        let others = (0..self.space.dimensions[place].values.len()).filter(|v| *v != point[place]);
        others
            .map(|value| {
                let mut other = point.to_vec();
                other[place] = value;
                other
            })
            .collect()
    }

    /// A point as numbers: the logarithm of an extent, the index of a word.
    pub fn numbers(&self, point: &[usize]) -> Vec<f32> {
        let dimensions = self.space.dimensions.iter().zip(point);
        let number =
            |(dimension, &value): (&opengine::schedule::Dimension, &usize)| match &dimension.values
                [value]
            {
                FactorValue::Number(number) => (*number as f32).max(0.0).ln_1p(),
                _ => value as f32,
            };
        dimensions.map(number).collect()
    }
}

/// Number of leaves in which two JSON values differ.
fn different(a: &serde_json::Value, b: &serde_json::Value) -> f64 {
    use serde_json::Value;
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => a
            .iter()
            .map(|(key, value)| b.get(key).map_or(1.0, |other| different(value, other)))
            .sum(),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).map(|(a, b)| different(a, b)).sum()
        }
        (a, b) => f64::from(u8::from(a != b)),
    }
}
