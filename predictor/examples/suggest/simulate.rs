//! Compares the choice with chance: a dataset grows by either, on points whose times are known.
//!
//! A quarter of the samples is held out. Both methods begin with the same few measured samples of the rest and choose
//! further ones in rounds, each with the same time to spend. After each round a model is trained on all samples
//! measured by then and judged on those held out.

use oplearn::crossval::metrics::{Metrics, Pairs, RANKED_SAMPLES};
use oplearn::data::Dataset;
use oplearn::data::split::shuffled;
use oplearn::features::Point;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::{FitOptions, Parallel, Regressor};
use oppredict::Result;
use oppredict::suggest::choose::{Limits, Pool, choose};
use oppredict::suggest::cost::{Cost, CostModel};
use rayon::prelude::*;
use serde::Serialize;

/// Share of the samples that are held out to judge by.
const TEST_SHARE: f64 = 0.25;

/// How points are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The algorithm of `oppredict suggest` chooses.
    Suggest,
    /// Points are chosen at random.
    Random,
}

/// Settings of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setup {
    /// Maximum number of samples.
    pub samples: usize,
    /// Samples measured before the first choice.
    pub first: usize,
    /// Time of a round, in samples of average cost.
    pub round: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Decides which samples are held out and which are measured first.
    pub seed: u64,
}

/// The state after a round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SuggestRound {
    /// Samples measured.
    pub measurements: usize,
    /// Time spent on them since the beginning, s.
    pub cost_s: f64,
    /// Mean absolute percentage error on the samples held out.
    pub mape: f64,
    /// Median absolute percentage error on these samples.
    pub median_ape: f64,
    /// Pairs of schedules in the right order, percent; missing where workloads have too few samples.
    pub pairwise: Option<f64>,
}

/// Grows a dataset by a rule; gives a step for the beginning and one for each round.
///
/// # Errors
/// Fails if the dataset is too small for the setup, or XGBoost's library fails.
pub fn simulate(
    dataset: &Dataset,
    costs: &CostModel,
    rule: Rule,
    setup: Setup,
) -> Result<Vec<SuggestRound>> {
    let order: Vec<usize> = shuffled(dataset.samples.len(), setup.seed)
        .into_iter()
        .take(setup.samples)
        .collect();
    let test = (order.len() as f64 * TEST_SHARE) as usize;
    dataset.require(setup.first + setup.round + test, "the simulation")?;
    let (test, rest) = order.split_at(test);
    let cost = |i: usize, log2_ns: f64| costs.of(&dataset.samples[i].kind, log2_ns.exp2(), None);
    let paid_ns = |i: usize| whole(cost(i, dataset.samples[i].log2_time));
    let average_ns = rest.iter().map(|&i| paid_ns(i)).sum::<f64>() / rest.len().max(1) as f64;
    let mut measured = rest[..setup.first].to_vec();
    let mut open = rest[setup.first..].to_vec();
    let mut steps = Vec::new();
    let mut spent_ns = 0.0;
    for round in 0..=setup.rounds {
        let fit = FitOptions {
            parallel: Parallel::Not,
            ..FitOptions::default()
        };
        let ensemble = Ensemble::fit(dataset, &measured, &fit)?;
        steps.push(judge(dataset, &ensemble, test, measured.len(), spent_ns)?);
        if round == setup.rounds || open.is_empty() {
            break;
        }
        let budget_ns = setup.round as f64 * average_ns;
        let wanted = match rule {
            // The open samples are in random order already.
            Rule::Random => open.clone(),
            Rule::Suggest => {
                let points: Vec<&Point> = open.iter().map(|&i| &dataset.samples[i].point).collect();
                let predicted = ensemble.predict(&points)?;
                let pool = Pool {
                    costs: open
                        .iter()
                        .zip(&predicted)
                        .map(|(&i, t)| cost(i, *t))
                        .collect(),
                    kernels: (0..open.len()).collect(),
                    weights: vec![1.0; open.len()],
                    points,
                };
                let known: Vec<&Point> = measured
                    .iter()
                    .map(|&i| &dataset.samples[i].point)
                    .collect();
                // Predicted costs may be too high, but the budget is charged with the true ones.
                let limits = Limits {
                    budget_ns: 1.5 * budget_ns,
                    points: open.len(),
                };
                let choice = choose(&ensemble, &known, &pool, limits, setup.seed)?;
                choice.order.into_iter().map(|place| open[place]).collect()
            }
        };
        let mut left_ns = budget_ns;
        let mut taken = std::collections::HashSet::new();
        for index in wanted {
            if paid_ns(index) > left_ns && !taken.is_empty() {
                break;
            }
            left_ns -= paid_ns(index);
            spent_ns += paid_ns(index);
            measured.push(index);
            taken.insert(index);
        }
        open.retain(|index| !taken.contains(index));
    }
    Ok(steps)
}

fn whole(cost: Cost) -> f64 {
    cost.build_ns + cost.measure_ns
}

fn judge(
    dataset: &Dataset,
    ensemble: &Ensemble,
    test: &[usize],
    measurements: usize,
    spent_ns: f64,
) -> Result<SuggestRound> {
    let points: Vec<&Point> = test.iter().map(|&i| &dataset.samples[i].point).collect();
    let predicted = ensemble.predict(&points)?;
    let measured: Vec<f64> = test.iter().map(|&i| dataset.samples[i].log2_time).collect();
    let metrics = Metrics::of(&measured, &predicted);
    let mut groups: std::collections::BTreeMap<usize, (Vec<f64>, Vec<f64>)> = Default::default();
    for (place, &index) in test.iter().enumerate() {
        let group = groups.entry(dataset.samples[index].workload).or_default();
        group.0.push(measured[place]);
        group.1.push(predicted[place]);
    }
    let shares: Vec<f64> = groups
        .values()
        .filter(|(measured, _)| measured.len() >= RANKED_SAMPLES)
        .filter_map(|(measured, predicted)| Pairs::of(measured, predicted).share())
        .collect();
    Ok(SuggestRound {
        measurements,
        cost_s: spent_ns / 1e9,
        mape: metrics.mape,
        median_ape: metrics.median_ape,
        pairwise: (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64),
    })
}

/// Simulates a rule for several seeds on all cores.
///
/// # Errors
/// Fails as [`simulate`] does.
pub fn repeated(
    dataset: &Dataset,
    costs: &CostModel,
    rule: Rule,
    setup: Setup,
    seeds: u64,
) -> Result<Vec<Vec<SuggestRound>>> {
    (0..seeds)
        .into_par_iter()
        .map(|seed| simulate(dataset, costs, rule, Setup { seed, ..setup }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::data::{Machines, RowSet};
    use oplearn::testing::dense_row;

    #[test]
    fn both_rules_begin_alike_and_spend_alike() {
        let knobs = r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#;
        let mut set = RowSet::default();
        set.rows = (1..=60u64)
            .map(|i| opdata::Row {
                point_id: i.to_string(),
                time_median_ns: Some(1e4 * i as f64),
                ..dense_row(1, 64 * i, 512, knobs)
            })
            .collect();
        let dataset = Dataset::new(&set, &Machines::Single).unwrap();
        let costs = CostModel::learn(&set.rows, 2);
        let setup = Setup {
            samples: 60,
            first: 10,
            round: 5,
            rounds: 2,
            seed: 3,
        };
        let steps = |rule| simulate(&dataset, &costs, rule, setup).unwrap();
        let (suggest, random) = (steps(Rule::Suggest), steps(Rule::Random));
        assert_eq!(suggest[0], random[0]);
        for steps in [&suggest, &random] {
            assert_eq!(steps.len(), 3);
            assert!(
                steps
                    .windows(2)
                    .all(|s| s[0].measurements < s[1].measurements)
            );
            // The first point of a round may be dearer than the round.
            assert!(steps[2].cost_s <= 2.5 * 5.0 * 0.06, "{steps:?}");
        }
        assert_ne!(suggest[1], random[1]);
        let too_few = Setup { first: 50, ..setup };
        assert!(simulate(&dataset, &costs, Rule::Random, too_few).is_err());
    }
}
