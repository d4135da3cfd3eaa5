//! One member of the ensemble: the estimate it corrects, the features it may see, what it minimises, its trees.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rayon::prelude::*;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};

use super::choice::Familiarity;
use super::part::learned;
use super::rates::Rates;
use super::regressor::Regressor;
use super::training_set::TrainingSet;
use crate::data::Sample;
use crate::error::Result;
use crate::features::base::Base;
use crate::features::{FEATURES, Point, Scope, positions_of};
use crate::xgboost::{Booster, Labels, Rows};

/// The loss that a member minimises.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Squared error of the logarithm.
    Squared,
    /// The quantile of the logarithm at this level, 0 to 1: robust against disturbed measurements, which are too slow.
    Quantile(f64),
}

/// The trees' parameters, as XGBoost names them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trees {
    /// Rounds of boosting.
    pub rounds: u32,
    /// Greatest depth.
    pub depth: u32,
    /// Learning rate.
    pub eta: f64,
    /// Share of rows for a tree.
    pub subsample: f64,
    /// Share of features for a tree.
    pub colsample: f64,
    /// Minimum sum of weights in a leaf.
    pub min_child_weight: f64,
    /// Squared penalty of leaves.
    pub lambda: f64,
    /// Bins of a feature.
    pub max_bin: u32,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberSpec {
    /// The estimate that it corrects.
    pub base: Base,
    /// The queries that it counts for; none for members for other machines and for models that stand alone.
    pub queries: Vec<Familiarity>,
    /// Groups of features that it does not see.
    pub without: Vec<Scope>,
    /// The loss that it minimises.
    pub objective: Objective,
    /// Its trees.
    pub trees: Trees,
    /// Added to the seed.
    pub seed: u64,
}

/// Trees of a member that must generalise to other workloads.
pub const TREES: Trees = Trees {
    rounds: 150,
    depth: 6,
    eta: 0.1,
    subsample: 0.6,
    colsample: 0.5,
    min_child_weight: 4.0,
    lambda: 2.0,
    max_bin: 64,
};

/// Deeper trees for large training sets.
pub const DEEP_TREES: Trees = Trees {
    rounds: 300,
    depth: 8,
    eta: 0.1,
    subsample: 0.8,
    colsample: 0.5,
    min_child_weight: 2.0,
    lambda: 1.0,
    max_bin: 64,
};

/// Deep trees, but few of them, so that many schedules of known workloads are predicted fast.
pub const QUICK_TREES: Trees = Trees {
    rounds: 200,
    eta: 0.15,
    ..DEEP_TREES
};

/// Many deep trees that each see a third of the features.
pub const WIDE_TREES: Trees = Trees {
    rounds: 400,
    depth: 8,
    eta: 0.05,
    subsample: 0.7,
    colsample: 0.35,
    min_child_weight: 2.0,
    lambda: 1.0,
    max_bin: 128,
};

/// Trees of a member that has much to see (emitted code, this project's own schedules): each of many trees sees less of it.
pub const MANY_TREES: Trees = Trees {
    rounds: 300,
    eta: 0.05,
    colsample: 0.35,
    ..TREES
};

/// The members' loss. Relative errors are judged, and measurements under interference are too slow, so the target is
/// slightly below the median.
pub const ROBUST: Objective = Objective::Quantile(0.4);

/// Scopes that each view of a member leaves out, because it must also predict kernels that were never compiled or
/// counted.
pub const VIEWS: [&[Scope]; 3] = [
    &[Scope::Code, Scope::Counted, Scope::Foreign],
    &[Scope::Size, Scope::Code, Scope::Counted, Scope::Foreign],
    &[
        Scope::Size,
        Scope::Total,
        Scope::Code,
        Scope::Counted,
        Scope::Foreign,
    ],
];

/// The views of members that predict only compiled kernels.
pub const VIEWS_OF_CODE: [&[Scope]; 3] = [
    &[Scope::Counted, Scope::Foreign],
    &[Scope::Size, Scope::Counted, Scope::Foreign],
    &[Scope::Size, Scope::Total, Scope::Counted, Scope::Foreign],
];

/// The views of members that predict only counted kernels.
pub const VIEWS_OF_COUNTS: [&[Scope]; 3] = [
    &[Scope::Code, Scope::Foreign],
    &[Scope::Size, Scope::Code, Scope::Foreign],
    &[Scope::Size, Scope::Total, Scope::Code, Scope::Foreign],
];

/// The features hidden from a member for machines without training rows. Figures beyond those seen would send trees
/// astray, so their effect is left to the estimate.
pub const FOREIGN: &[Scope] = &[Scope::Machine, Scope::Code, Scope::Counted, Scope::State];

/// A member with the usual trees.
pub fn member(base: Base, without: &[Scope], objective: Objective, seed: u64) -> MemberSpec {
    MemberSpec {
        base,
        queries: Vec::new(),
        without: without.to_vec(),
        objective,
        trees: TREES,
        seed,
    }
}

/// The surrogate of the whole ensemble that explains it: few and shallow trees, trained on the ensemble's predictions.
pub fn surrogate() -> MemberSpec {
    MemberSpec {
        trees: Trees {
            rounds: 100,
            depth: 5,
            eta: 0.2,
            subsample: 0.8,
            colsample: 0.8,
            min_child_weight: 2.0,
            lambda: 1.0,
            max_bin: 64,
        },
        ..member(Base::Work, VIEWS[0], Objective::Squared, 0)
    }
}

/// A single model over arithmetic and traffic with the parameters of the published baseline.
pub fn plain() -> MemberSpec {
    MemberSpec {
        trees: Trees {
            rounds: 400,
            depth: 8,
            eta: 0.08,
            subsample: 0.8,
            colsample: 0.8,
            min_child_weight: 2.0,
            lambda: 1.0,
            max_bin: 256,
        },
        ..member(Base::Work, VIEWS[0], Objective::Squared, 0)
    }
}

/// An estimate of a point's time, log2: of the point alone, or with fitted rates.
fn estimate(base: Base, rates: Option<&Rates>, point: &Point) -> f64 {
    match (base, rates) {
        (Base::Fitted | Base::Calibrated, Some(rates)) => rates.estimate(point),
        (_, rates) => point.bases.get(base, rates.and_then(Rates::units)),
    }
}

/// Points predicted at once on one core.
const CHUNK: usize = 4096;

/// A trained member.
#[derive(Debug)]
pub struct Member {
    /// The member's specification.
    pub spec: MemberSpec,
    /// Positions of the features that it sees.
    pub columns: Vec<usize>,
    /// The rates of its estimate, or the number of cores that it takes from them.
    pub rates: Option<Rates>,
    booster: Booster,
}

/// A member in a file.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    spec: MemberSpec,
    rates: Option<Rates>,
    /// UBJSON of XGBoost, in base64.
    #[serde(borrow)]
    trees: Cow<'a, str>,
}

impl Stored<'_> {
    fn member(self) -> std::result::Result<Member, String> {
        let trees = BASE64_STANDARD.decode(&*self.trees);
        let booster = Booster::from_bytes(&trees.map_err(|e| e.to_string())?);
        Ok(Member {
            columns: self.spec.columns(),
            rates: self.rates,
            booster: booster.map_err(|e| e.to_string())?,
            spec: self.spec,
        })
    }
}

impl Serialize for Member {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let trees = self.booster.to_bytes().map_err(S::Error::custom)?;
        let stored = Stored {
            spec: self.spec.clone(),
            rates: self.rates,
            trees: BASE64_STANDARD.encode(trees).into(),
        };
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Stored::deserialize(deserializer)?
            .member()
            .map_err(D::Error::custom)
    }
}

/// Members in a file: their trees are read in parallel.
pub(super) fn all<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<Member>, D::Error> {
    let stored = Vec::<Stored<'de>>::deserialize(deserializer)?;
    let members = stored.into_par_iter().map(Stored::member);
    members
        .collect::<std::result::Result<_, _>>()
        .map_err(D::Error::custom)
}

impl MemberSpec {
    /// Whether it predicts for machines outside the training data.
    pub fn is_foreign(&self) -> bool {
        self.without.contains(&Scope::Machine)
    }

    /// The scopes of built kernels that it uses: it cannot predict points without them.
    pub fn reads(&self) -> impl Iterator<Item = Scope> {
        let hidden = |scope: &Scope| self.without.contains(scope);
        let of_built = Scope::OF_BUILT.into_iter();
        of_built.filter(move |scope| !hidden(scope))
    }

    /// The same member with other trees.
    #[must_use]
    pub fn with(self, trees: Trees) -> Self {
        Self { trees, ..self }
    }

    /// Indices of the features that it uses.
    pub fn columns(&self) -> Vec<usize> {
        let hidden = positions_of(&self.without);
        (0..FEATURES.len())
            .filter(|c| !hidden.contains(c))
            .collect()
    }

    /// XGBoost's parameters for its trees.
    pub fn parameters(&self, seed: u64) -> Vec<(&'static str, String)> {
        let t = &self.trees;
        let mut parameters = match self.objective {
            Objective::Squared => vec![("objective", "reg:squarederror".to_owned())],
            Objective::Quantile(level) => vec![
                ("objective", "reg:quantileerror".to_owned()),
                ("quantile_alpha", level.to_string()),
            ],
        };
        parameters.extend([
            ("max_depth", t.depth.to_string()),
            ("eta", t.eta.to_string()),
            ("subsample", t.subsample.to_string()),
            ("colsample_bytree", t.colsample.to_string()),
            ("min_child_weight", t.min_child_weight.to_string()),
            ("reg_lambda", t.lambda.to_string()),
            ("max_bin", t.max_bin.to_string()),
            ("tree_method", "hist".to_owned()),
            ("seed", (seed + self.seed).to_string()),
            ("nthread", "1".to_owned()),
            ("verbosity", "0".to_owned()),
        ]);
        parameters
    }
}

impl Member {
    /// Trains a member on some samples.
    ///
    /// # Errors
    /// Fails if XGBoost's library is missing or fails.
    pub fn fit(spec: &MemberSpec, set: &TrainingSet<'_>, seed: u64) -> Result<Self> {
        let times: Vec<f64> = set.samples().map(|s| s.log2_time).collect();
        Self::taught(spec, set, &times, seed)
    }

    /// Trains a member on other times (log2 ns) than those measured; of very many samples on a part. The machine's
    /// state is ignored if few samples were measured under interference.
    ///
    /// # Errors
    /// Fails if XGBoost's library is missing or fails.
    pub fn taught(
        spec: &MemberSpec,
        set: &TrainingSet<'_>,
        times: &[f64],
        seed: u64,
    ) -> Result<Self> {
        let all: Vec<(&Sample, f64)> = set.samples().zip(times.iter().copied()).collect();
        let places = learned(all.len(), seed + spec.seed).into_iter();
        let samples: Vec<(&Sample, f64)> = places.map(|place| all[place]).collect();
        let mut spec = spec.clone();
        if !set.is_often_disturbed() && !spec.without.contains(&Scope::State) {
            spec.without.push(Scope::State);
        }
        let columns = spec.columns();
        let points: Vec<&Point> = samples.iter().map(|(s, _)| &s.point).collect();
        let values = select(&points, &columns);
        let rates = match spec.base {
            // The other estimates take only the number of cores from the rates.
            Base::Fitted | Base::Serial | Base::Steps => Some(*set.rates()),
            Base::Calibrated => Some(*set.rates_at_best()),
            Base::None | Base::Work => None,
        };
        // The estimate has each machine's speed, so trees learn only what machines share.
        let own = (spec.base == Base::Calibrated).then(|| set.rates_by_machine());
        let targets: Vec<f32> = samples
            .iter()
            .map(|(s, time)| {
                let rates = own.and_then(|own| own.get(&s.machine)).or(rates.as_ref());
                (time - estimate(spec.base, rates, &s.point)) as f32
            })
            .collect();
        let weights: Vec<f32> = samples.iter().map(|(s, _)| s.weight).collect();
        let labels = Labels {
            targets: &targets,
            weights: &weights,
            groups: &[],
        };
        let rows = Rows {
            values: &values,
            width: columns.len(),
        };
        let booster = Booster::train(&spec.parameters(seed), rows, labels, spec.trees.rounds)?;
        Ok(Self {
            spec,
            columns,
            rates,
            booster,
        })
    }

    /// The estimate that its trees correct, log2.
    pub fn estimate(&self, point: &Point) -> f64 {
        estimate(self.spec.base, self.rates.as_ref(), point)
    }

    /// Mean absolute SHAP value of every feature over some points; 0 for features that the member does not use.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn importance(&self, points: &[&Point]) -> Result<Vec<f64>> {
        let mut means = vec![0.0; FEATURES.len()];
        if points.is_empty() {
            return Ok(means);
        }
        let values = select(points, &self.columns);
        let width = self.columns.len();
        let own = self.booster.contributions(Rows {
            values: &values,
            width,
        })?;
        // The constant stands after the features of each point.
        for point in own.chunks_exact(width + 1) {
            for (&column, value) in self.columns.iter().zip(point) {
                means[column] += f64::from(value.abs()) / points.len() as f64;
            }
        }
        Ok(means)
    }

    /// SHAP values of one point, in the order of all features. Features that the member does not use have 0. The constant
    /// comes last.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn contributions(&self, point: &Point) -> Result<Vec<f64>> {
        let values = select(&[point], &self.columns);
        let rows = Rows {
            values: &values,
            width: self.columns.len(),
        };
        let own = self.booster.contributions(rows)?;
        let mut all = vec![0.0; FEATURES.len() + 1];
        for (&column, value) in self.columns.iter().zip(&own) {
            all[column] = f64::from(*value);
        }
        if let (Some(last), Some(constant)) = (all.last_mut(), own.last()) {
            *last = f64::from(*constant) + self.estimate(point);
        }
        Ok(all)
    }
}

impl Regressor for Member {
    fn predict(&self, points: &[&Point]) -> Result<Vec<f64>> {
        if points.len() > CHUNK {
            let parts: Vec<Vec<f64>> = points
                .par_chunks(CHUNK)
                .map(|chunk| self.predict(chunk))
                .collect::<Result<_>>()?;
            return Ok(parts.concat());
        }
        let value = |row: usize, feature: usize| points[row].features[self.columns[feature]];
        let corrections = self
            .booster
            .predict_from(points.len(), self.columns.len(), value)?;
        Ok(points
            .iter()
            .zip(corrections)
            .map(|(point, correction)| self.estimate(point) + f64::from(correction))
            .collect())
    }
}

/// Some features (ascending) of some points, row by row.
pub(super) fn select(points: &[&Point], columns: &[usize]) -> Vec<f32> {
    // Members see almost all features: a few runs of neighbours are copied at once.
    let runs: Vec<&[usize]> = columns.chunk_by(|a, b| a + 1 == *b).collect();
    let mut values = Vec::with_capacity(points.len() * columns.len());
    for point in points {
        for run in &runs {
            values.extend_from_slice(&point.features[run[0]..run[0] + run.len()]);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::points;

    #[test]
    fn features_are_selected_in_their_order() {
        let made = points(&[(1.0, 2.0), (3.0, 4.0)]);
        let all: Vec<&Point> = made.iter().collect();
        for columns in [&[0, 1, 4][..], &[1], &[0, 2, 3], &[]] {
            let one_by_one: Vec<f32> = all
                .iter()
                .flat_map(|point| columns.iter().map(|&c| point.features[c]))
                .collect();
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&select(&all, columns)), bits(&one_by_one));
        }
    }
}
