//! Chooses the members of an ensemble and their weights by cross-validation inside the samples to learn from.
//!
//! Two kinds of queries, two cross-validations: whole workloads are held out to see what carries over to others, and random
//! samples to see what knows other schedules of the same workload. Each gives the weights of its kind of query; members
//! that count in neither are left out. Large datasets are judged on a part of them, so that choosing costs less than
//! training does.

use rayon::prelude::*;

use super::folds::OutOfFold;
use super::weights::Predictions;
use crate::data::Dataset;
use crate::data::split::{Fold, shuffled};
use crate::error::Result;
use crate::features::Point;
use crate::models::member::{Member, MemberSpec};
use crate::models::{Choice, FitOptions, Regressor, pool};

/// Parts that workloads are held out in.
const WORKLOAD_PARTS: usize = 5;
/// Parts that samples are held out in.
const SAMPLE_PARTS: usize = 4;
/// Samples that members are judged on at most.
const JUDGED: usize = 3000;
/// With fewer samples or workloads, chance would choose.
const LEAST_SAMPLES: usize = 60;
/// See [`LEAST_SAMPLES`].
const LEAST_WORKLOADS: usize = 6;
/// Members whose deeper forms are judged, too.
const DEEPER: usize = 2;
/// Choices that are made for the folds of an evaluation at most: folds share one that was made without any of them.
const CHOICES: usize = 5;

/// A choice, and what the members chosen for known workloads predicted of samples held out.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The members and their weights.
    pub choice: Choice,
    /// Predictions of known workloads; missing if there was too little to choose by.
    pub known: Option<OutOfFold>,
}

/// Chooses members for some samples.
///
/// # Errors
/// XGBoost's library is missing or fails.
pub fn choose(dataset: &Dataset, indices: &[usize], options: &FitOptions) -> Result<Chosen> {
    let judged = thinned(dataset, indices, options.seed);
    let mut workloads: Vec<usize> = judged
        .iter()
        .map(|&i| dataset.samples[i].workload)
        .collect();
    workloads.sort_unstable();
    workloads.dedup();
    if judged.len() < LEAST_SAMPLES || workloads.len() < LEAST_WORKLOADS {
        return Ok(Chosen {
            choice: Choice::default(),
            known: None,
        });
    }
    let mut part = vec![0; dataset.workloads.len()];
    for (place, &number) in shuffled(workloads.len(), options.seed).iter().enumerate() {
        part[workloads[number]] = place % WORKLOAD_PARTS;
    }
    let by_workload: Vec<usize> = judged
        .iter()
        .map(|&i| part[dataset.samples[i].workload])
        .collect();
    let mut by_sample = vec![0; judged.len()];
    for (place, number) in shuffled(judged.len(), options.seed).into_iter().enumerate() {
        by_sample[number] = place % SAMPLE_PARTS;
    }
    let judge = Judge {
        dataset,
        judged: &judged,
        seed: options.seed,
    };
    let mut unseen = pool::shallow();
    let mut predictions = judge.predictions(&unseen, &by_workload)?;
    let deeper = deeper(&unseen, &predictions.mixture());
    predictions
        .members
        .extend(judge.predictions(&deeper, &by_workload)?.members);
    unseen.extend(deeper);
    let unseen_weights = predictions.mixture();
    let known = pool::familiar();
    let known_predictions = judge.predictions(&known, &by_sample)?;
    let known_weights = known_predictions.mixture();
    let (predicted, disagreement) = known_predictions.mixed(&known_weights);
    Ok(Chosen {
        choice: merged((unseen, unseen_weights), (known, known_weights)),
        known: Some(OutOfFold {
            index: judged,
            fold: by_sample,
            predicted,
            disagreement,
            scores: None,
        }),
    })
}

/// The deeper forms of the members that count most.
fn deeper(members: &[MemberSpec], weights: &[f64]) -> Vec<MemberSpec> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let best = order.into_iter().take(DEEPER);
    best.map(|m| pool::deep(&members[m])).collect()
}

/// One list of the members that count in either, with both weights.
fn merged(unseen: (Vec<MemberSpec>, Vec<f64>), known: (Vec<MemberSpec>, Vec<f64>)) -> Choice {
    let mut choice = Choice {
        members: Vec::new(),
        unseen: Vec::new(),
        known: Vec::new(),
    };
    let counting = |(members, weights): (Vec<MemberSpec>, Vec<f64>)| {
        let pairs = members.into_iter().zip(weights);
        pairs.filter(|(_, weight)| *weight > 0.0)
    };
    for (member, weight) in counting(unseen) {
        choice.members.push(member);
        choice.unseen.push(weight);
        choice.known.push(0.0);
    }
    for (member, weight) in counting(known) {
        let same = |m: &MemberSpec| {
            let seed = m.seed;
            *m == MemberSpec {
                seed,
                ..member.clone()
            }
        };
        match choice.members.iter().position(same) {
            Some(place) => choice.known[place] += weight,
            None => {
                choice.members.push(member);
                choice.unseen.push(0.0);
                choice.known.push(weight);
            }
        }
    }
    choice
}

/// Samples to judge on: all, or a random part of each workload.
fn thinned(dataset: &Dataset, indices: &[usize], seed: u64) -> Vec<usize> {
    if indices.len() <= JUDGED {
        return indices.to_vec();
    }
    let mut order: Vec<usize> = shuffled(indices.len(), seed)
        .into_iter()
        .map(|place| indices[place])
        .collect();
    // Stable, so that samples of a workload stay in random order, and every step takes some of it.
    order.sort_by_key(|&i| dataset.samples[i].workload);
    let step = order.len() as f64 / JUDGED as f64;
    (0..JUDGED)
        .map(|n| order[(n as f64 * step) as usize])
        .collect()
}

/// What members are judged on.
struct Judge<'a> {
    dataset: &'a Dataset,
    judged: &'a [usize],
    seed: u64,
}

impl Judge<'_> {
    /// Out-of-fold predictions of all members, one member and part a task.
    fn predictions(&self, members: &[MemberSpec], parts: &[usize]) -> Result<Predictions> {
        let count = parts.iter().max().map_or(0, |last| last + 1);
        let side = |part: usize, held: bool| -> (Vec<usize>, Vec<usize>) {
            let places = (0..parts.len()).filter(|&p| (parts[p] == part) == held);
            places.map(|p| (p, self.judged[p])).unzip()
        };
        let tasks: Vec<(usize, usize)> = (0..members.len())
            .flat_map(|member| (0..count).map(move |part| (member, part)))
            .collect();
        let results: Vec<(usize, Vec<usize>, Vec<f64>)> = tasks
            .into_par_iter()
            .map(|(number, part)| {
                let (_, train) = side(part, false);
                let (places, test) = side(part, true);
                let member = Member::fit(&members[number], self.dataset, &train, self.seed)?;
                let points: Vec<&Point> = test
                    .iter()
                    .map(|&i| &self.dataset.samples[i].point)
                    .collect();
                Ok((number, places, member.predict(&points)?))
            })
            .collect::<Result<_>>()?;
        let mut by_member = vec![vec![0.0; parts.len()]; members.len()];
        for (member, places, times) in results {
            for (place, time) in places.into_iter().zip(times) {
                by_member[member][place] = time;
            }
        }
        Ok(Predictions {
            members: by_member,
            measured: self
                .judged
                .iter()
                .map(|&i| self.dataset.samples[i].log2_time)
                .collect(),
            weights: self.weights(),
        })
    }

    /// A workload counts by the root of its samples: between every sample alike and every workload alike.
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
/// without the test samples of all of them, so that leaving hundreds of workloads out does not choose hundreds of times.
///
/// # Errors
/// XGBoost's library is missing or fails.
pub fn choose_for_folds(
    dataset: &Dataset,
    folds: &[Fold],
    options: &FitOptions,
) -> Result<Vec<Choice>> {
    let groups = CHOICES.min(folds.len()).max(1);
    let group_of: Vec<usize> = {
        let mut groups_of = vec![0; folds.len()];
        for (place, fold) in shuffled(folds.len(), options.seed).into_iter().enumerate() {
            groups_of[fold] = place % groups;
        }
        groups_of
    };
    let choices: Vec<Choice> = (0..groups)
        .map(|group| {
            // Those that all folds of the group learn from.
            let own = || (0..folds.len()).filter(|&f| group_of[f] == group);
            let mut learned = vec![0; dataset.samples.len()];
            for fold in own() {
                folds[fold].train.iter().for_each(|&i| learned[i] += 1);
            }
            let all = own().count();
            let common: Vec<usize> = (0..learned.len()).filter(|&i| learned[i] == all).collect();
            Ok(choose(dataset, &common, options)?.choice)
        })
        .collect::<Result<_>>()?;
    Ok(group_of.into_iter().map(|g| choices[g].clone()).collect())
}
