//! Adapts a model by a few measurements on the new machine.
//!
//! Cross-validation on the measurements finds the weight of each way to predict ([`Adaptation`]). The measurements are
//! no random sample of later queries: each is weighted by the number of points that it represents.

use oplearn::data::Dataset;
use oplearn::data::split::shuffled;
use oplearn::features::Point;
use oplearn::features::base::Base;
use oplearn::features::machine::MachineFacts;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::member::{Member, MemberSpec, Objective, Trees, VIEWS, member};
use oplearn::models::rates::Rates;
use oplearn::models::{FitOptions, Parallel, TrainingSet};
use rayon::prelude::*;

use super::choose::standing_for;
use super::{alike, stack};
use crate::error::Result;
use crate::model::Correction;
use crate::model::adaptation::{ALONE, Adaptation, Alike, Fresh, Old, SIMPLE, WAYS};

/// The weight of errors of a model of the measurements alone in the cross-validation. In the end it learns from all
/// measurements. It gains more by this than the corrections of the old model, which need few.
const ALONE_ERRS_LESS: f64 = 0.8;
/// Minimum number of measurements to fit trees or rates to.
const LEAST: usize = 8;
/// Number of folds of the measurements.
const FOLDS: usize = 10;
/// Seed of the parts and the trees.
const SEED: u64 = 1;

/// Trees for the residuals of a correction: few and shallow, for some tens of measurements.
const REST_TREES: Trees = Trees {
    rounds: 60,
    depth: 3,
    eta: 0.1,
    subsample: 0.8,
    colsample: 0.5,
    min_child_weight: 2.0,
    lambda: 3.0,
    max_bin: 64,
};

/// The ways to predict that are fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ways {
    /// Ways that need no more than a few measurements.
    Simple,
    /// All ways to predict.
    All,
}

/// A new machine's measured points, and the old model's predictions for them. Points are named by their index in this
/// list.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    /// The dataset with the points.
    pub dataset: &'a Dataset,
    /// Positions of the points in the dataset.
    pub samples: &'a [usize],
    /// The old model's predictions of them, log2 ns.
    pub old: &'a [f64],
    /// The machines that it was trained on; empty where it is asked without a machine.
    pub known: &'a [KnownMachine],
}

/// A machine that the old model was trained on.
#[derive(Debug, Clone)]
pub struct KnownMachine {
    /// The facts about it.
    pub facts: MachineFacts,
    /// The old model's predictions for the new machine's points as if this one ran them, log2 ns.
    pub predictions: Vec<f64>,
}

/// Some points and their kinds.
struct Asked<'a> {
    points: Vec<&'a Point>,
    kinds: Vec<&'a str>,
}

impl<'a> Machine<'a> {
    /// All points of the machine.
    pub fn points(&self) -> Vec<&'a Point> {
        let of = |&i: &usize| &self.dataset.samples[i].point;
        self.samples.iter().map(of).collect()
    }

    /// Measured times of all its points, log2 ns.
    pub fn measured(&self) -> Vec<f64> {
        let of = |&i: &usize| self.dataset.samples[i].log2_time;
        self.samples.iter().map(of).collect()
    }

    fn asked(&self, places: &[usize]) -> Asked<'a> {
        let samples = || {
            places
                .iter()
                .map(|&p| &self.dataset.samples[self.samples[p]])
        };
        Asked {
            points: samples().map(|s| &s.point).collect(),
            kinds: samples().map(|s| s.kind.as_str()).collect(),
        }
    }

    /// The old model's predictions for some of its points, as an adaptation takes them.
    pub fn old_of(&self, adaptation: &Adaptation, places: &[usize]) -> Old {
        let shares: Vec<f64> = adaptation.alike.iter().map(|alike| alike.share).collect();
        self.old_by(&shares, places)
    }

    /// The old model's predictions, with these weights of the known machines.
    fn old_by(&self, shares: &[f64], places: &[usize]) -> Old {
        let of = |all: &[f64]| places.iter().map(|&p| all[p]).collect();
        let known = self.known.iter().zip(shares);
        let known: Vec<_> = known
            .map(|(known, share)| (*share, of(&known.predictions)))
            .collect();
        Old::new(of(self.old), &known)
    }

    /// The adaptation by some of its points; without any, the old model counts alone.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn adapt(&self, chosen: &[usize]) -> Result<Adaptation> {
        let ways = if chosen.len() < LEAST {
            Ways::Simple
        } else {
            Ways::All
        };
        let mut adaptation = self.fitted(chosen, (ways, Parallel::Members))?;
        let folds = FOLDS.min(chosen.len());
        let order = shuffled(chosen.len(), SEED);
        let held: Vec<(Vec<usize>, Vec<[f64; WAYS]>)> = (0..folds)
            .into_par_iter()
            .map(|fold| {
                let (test, train): (Vec<usize>, Vec<usize>) =
                    (0..chosen.len()).partition(|&number| order[number] % folds == fold);
                let places = |numbers: &[usize]| numbers.iter().map(|&n| chosen[n]).collect();
                let (own, others): (Vec<usize>, Vec<usize>) = (places(&test), places(&train));
                let fitted = self.fitted(&others, (ways, Parallel::Not))?;
                let asked = self.asked(&own);
                let old = self.old_of(&fitted, &own);
                Ok((test, fitted.ways(&asked.points, &asked.kinds, &old)?))
            })
            .collect::<Result<_>>()?;
        let (numbers, ways_of): (Vec<Vec<usize>>, Vec<Vec<[f64; WAYS]>>) = held.into_iter().unzip();
        let (numbers, mut ways_of) = (numbers.concat(), ways_of.concat());
        let stands = standing_for(&self.points(), chosen);
        let counts: Vec<f64> = numbers.iter().map(|&n| stands[n]).collect();
        let all = self.measured();
        let measured: Vec<f64> = numbers.iter().map(|&n| all[chosen[n]]).collect();
        for (own, time) in ways_of.iter_mut().zip(&measured) {
            own[ALONE] = time + ALONE_ERRS_LESS * (own[ALONE] - time);
        }
        adaptation.shares = match ways {
            Ways::All => stack::weights(&ways_of, &measured, &counts, Some(ALONE)),
            Ways::Simple => {
                let known: Vec<[f64; SIMPLE]> =
                    ways_of.iter().map(|w| [w[0], w[1], w[2]]).collect();
                let [old, factor, corrected] = stack::weights(&known, &measured, &counts, None);
                [old, factor, corrected, 0.0, 0.0, 0.0]
            }
        };
        Ok(adaptation)
    }

    /// Everything but the shares.
    fn fitted(&self, chosen: &[usize], (ways, parallel): (Ways, Parallel)) -> Result<Adaptation> {
        let asked = self.asked(chosen);
        let indices: Vec<usize> = chosen.iter().map(|&p| self.samples[p]).collect();
        let measured = || indices.iter().map(|&i| self.dataset.samples[i].log2_time);
        let off = |of: &KnownMachine| {
            measured()
                .zip(chosen)
                .map(|(m, &p)| m - of.predictions[p])
                .collect()
        };
        let shares = alike::shares(&self.known.iter().map(off).collect::<Vec<_>>());
        let old = self.old_by(&shares, chosen).alike;
        let errors: Vec<f64> = measured().zip(&old).map(|(m, old)| m - old).collect();
        let correction = Correction::fit(&asked.points, &asked.kinds, &errors);
        let rest: Vec<f64> = (0..errors.len())
            .map(|i| errors[i] - correction.of(asked.points[i], asked.kinds[i]))
            .collect();
        let fresh = if ways == Ways::Simple {
            None
        } else {
            let rates = |times: &mut dyn Iterator<Item = f64>| {
                let timed = asked.points.iter().zip(times).map(|(p, t)| (*p, t, 1.0));
                Rates::fit_times(&timed.collect::<Vec<_>>())
            };
            let options = FitOptions {
                parallel,
                ..FitOptions::default()
            };
            let set = TrainingSet::new(self.dataset, &indices);
            let trained = |(seed, view): (u64, &&[_])| {
                let spec = MemberSpec {
                    trees: REST_TREES,
                    ..member(Base::None, view, Objective::Squared, seed)
                };
                Member::taught(&spec, &set, &rest, SEED)
            };
            Some(Fresh {
                rest: (0..).zip(&VIEWS).map(trained).collect::<Result<_, _>>()?,
                rates: [rates(&mut old.iter().copied()), rates(&mut measured())],
                alone: Ensemble::fit(self.dataset, &indices, &options)?,
            })
        };
        let alike = |(known, share): (&KnownMachine, f64)| Alike {
            machine: known.facts.clone(),
            share,
        };
        Ok(Adaptation {
            alike: self.known.iter().zip(shares).map(alike).collect(),
            factor: Correction::one_factor(&errors),
            correction,
            extent: extent(&errors),
            fresh,
            shares: [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        })
    }
}

/// Smallest and largest ratio, log2; zeros if there are none.
fn extent(ratios: &[f64]) -> [f64; 2] {
    let least = ratios.iter().copied().reduce(f64::min);
    let greatest = ratios.iter().copied().reduce(f64::max);
    [least.unwrap_or(0.0), greatest.unwrap_or(0.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::crossval::metrics::Metrics;
    use oplearn::data::{Machines, RowSet};
    use oplearn::testing::dense_row;

    /// Dense layers that take 1 ns for 50 flop.
    fn dataset() -> Dataset {
        let knobs = r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#;
        let rows = (0..60).map(|number| {
            let (columns, depth) = (64 << (number % 6), 32 << (number / 6 % 10));
            let mut row = dense_row(1, columns, depth, knobs);
            row.point_id = number.to_string();
            row.workload_hash = Some(number.to_string());
            row.time_median_ns = row.flops.map(|flops| flops as f64 / 50.0);
            row
        });
        let set = RowSet::from(rows.collect::<Vec<_>>());
        Dataset::new(&set, &Machines::Single).unwrap()
    }

    /// The adaptation of an old model to a machine where its predictions are wrong by `off` (log2), and the remaining error in
    /// percent.
    fn adapted(chosen: usize, off: impl Fn(usize) -> f64) -> (Adaptation, f64) {
        let dataset = dataset();
        let old: Vec<f64> = (0..60)
            .map(|i| dataset.samples[i].log2_time + off(i))
            .collect();
        let all = dataset.all();
        let machine = Machine {
            dataset: &dataset,
            samples: &all,
            old: &old,
            known: &[],
        };
        let chosen: Vec<usize> = shuffled(60, 3).into_iter().take(chosen).collect();
        let adaptation = machine.adapt(&chosen).unwrap();
        let kinds = vec!["dense"; 60];
        let old = machine.old_of(&adaptation, &all);
        let times = adaptation.carried(&machine.points(), &kinds, &old).unwrap();
        (adaptation, Metrics::of(&machine.measured(), &times).mape)
    }

    #[test]
    fn a_model_that_is_right_stays_and_one_without_measurements_is_not_touched() {
        let (_, error) = adapted(20, |_| 0.0);
        assert!(error < 3.0, "{error}");
        let (untouched, error) = adapted(0, |_| 1.0);
        assert_eq!(untouched.shares, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!((error - 100.0).abs() < 1e-6);
    }

    #[test]
    fn a_factor_takes_few_measurements() {
        let (few, error) = adapted(4, |_| 1.0);
        assert!(few.fresh.is_none() && few.own_share() == 0.0);
        assert!(error < 10.0, "{error}");
    }

    #[test]
    fn corrections_stay_within_the_ratios_that_were_measured() {
        // The larger the layer the further off, so that a line through twelve of them goes on beyond the last.
        let off = |i: usize| i as f64 / 10.0;
        let (adaptation, _) = adapted(12, off);
        let dataset = dataset();
        let points: Vec<&Point> = dataset.samples.iter().map(|s| &s.point).collect();
        let measured = |i: usize| dataset.samples[i].log2_time;
        let old: Vec<f64> = (0..60).map(|i| measured(i) + off(i)).collect();
        let both = Old {
            as_is: old.clone(),
            alike: old.clone(),
        };
        let ways = adaptation.ways(&points, &["dense"; 60], &both).unwrap();
        let [least, greatest] = adaptation.extent;
        assert!(-5.9 <= least && least < greatest && greatest <= 0.0);
        let ratios = ways
            .iter()
            .zip(&old)
            .flat_map(|(own, old)| own[1..ALONE].iter().map(move |way| way - old));
        let within = (least - 1e-9)..=(greatest + 1e-9);
        assert!(ratios.into_iter().all(|ratio| within.contains(&ratio)));
    }

    #[test]
    fn a_model_of_several_machines_is_asked_as_the_one_alike() {
        let dataset = dataset();
        let all = dataset.all();
        // The machines agree on nothing but the shapes: one is half as fast as the new one throughout.
        let order = shuffled(60, 9);
        let predictions = |off: &dyn Fn(usize) -> f64| -> Vec<f64> {
            (0..60)
                .map(|i| dataset.samples[i].log2_time + off(i))
                .collect()
        };
        let other = predictions(&|i| f64::from((order[i] % 5) as u32) - 2.0);
        let known = [("other", other.clone()), ("alike", predictions(&|_| 1.0))].map(
            |(name, predictions)| KnownMachine {
                facts: MachineFacts::named(name),
                predictions,
            },
        );
        let machine = Machine {
            dataset: &dataset,
            samples: &all,
            old: &other,
            known: &known,
        };
        let adaptation = machine.adapt(&order[..10]).unwrap();
        let shares: Vec<f64> = adaptation.alike.iter().map(|alike| alike.share).collect();
        assert_eq!(shares, [0.0, 1.0]);
        let old = machine.old_of(&adaptation, &all);
        let times = adaptation
            .carried(&machine.points(), &["dense"; 60], &old)
            .unwrap();
        let error = Metrics::of(&machine.measured(), &times).mape;
        assert!(error < 5.0, "{error}: {:?}", adaptation.shares);
    }

    #[test]
    fn a_model_of_the_measurements_counts_where_the_old_one_is_useless() {
        // Off by a power of two up or down, without any pattern that a correction could see.
        let order = shuffled(60, 9);
        let (wrong, error) = adapted(40, |i| {
            if order[i].is_multiple_of(2) {
                2.0
            } else {
                -2.0
            }
        });
        assert!(wrong.own_share() >= 0.5, "{:?}", wrong.shares);
        assert!(error < 30.0, "{error}");
    }
}
