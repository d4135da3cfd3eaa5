//! Chooses the members of an ensemble and their weights by cross-validation inside the training samples.
//!
//! Two kinds of queries, two cross-validations. Whole workloads are held out to see what carries over to others, random
//! samples to see what predicts other schedules of the same workload. Each gives the weights of its kind of query;
//! members that count in neither are left out. Large datasets are judged on a part of them, so that choosing costs less
//! than training does.

use std::collections::HashMap;

use rayon::prelude::*;

use super::folds::{OutOfFold, familiarities};
use super::weights::Predictions;
use crate::data::Dataset;
use crate::data::split::{Fold, shuffled};
use crate::error::Result;
use crate::features::{Point, Scope};
use crate::models::member::{Member, MemberSpec};
use crate::models::pool::{self, Pool};
use crate::models::{Familiarity, FitOptions, Regressor, TrainingSet, WeightedMembers};
use crate::watch::Watch;

/// Folds of workloads.
const WORKLOAD_PARTS: usize = 4;
/// Folds of samples.
const SAMPLE_PARTS: usize = 4;
/// Maximum number of samples that members are judged on.
const JUDGED: usize = 3000;
/// With fewer samples or workloads, the choice would be random.
const LEAST_SAMPLES: usize = 60;
/// See [`LEAST_SAMPLES`].
const LEAST_WORKLOADS: usize = 6;
/// Minimum number of machines to choose members for other machines by.
const LEAST_MACHINES: usize = 3;
/// Maximum number of choices for the folds of an evaluation. Folds share a choice that was made without any of them.
const CHOICES: usize = 4;

/// A choice, and the predictions of the members chosen for known workloads on held-out samples.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The members and their weights.
    pub choice: WeightedMembers,
    /// Predictions for known workloads; missing if there were too few samples to choose by.
    pub known: Option<OutOfFold>,
}

/// Chooses members for some samples, for the kinds of queries that there will be.
///
/// # Errors
/// Fails if XGBoost's library is missing or fails.
pub fn choose(
    dataset: &Dataset,
    indices: &[usize],
    kinds: &[Familiarity],
    options: &FitOptions,
    watch: &dyn Watch,
) -> Result<Chosen> {
    let judged = thinned(dataset, indices, options.seed);
    let mut workloads: Vec<usize> = judged
        .iter()
        .map(|&i| dataset.samples[i].workload)
        .collect();
    workloads.sort_unstable();
    workloads.dedup();
    let mut chosen = Chosen {
        choice: WeightedMembers::default(),
        known: None,
    };
    if judged.len() < LEAST_SAMPLES || workloads.len() < LEAST_WORKLOADS {
        return Ok(chosen);
    }
    let judge = Judge {
        dataset,
        judged: &judged,
        seed: options.seed,
        watch,
    };
    let (mut unseen, mut known) = (Mixture::default(), Mixture::default());
    if kinds.contains(&Familiarity::Unseen) {
        unseen = judge.for_unseen(&workloads)?;
        if judge.known().contains(&Scope::Code) {
            unseen.add_alike(pool::of_code());
        }
    }
    if kinds.contains(&Familiarity::Known) {
        let predictions;
        (known, predictions) = judge.for_known()?;
        chosen.known = Some(predictions);
    }
    chosen.choice = merged(unseen, known);
    if machines_with_rates(dataset, indices) >= LEAST_MACHINES {
        for member in pool::foreign() {
            chosen.choice.members.push(member);
            chosen.choice.unseen.push(0.0);
            chosen.choice.known.push(0.0);
        }
    }
    Ok(chosen)
}

/// Machines of some samples whose rates are known.
fn machines_with_rates(dataset: &Dataset, indices: &[usize]) -> usize {
    let mut has_samples = vec![false; dataset.machines.len()];
    for &i in indices {
        has_samples[dataset.samples[i].machine] = true;
    }
    let machines = dataset.machines.iter().zip(has_samples);
    machines
        .filter(|(facts, has)| *has && !facts.rates.is_empty())
        .count()
}

/// Members and how much each counts for one kind of query.
#[derive(Default)]
struct Mixture {
    members: Vec<MemberSpec>,
    weights: Vec<f64>,
}

impl Mixture {
    /// Adds members that predict points of their own, and count alike there.
    fn add_alike(&mut self, members: Vec<MemberSpec>) {
        let count = members.len();
        self.weights.extend(vec![1.0 / count as f64; count]);
        self.members.extend(members);
    }

    /// The members that count.
    fn counting(self) -> impl Iterator<Item = (MemberSpec, f64)> {
        let pairs = self.members.into_iter().zip(self.weights);
        pairs.filter(|(_, weight)| *weight > 0.0)
    }
}

/// One list of the members that count in either, with both weights. Without one of them, its queries go by the other.
fn merged(unseen: Mixture, known: Mixture) -> WeightedMembers {
    let mut choice = WeightedMembers {
        members: Vec::new(),
        unseen: Vec::new(),
        known: Vec::new(),
    };
    for (member, weight) in unseen.counting() {
        choice.members.push(member);
        choice.unseen.push(weight);
        choice.known.push(0.0);
    }
    for (member, weight) in known.counting() {
        if let Some(place) = choice.members.iter().position(|m| m.is_like(&member)) {
            choice.known[place] += weight;
        } else {
            choice.members.push(member);
            choice.unseen.push(0.0);
            choice.known.push(weight);
        }
    }
    let nothing = |weights: &[f64]| weights.iter().all(|w| *w == 0.0);
    if nothing(&choice.known) {
        choice.known.clone_from(&choice.unseen);
    } else if nothing(&choice.unseen) {
        choice.unseen.clone_from(&choice.known);
    }
    choice
}

/// Samples to judge by: all, or a random part of each workload.
fn thinned(dataset: &Dataset, indices: &[usize], seed: u64) -> Vec<usize> {
    if indices.len() <= JUDGED {
        return indices.to_vec();
    }
    let mut order: Vec<usize> = shuffled(indices.len(), seed)
        .into_iter()
        .map(|place| indices[place])
        .collect();
    // The sort is stable: samples of a workload stay in random order, and every step takes some of them.
    order.sort_by_key(|&i| dataset.samples[i].workload);
    let step = order.len() as f64 / JUDGED as f64;
    (0..JUDGED)
        .map(|n| order[(n as f64 * step) as usize])
        .collect()
}

/// Data that members are judged on.
struct Judge<'a> {
    dataset: &'a Dataset,
    judged: &'a [usize],
    seed: u64,
    watch: &'a dyn Watch,
}

impl Judge<'_> {
    /// Members for workloads that were not seen: whole workloads are held out.
    fn for_unseen(&self, workloads: &[usize]) -> Result<Mixture> {
        let mut part = vec![0; self.dataset.workloads.len()];
        for (place, number) in shuffled(workloads.len(), self.seed).into_iter().enumerate() {
            part[workloads[number]] = place % WORKLOAD_PARTS;
        }
        let workload = |&i: &usize| self.dataset.samples[i].workload;
        let parts: Vec<usize> = self.judged.iter().map(|i| part[workload(i)]).collect();
        let pool = pool::unseen(&self.known());
        Ok(Mixture {
            weights: self.predictions(&pool, &parts)?.mixture(),
            members: pool.members,
        })
    }

    /// Members for workloads with other measured schedules, chosen on random held-out samples; and their predictions of
    /// these.
    fn for_known(&self) -> Result<(Mixture, OutOfFold)> {
        let mut parts = vec![0; self.judged.len()];
        for (place, number) in shuffled(parts.len(), self.seed).into_iter().enumerate() {
            parts[number] = place % SAMPLE_PARTS;
        }
        let pool = pool::known(&self.known());
        let predictions = self.predictions(&pool, &parts)?;
        let weights = predictions.mixture();
        let (predicted, disagreement) = predictions.mixed(&weights);
        let predictions = OutOfFold {
            index: self.judged.to_vec(),
            fold: parts,
            predicted,
            disagreement,
            scores: None,
            of_models: HashMap::new(),
        };
        let members = pool.members;
        Ok((Mixture { members, weights }, predictions))
    }

    /// The feature scopes that enough samples have for members to use them.
    fn known(&self) -> Vec<Scope> {
        let having = |scope: Scope| {
            let samples = self.judged.iter().map(|&i| &self.dataset.samples[i]);
            samples.filter(|s| s.point.known.contains(&scope)).count()
        };
        let enough = |scope: &Scope| having(*scope) >= LEAST_SAMPLES;
        Scope::OF_BUILT.into_iter().filter(enough).collect()
    }

    /// Out-of-fold predictions of all members, one member and part a task.
    fn predictions(&self, pool: &Pool, parts: &[usize]) -> Result<Predictions> {
        let members = &pool.members;
        let count = parts.iter().max().map_or(0, |last| last + 1);
        let side = |part: usize, test: bool| -> (Vec<usize>, Vec<usize>) {
            let places = (0..parts.len()).filter(|&p| (parts[p] == part) == test);
            places.map(|p| (p, self.judged[p])).unzip()
        };
        let learned: Vec<Vec<usize>> = (0..count).map(|part| side(part, false).1).collect();
        let of_dataset = |indices| TrainingSet::new(self.dataset, indices);
        let sets: Vec<TrainingSet<'_>> = learned.iter().map(|own| of_dataset(own)).collect();
        let tasks: Vec<(usize, usize)> = (0..members.len())
            .flat_map(|member| (0..count).map(move |part| (member, part)))
            .collect();
        self.watch.begin("choose members", tasks.len());
        let results: Vec<(usize, Vec<usize>, Vec<f64>)> = tasks
            .into_par_iter()
            .map(|(number, part)| {
                let (places, test) = side(part, true);
                let member = Member::fit(&members[number], &sets[part], self.seed)?;
                let points: Vec<&Point> = test
                    .iter()
                    .map(|&i| &self.dataset.samples[i].point)
                    .collect();
                let predicted = member.predict(&points)?;
                self.watch.step();
                Ok((number, places, predicted))
            })
            .collect::<Result<_>>()?;
        let mut by_member = vec![vec![0.0; parts.len()]; members.len()];
        for (member, places, times) in results {
            for (place, time) in places.into_iter().zip(times) {
                by_member[member][place] = time;
            }
        }
        self.leave_out_readers(pool, &mut by_member);
        Ok(Predictions {
            members: by_member,
            measured: self
                .judged
                .iter()
                .map(|&i| self.dataset.samples[i].log2_time)
                .collect(),
            weights: self.weights(),
            fold: parts.to_vec(),
            defaults: pool.defaults,
        })
    }

    /// Members that see code or counts predict nothing for samples without them
    /// ([`Ensemble`](crate::models::ensemble::Ensemble)). The mean of the default members stands in there.
    fn leave_out_readers(&self, pool: &Pool, by_member: &mut [Vec<f64>]) {
        let (defaults, others) = by_member.split_at_mut(pool.defaults);
        let readers = others.iter_mut().zip(&pool.members[pool.defaults..]);
        for (own, spec) in readers {
            for (place, &i) in self.judged.iter().enumerate() {
                if !self.dataset.samples[i].point.knows(spec.reads()) {
                    let sum: f64 = defaults.iter().map(|one| one[place]).sum();
                    own[place] = sum / defaults.len() as f64;
                }
            }
        }
    }

    /// A workload counts by the root of its samples: between equal weights for samples and equal weights for workloads.
    fn weights(&self) -> Vec<f64> {
        let mut sizes = vec![0.0f64; self.dataset.workloads.len()];
        let workload = |&i: &usize| self.dataset.samples[i].workload;
        for index in self.judged {
            sizes[workload(index)] += 1.0;
        }
        let of = self.judged.iter();
        of.map(|i| 1.0 / sizes[workload(i)].sqrt()).collect()
    }
}

/// A choice for each fold of an evaluation, made without its test samples. Folds share a choice, which is then made
/// without the test samples of all of them. Otherwise leaving hundreds of workloads out would need hundreds of choices.
///
/// # Errors
/// Fails if XGBoost's library is missing or fails.
pub fn choose_for_folds(
    dataset: &Dataset,
    folds: &[Fold],
    options: &FitOptions,
) -> Result<Vec<WeightedMembers>> {
    let groups = CHOICES.min(folds.len()).max(1);
    let group_of: Vec<usize> = {
        let mut groups_of = vec![0; folds.len()];
        for (place, fold) in shuffled(folds.len(), options.seed).into_iter().enumerate() {
            groups_of[fold] = place % groups;
        }
        groups_of
    };
    let mut kinds: Vec<Familiarity> = folds
        .iter()
        .flat_map(|fold| familiarities(dataset, fold))
        .collect();
    kinds.dedup();
    let choices: Vec<WeightedMembers> = (0..groups)
        .map(|group| {
            // The training samples that all folds of the group share.
            let own = || (0..folds.len()).filter(|&f| group_of[f] == group);
            let mut learned = vec![0; dataset.samples.len()];
            for fold in own() {
                folds[fold].train.iter().for_each(|&i| learned[i] += 1);
            }
            let all = own().count();
            let common: Vec<usize> = (0..learned.len()).filter(|&i| learned[i] == all).collect();
            Ok(choose(dataset, &common, &kinds, options, &())?.choice)
        })
        .collect::<Result<_>>()?;
    Ok(group_of.into_iter().map(|g| choices[g].clone()).collect())
}
