//! Grows datasets by the rule of `oppredict suggest` and by chance, and prints the errors of both: one JSON object.
//!
//!     cargo run --release -p oppredict --example suggest -- SEEDS FIRST ROUND ROUNDS LONGER SOURCE…
//!
//! Chance gets LONGER times the rounds, so that it can be seen what it needs for the error that the rule reaches. A source
//! is a run's folder or an AutoTVM log.

mod simulate;

use anyhow::Context;
use opdata::import::{Format, Import};
use oplearn::data::{Dataset, Machines, RowSet, Source};
use oppredict::suggest::cost::CostModel;

use simulate::{Rule, Setup, repeated};

/// Maximum number of samples taken from a dataset.
const SAMPLES: usize = 3000;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let mut number = |what: &str| -> anyhow::Result<usize> {
        let text = args.next().with_context(|| format!("{what} is missing"))?;
        text.parse().with_context(|| format!("{what}: {text}"))
    };
    let seeds = number("SEEDS")?;
    let (first, round) = (number("FIRST")?, number("ROUND")?);
    let (rounds, longer) = (number("ROUNDS")?, number("LONGER")?);
    let sources: Vec<Source> = args
        .map(|path| {
            if path.contains("autotvm") {
                Source::Import(Import::new(Format::Autotvm, path))
            } else {
                Source::Dataset(path.into())
            }
        })
        .collect();
    let set = RowSet::read(&sources)?;
    let dataset = Dataset::new(&set, &Machines::Single)?;
    let costs = CostModel::learn(&set.rows, dataset.machines[0].cores.unwrap_or(1));
    let setup = Setup {
        samples: SAMPLES,
        first,
        round,
        rounds,
        seed: 0,
    };
    let suggest = repeated(&dataset, &costs, Rule::Suggest, setup, seeds as u64)?;
    let random = Setup {
        rounds: rounds * longer,
        ..setup
    };
    let random = repeated(&dataset, &costs, Rule::Random, random, seeds as u64)?;
    println!(
        "{}",
        serde_json::json!({
            "samples": dataset.samples.len(),
            "workloads": dataset.workloads.len(),
            "suggest": suggest,
            "random": random,
        })
    );
    Ok(())
}
