//! The measured rows that are most similar to a query, to compare a prediction with.

use opdata::stats::moments;
use oplearn::data::Dataset;
use oplearn::features::{FEATURES, Point, Scope, squared_distance};
use serde::{Deserialize, Serialize};

/// Maximum number of samples that are kept. Of a larger set, every n-th is kept.
const MOST: usize = 3000;

/// Measured samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbours {
    columns: Vec<usize>,
    scales: Vec<f32>,
    /// Values of `columns`, one sample after the other; missing is NaN.
    #[serde(with = "floats")]
    values: Vec<f32>,
    samples: Vec<Measured>,
}

/// One measured sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The row.
    pub row_id: String,
    /// Operator and shapes.
    pub label: String,
    /// Threads.
    pub threads: Option<u64>,
    /// Time, ns.
    pub time_ns: f64,
}

/// A measured row near a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbour {
    /// The measurement.
    #[serde(flatten)]
    pub measured: Measured,
    /// Root mean square of the differences of features, in standard deviations; 0 for the same point.
    pub distance: f32,
}

/// Values in a file: base64 of their bytes, little-endian. JSON has no NaN.
mod floats {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = BASE64_STANDARD.decode(text).map_err(D::Error::custom)?;
        let (values, _) = bytes.as_chunks();
        Ok(values.iter().map(|v| f32::from_le_bytes(*v)).collect())
    }
}

impl Neighbours {
    /// Keeps samples of a dataset.
    pub fn new(dataset: &Dataset) -> Self {
        let step = dataset.samples.len().div_ceil(MOST).max(1);
        let chosen: Vec<usize> = (0..dataset.samples.len()).step_by(step).collect();
        let (mut columns, mut scales) = (Vec::new(), Vec::new());
        for (column, feature) in FEATURES.iter().enumerate() {
            if matches!(feature.scope, Scope::Total | Scope::Code | Scope::Counted) {
                continue;
            }
            let values: Vec<f32> = dataset
                .samples
                .iter()
                .map(|s| s.point.features[column])
                .filter(|v| v.is_finite())
                .collect();
            if let Some((_, deviation)) = moments(&values).filter(|m| m.1 > 3e-5) {
                columns.push(column);
                scales.push(deviation as f32);
            }
        }
        let mut neighbours = Self {
            columns,
            scales,
            values: Vec::new(),
            samples: Vec::new(),
        };
        for index in chosen {
            let sample = &dataset.samples[index];
            let values = neighbours.place(&sample.point);
            neighbours.values.extend(values);
            neighbours.samples.push(Measured {
                row_id: sample.row_id.clone(),
                label: dataset.workloads[sample.workload].label.clone(),
                threads: sample.threads,
                time_ns: sample.log2_time.exp2(),
            });
        }
        neighbours
    }

    /// Whether all samples have all values.
    pub(super) fn is_whole(&self) -> bool {
        self.values.len() == self.columns.len() * self.samples.len()
    }

    fn place(&self, point: &Point) -> Vec<f32> {
        self.columns
            .iter()
            .zip(&self.scales)
            .map(|(&column, scale)| point.features[column] / scale)
            .collect()
    }

    /// The `count` nearest samples, nearest first.
    pub fn nearest(&self, point: &Point, count: usize) -> Vec<Neighbour> {
        let wanted = self.place(point);
        let width = self.columns.len().max(1);
        let mut distances: Vec<(f32, usize)> = self
            .values
            .chunks_exact(width)
            .enumerate()
            .map(|(place, values)| (distance(values, &wanted), place))
            .collect();
        let count = count.min(distances.len());
        if count == 0 {
            return Vec::new();
        }
        distances.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0));
        distances.truncate(count);
        distances.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        distances
            .into_iter()
            .map(|(distance, place)| Neighbour {
                measured: self.samples[place].clone(),
                distance,
            })
            .collect()
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    (squared_distance(a, b) / a.len().max(1) as f32).sqrt()
}
