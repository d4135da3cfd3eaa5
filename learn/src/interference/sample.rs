//! Samples and features of interference.

use std::collections::{BTreeMap, HashMap};

use opdata::contract::pairs::PairRow;
use opmodels::graph::Operator;
use serde::{Deserialize, Serialize};

/// Features of a sample.
pub(super) const WIDTH: usize = 18;
/// Places of the logarithms of the operator's sensitivity, and of the pressure of the others.
pub(super) const SENSITIVITY: usize = 14;
/// See [`SENSITIVITY`].
pub(super) const PRESSURE: usize = 15;

/// Quantities that decide how an operator slows others down, and how others slow it down.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Neighbour {
    /// Hash of the computation.
    pub workload: String,
    /// Floating-point operations of a call.
    pub flops: f64,
    /// Bytes that a call reads at least.
    pub bytes_read: f64,
    /// Bytes that it writes at least.
    pub bytes_written: f64,
    /// Threads.
    pub threads: f64,
    /// Time of a call alone on these threads, ns.
    pub alone_ns: f64,
    /// Slowdown beside a stream of copies, where it is known.
    pub sensitivity: Option<f64>,
    /// Slowdown of that stream beside it.
    pub pressure: Option<f64>,
}

impl Neighbour {
    /// An operator on some threads, with its time alone there, ns.
    pub fn new(operator: &Operator, threads: u32, alone_ns: f64) -> Neighbour {
        Neighbour {
            workload: operator.workload_hash(),
            flops: (operator.flops + operator.flops_epilogue) as f64,
            bytes_read: operator.bytes_read as f64,
            bytes_written: operator.bytes_written as f64,
            threads: f64::from(threads),
            alone_ns,
            ..Neighbour::default()
        }
    }

    fn of_row(row: &PairRow, alone_ns: f64) -> Neighbour {
        Neighbour {
            workload: row.workload_hash.clone(),
            flops: row.flops as f64,
            bytes_read: row.bytes_read as f64,
            bytes_written: row.bytes_written as f64,
            threads: row.threads as f64,
            alone_ns,
            sensitivity: row.sensitivity,
            pressure: row.pressure,
        }
    }

    /// Adds the measured slowdowns of its workload beside a stream of copies.
    pub(super) fn with(mut self, probes: &Probes) -> Neighbour {
        if let Some([sensitivity, pressure]) = probes.get(&self.workload) {
            self.sensitivity = *sensitivity;
            self.pressure = *pressure;
        }
        self
    }

    /// Bytes of a call: its footprint too, for it runs on the same buffers again.
    fn bytes(&self) -> f64 {
        (self.bytes_read + self.bytes_written).max(1.0)
    }

    /// Bytes a nanosecond.
    fn bandwidth(&self) -> f64 {
        self.bytes() / self.alone_ns.max(1.0)
    }
}

/// A measured slowdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The group of the measurement.
    pub group: String,
    /// Workloads of the group, that of the operator first.
    pub workloads: Vec<String>,
    /// Whether all operators are on the same processors.
    pub is_sliced: bool,
    /// Operators of the group over the share of processors of each: 1 where each has its own.
    pub crowd: f64,
    /// The features of the prediction.
    #[serde(with = "missing_as_null")]
    pub(super) features: [f32; WIDTH],
    /// Bytes a nanosecond of all operators of the group, alone.
    pub bandwidth: f64,
    /// The machine's calibrated rate of reading from memory, bytes a nanosecond, where it is known.
    pub memory_rate: Option<f64>,
    /// Time beside the others over time alone.
    pub slowdown: f64,
}

/// JSON has no NaN: features that are missing are null.
mod missing_as_null {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::WIDTH;

    pub fn serialize<S: Serializer>(features: &[f32; WIDTH], to: S) -> Result<S::Ok, S::Error> {
        features.map(|x| x.is_finite().then_some(x)).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[f32; WIDTH], D::Error> {
        let known = <[Option<f32>; WIDTH]>::deserialize(from)?;
        Ok(known.map(|x| x.unwrap_or(f32::NAN)))
    }
}

impl Sample {
    /// Two operators on processors of their own, whose slowdown is not known.
    pub(super) fn of_two(own: &Neighbour, beside: &Neighbour) -> Sample {
        Sample {
            group: String::new(),
            workloads: vec![own.workload.clone(), beside.workload.clone()],
            is_sliced: false,
            crowd: 1.0,
            features: features(own, &[beside], false),
            bandwidth: own.bandwidth() + beside.bandwidth(),
            memory_rate: None,
            slowdown: f64::NAN,
        }
    }
}

/// The samples of measured groups. Rows of grade D are left out: their interval is wider than most slowdowns.
pub fn samples(rows: &[PairRow]) -> Vec<Sample> {
    let mut groups: BTreeMap<&str, Vec<&PairRow>> = BTreeMap::new();
    for row in rows {
        groups.entry(&row.group_id).or_default().push(row);
    }
    let probes = probes(rows);
    groups
        .into_values()
        .flat_map(|group| of_group(&group, &probes))
        .collect()
}

/// Sensitivity and pressure of operators, by workload: medians over all groups that contain them.
pub(super) type Probes = HashMap<String, [Option<f64>; 2]>;

pub(super) fn probes(rows: &[PairRow]) -> Probes {
    let mut all: HashMap<&str, [Vec<f64>; 2]> = HashMap::new();
    for row in rows {
        let own = all.entry(&row.workload_hash).or_default();
        own[0].extend(row.sensitivity);
        own[1].extend(row.pressure);
    }
    let medians = |(workload, own): (&str, [Vec<f64>; 2])| {
        (workload.to_owned(), own.map(opdata::stats::median))
    };
    all.into_iter().map(medians).collect()
}

fn of_group(group: &[&PairRow], probes: &Probes) -> Vec<Sample> {
    let members: Option<Vec<Neighbour>> = group
        .iter()
        .map(|row| Some(Neighbour::of_row(row, row.alone_ns?).with(probes)))
        .collect();
    let Some(members) = members else {
        return Vec::new();
    };
    let is_sliced = group[0].mode == "time_sliced";
    let sample = |(place, row): (usize, &&PairRow)| {
        let beside: Vec<&Neighbour> = (0..members.len())
            .filter(|other| *other != place)
            .map(|other| &members[other])
            .collect();
        let own = &members[place];
        let mut workloads = vec![own.workload.clone()];
        workloads.extend(beside.iter().map(|other| other.workload.clone()));
        Some(Sample {
            group: row.group_id.clone(),
            workloads,
            is_sliced,
            crowd: if is_sliced { members.len() as f64 } else { 1.0 },
            features: features(own, &beside, is_sliced),
            bandwidth: members.iter().map(Neighbour::bandwidth).sum(),
            memory_rate: row.memory_gbytes_per_s,
            slowdown: row.slowdown.filter(|_| row.grade.as_deref() != Some("D"))?,
        })
    };
    group.iter().enumerate().filter_map(sample).collect()
}

/// Features of an operator beside others: logarithms of bytes, of bytes a nanosecond and of arithmetic per byte of each side.
/// Then the time of a call, the share of writes, threads, whether processors are shared, and each side's sensitivity and
/// pressure.
fn features(own: &Neighbour, beside: &[&Neighbour], is_sliced: bool) -> [f32; WIDTH] {
    let sum = |of: &dyn Fn(&Neighbour) -> f64| beside.iter().map(|other| of(other)).sum::<f64>();
    let bytes = sum(&Neighbour::bytes);
    let bandwidth = sum(&Neighbour::bandwidth);
    let ln = |slowdown: Option<f64>| slowdown.map_or(f64::NAN, f64::ln);
    let flops = sum(&|other| other.flops / other.alone_ns.max(1.0));
    [
        own.bytes().ln(),
        own.bandwidth().ln(),
        (own.flops.max(1.0) / own.bytes()).ln(),
        own.alone_ns.max(1.0).ln(),
        own.bytes_written / own.bytes(),
        own.threads,
        bytes.max(1.0).ln(),
        bandwidth.max(1e-9).ln(),
        (flops.max(1e-9) / bandwidth.max(1e-9)).ln(),
        sum(&|other| other.alone_ns).max(1.0).ln(),
        sum(&|other| other.bytes_written) / bytes.max(1.0),
        sum(&|other| other.threads),
        (own.bandwidth() + bandwidth).ln(),
        f64::from(u8::from(is_sliced)) * beside.len() as f64,
        ln(own.sensitivity),
        sum(&|other| ln(other.pressure)),
        ln(own.pressure),
        sum(&|other| ln(other.sensitivity)),
    ]
    .map(|value| value as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back_from_json_with_what_is_missing() {
        let own = Neighbour {
            sensitivity: Some(1.5),
            ..Neighbour::default()
        };
        let sample = Sample {
            slowdown: 1.0,
            ..Sample::of_two(&own, &own)
        };
        let json = serde_json::to_string(&sample).unwrap();
        let back: Sample = serde_json::from_str(&json).unwrap();
        assert!(back.features[PRESSURE].is_nan());
        assert_eq!(back.features[..PRESSURE], sample.features[..PRESSURE]);
    }

    #[test]
    fn each_operator_of_a_group_is_a_sample_and_a_group_without_times_none() {
        let row = |group: &str, member: u64, workload: &str, alone_ns: Option<f64>| PairRow {
            group_id: group.to_owned(),
            member,
            members: 2,
            mode: "partitioned".to_owned(),
            workload_hash: workload.to_owned(),
            bytes_read: 100,
            alone_ns,
            slowdown: alone_ns.map(|_| 1.5),
            ..PairRow::default()
        };
        let rows = [
            row("a", 0, "x", Some(10.0)),
            row("a", 1, "y", Some(20.0)),
            row("b", 0, "x", None),
            row("b", 1, "x", None),
        ];
        let samples = samples(&rows);
        let seen: Vec<(&[String], f64)> = samples
            .iter()
            .map(|s| (&s.workloads[..], s.bandwidth))
            .collect();
        let names = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        assert_eq!(
            seen,
            [(&names("x", "y")[..], 15.0), (&names("y", "x")[..], 15.0)]
        );
        // Each sample's own values are the other's neighbour values.
        assert_eq!(samples[0].features[0], samples[1].features[6]);
        assert_eq!(samples[0].features[1], samples[1].features[7]);
    }
}
