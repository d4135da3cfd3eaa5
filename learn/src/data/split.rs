//! Splits samples into training and held-out ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use opdata::random::SplitMix64;

use super::dataset::{Dataset, Sample};
use crate::error::{Error, Result};

/// A way to hold samples out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// Shuffled samples in k parts: a workload is on both sides.
    KFold(usize),
    /// Shuffled workloads in k parts.
    Workloads(usize),
    /// Each workload alone.
    LeaveOneWorkloadOut,
    /// Each model in turn; operators measured alone are always training data.
    LeaveOneModelOut,
    /// Each machine alone.
    LeaveOneMachineOut,
    /// The last fifth by time, learned from the rest.
    ByTime,
}

/// The share held out by time.
const LATE_SHARE: f64 = 0.2;

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KFold(k) => write!(f, "{k}-fold"),
            Self::Workloads(k) => write!(f, "{k}-fold-workloads"),
            Self::LeaveOneWorkloadOut => f.write_str("leave-one-workload-out"),
            Self::LeaveOneModelOut => f.write_str("leave-one-model-out"),
            Self::LeaveOneMachineOut => f.write_str("leave-one-machine-out"),
            Self::ByTime => f.write_str("by-time"),
        }
    }
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let folds = |text: &str| text.parse().ok().filter(|k| (2..=1000).contains(k));
        match text {
            "leave-one-workload-out" | "lowo" => Ok(Self::LeaveOneWorkloadOut),
            "leave-one-model-out" => Ok(Self::LeaveOneModelOut),
            "leave-one-machine-out" => Ok(Self::LeaveOneMachineOut),
            "by-time" => Ok(Self::ByTime),
            "k-fold" | "kfold" => Ok(Self::KFold(5)),
            _ => {
                let workloads = text.strip_suffix("-fold-workloads").and_then(folds);
                workloads
                    .map(Self::Workloads)
                    .or_else(|| text.strip_suffix("-fold").and_then(folds).map(Self::KFold))
                    .ok_or_else(|| {
                        format!(
                            "no such split `{text}`: expected leave-one-workload-out, leave-one-model-out, \
                             leave-one-machine-out, by-time, 5-fold or 5-fold-workloads (2 to 1000)"
                        )
                    })
            }
        }
    }
}

/// One fold: training samples and held-out samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// The model that is held out, when models are.
    pub model: Option<String>,
    /// Indices of the training samples.
    pub train: Vec<usize>,
    /// Indices of the held-out samples.
    pub test: Vec<usize>,
}

/// The numbers from 0 to `count` in a random order.
pub fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut random = SplitMix64::new(seed);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let other = (random.next_u64() % (last as u64 + 1)) as usize;
        order.swap(last, other);
    }
    order
}

impl Split {
    /// The folds of a dataset. By time, only the last samples are held out. By model, operators of several models are
    /// held out more than once.
    ///
    /// # Errors
    /// Fails if there is not enough to hold anything out.
    pub fn folds(self, dataset: &Dataset, seed: u64) -> Result<Vec<Fold>> {
        let samples = &dataset.samples;
        let labels: Vec<usize> = match self {
            Self::KFold(k) => {
                dataset.require(k, &format!("{self}"))?;
                let mut labels = vec![0; samples.len()];
                for (place, index) in shuffled(samples.len(), seed).into_iter().enumerate() {
                    labels[index] = place % k;
                }
                labels
            }
            Self::Workloads(k) => {
                let mut part = vec![0; dataset.workloads.len()];
                for (place, workload) in shuffled(part.len(), seed).into_iter().enumerate() {
                    part[workload] = place % k;
                }
                samples.iter().map(|s| part[s.workload]).collect()
            }
            Self::LeaveOneWorkloadOut => samples.iter().map(|s| s.workload).collect(),
            Self::LeaveOneModelOut => return self.by_model(samples),
            Self::LeaveOneMachineOut => samples.iter().map(|s| s.machine).collect(),
            Self::ByTime => return self.by_time(samples),
        };
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, label) in labels.iter().enumerate() {
            groups.entry(*label).or_default().push(index);
        }
        if groups.len() < 2 {
            return Err(self.too_few(groups.len()));
        }
        Ok(groups
            .into_iter()
            .map(|(label, test)| Fold {
                model: None,
                train: (0..samples.len()).filter(|&i| labels[i] != label).collect(),
                test,
            })
            .collect())
    }

    /// An operator that several models have is held out with each of them. The training data then has nothing of its
    /// workload: no sweep for another model, and no measurement of the operator alone.
    fn by_model(self, samples: &[Sample]) -> Result<Vec<Fold>> {
        let mut models: Vec<&String> = samples.iter().flat_map(|s| &s.models).collect();
        models.sort_unstable();
        models.dedup();
        if models.len() < 2 {
            return Err(self.too_few(models.len()));
        }
        let folds = models.into_iter().map(|model| {
            let (test, others): (Vec<usize>, Vec<usize>) =
                (0..samples.len()).partition(|&i| samples[i].models.contains(model));
            let own: BTreeSet<usize> = test.iter().map(|&i| samples[i].workload).collect();
            let is_other = |i: &usize| !own.contains(&samples[*i].workload);
            Fold {
                model: Some(model.clone()),
                train: others.into_iter().filter(is_other).collect(),
                test,
            }
        });
        Ok(folds.filter(|fold| fold.train.len() > 1).collect())
    }

    fn by_time(self, samples: &[Sample]) -> Result<Vec<Fold>> {
        let mut order: Vec<usize> = (0..samples.len())
            .filter(|&i| samples[i].measured_ms.is_some())
            .collect();
        order.sort_by_key(|&i| samples[i].measured_ms);
        let test = (order.len() as f64 * LATE_SHARE).round() as usize;
        if test == 0 || test == order.len() {
            return Err(self.too_few(order.len()));
        }
        let test = order.split_off(order.len() - test);
        Ok(vec![Fold {
            model: None,
            train: order,
            test,
        }])
    }

    fn too_few(self, found: usize) -> Error {
        let unit = match self {
            Self::LeaveOneModelOut => "models",
            Self::LeaveOneMachineOut => "machines",
            Self::ByTime => "samples with a time stamp",
            _ => "workloads",
        };
        Error::TooFew {
            what: format!("the split {self}"),
            needed: 2,
            unit,
            found,
            next: "choose another --split, or add data",
        }
    }
}

#[cfg(test)]
mod tests {
    use opdata::Row;

    use crate::data::split::*;
    use crate::data::{Machines, RowSet};
    use crate::testing::dense_row;

    #[test]
    fn splits_have_names_that_read_back() {
        for split in [
            Split::KFold(5),
            Split::Workloads(10),
            Split::LeaveOneWorkloadOut,
            Split::LeaveOneModelOut,
            Split::LeaveOneMachineOut,
            Split::ByTime,
        ] {
            assert_eq!(split.to_string().parse(), Ok(split));
        }
        assert!("1-fold".parse::<Split>().is_err());
        assert!("fold".parse::<Split>().is_err());
    }

    #[test]
    fn a_model_is_held_out_with_all_that_is_known_of_its_workloads() {
        // Two models share the workload `a`, and a third measured another schedule of it. The workload `b` of the
        // second was measured as a single operator, too. So were `c` and `d`, which no model has.
        let row = |point: &str, workload: &str, model: &str, source: &str| Row {
            point_id: point.to_owned(),
            workload_hash: Some(workload.to_owned()),
            model_name: Some(model.to_owned()),
            model_source: Some(source.to_owned()),
            time_median_ns: Some(100.0 + point.len() as f64),
            ..dense_row(1, 64, 64, "{}")
        };
        let rows = vec![
            row("a", "a", "first", "local"),
            row("a", "a", "second", "local"),
            row("swept", "a", "third", "local"),
            row("second", "b", "second", "onnx"),
            row("single", "b", "dense:m=1", "simple"),
            row("another", "c", "dense:m=2", "simple"),
            row("one more", "d", "dense:m=3", "simple"),
        ];
        let dataset = Dataset::new(&RowSet::from(rows), &Machines::Single).unwrap();
        let folds = Split::LeaveOneModelOut.folds(&dataset, 0).unwrap();
        let found: Vec<(&str, &[usize], &[usize])> = folds
            .iter()
            .map(|fold| {
                (
                    fold.model.as_deref().unwrap(),
                    &fold.train[..],
                    &fold.test[..],
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("first", &[2, 3, 4, 5][..], &[0][..]),
                ("second", &[4, 5], &[0, 2]),
                ("third", &[2, 3, 4, 5], &[1]),
            ]
        );
    }

    #[test]
    fn shuffling_moves_everything_and_loses_nothing() {
        let mut order = shuffled(1000, 7);
        assert_ne!(order, shuffled(1000, 8));
        assert_eq!(order, shuffled(1000, 7));
        assert!(order.iter().enumerate().filter(|(i, v)| *i == **v).count() < 20);
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }
}
