//! An ablation, log by log: the error without each hand-made estimate, each group of features and each kind of member.
//! Prints one JSON object a line.
//!
//!     cargo run --release -p oppredict --example ablate -- FOLDS SOURCE…
//!
//! A source is a run's folder or an AutoTVM log. Whole workloads are held out in FOLDS parts. The error is that of the
//! members for workloads that were not seen, in %.

use anyhow::Context;
use opdata::import::{Format, Import};
use oplearn::data::split::shuffled;
use oplearn::data::{Dataset, Machines, RowSet, Source};
use oplearn::features::ablation::{Estimate, switch_off};
use oplearn::features::{Scope, positions_of};
use oplearn::models::member::{Member, MemberSpec, plain};
use oplearn::models::{Regressor, TrainingSet, pool};
use rayon::prelude::*;
use serde_json::json;

const SEED: u64 = 42;

/// Groups of features, by what they depend on.
const SCOPES: [(Scope, &str); 6] = [
    (Scope::Kind, "kind"),
    (Scope::Size, "size"),
    (Scope::Total, "total"),
    (Scope::Tile, "tile"),
    (Scope::Machine, "machine"),
    (Scope::State, "state"),
];

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folds: usize = arguments.next().context("FOLDS is missing")?.parse()?;
    for path in arguments {
        let source = match path.contains("autotvm") {
            true => Source::Import(Import::new(Format::Autotvm, &path)),
            false => Source::Dataset(path.clone().into()),
        };
        let set = RowSet::read(&[source])?;
        let log = || Dataset::new(&set, &Machines::Mixed);
        switch_off(None);
        let dataset = log()?;
        let whole = Log::new(dataset, folds);
        let members = pool::unseen(&[]);
        let alone = whole.predictions(&members)?;
        let say = |what: &str, name: &str, error: f64| {
            println!(
                "{}",
                json!({ "log": path, "what": what, "name": name, "mape": error })
            );
        };
        say("all", "all", whole.error(&alone));
        say(
            "plain",
            "plain",
            whole.error(&whole.predictions(&[plain()])?),
        );
        for (left_out, spec) in members.iter().enumerate() {
            let rest: Vec<Vec<f64>> = (0..members.len())
                .filter(|&m| m != left_out)
                .map(|m| alone[m].clone())
                .collect();
            let name = format!(
                "{:?} {} {:?}",
                spec.base,
                spec.trees.depth,
                spec.without.len()
            );
            say("member", &name, whole.error(&rest));
        }
        for (scope, name) in SCOPES {
            let without = members.iter().cloned().map(|mut spec| {
                spec.without.push(scope);
                spec
            });
            let without: Vec<MemberSpec> = without.collect();
            if positions_of(&[scope]).is_empty() {
                continue;
            }
            say("features", name, whole.error(&whole.predictions(&without)?));
        }
        for (estimate, name) in Estimate::ALL {
            switch_off(Some(estimate));
            let other = log()?;
            let same = |a: &Dataset, b: &Dataset| {
                a.samples.iter().zip(&b.samples).all(|(a, b)| {
                    a.point.bases == b.point.bases
                        && a.point
                            .features
                            .iter()
                            .zip(&b.point.features)
                            .all(|(x, y)| x.to_bits() == y.to_bits())
                })
            };
            if same(&whole.dataset, &other) {
                // The estimate changes no feature of this log.
                continue;
            }
            let other = Log::new(other, folds);
            say("estimate", name, other.error(&other.predictions(&members)?));
        }
        switch_off(None);
    }
    Ok(())
}

/// A log in parts of whole workloads.
struct Log {
    dataset: Dataset,
    /// Indices of the training and the test samples, by fold.
    parts: Vec<(Vec<usize>, Vec<usize>)>,
}

impl Log {
    fn new(dataset: Dataset, folds: usize) -> Log {
        let mut part = vec![0; dataset.workloads.len()];
        for (place, number) in shuffled(part.len(), SEED).into_iter().enumerate() {
            part[number] = place % folds;
        }
        let of = |own: usize| {
            dataset
                .all()
                .into_iter()
                .partition(|&i| part[dataset.samples[i].workload] != own)
        };
        let parts = (0..folds).map(of).collect();
        Log { dataset, parts }
    }

    /// Out-of-fold predictions of each member, log2.
    fn predictions(&self, members: &[MemberSpec]) -> anyhow::Result<Vec<Vec<f64>>> {
        let sets: Vec<TrainingSet<'_>> = self
            .parts
            .iter()
            .map(|(learned, _)| TrainingSet::new(&self.dataset, learned))
            .collect();
        let tasks: Vec<(usize, usize)> = (0..members.len())
            .flat_map(|m| (0..self.parts.len()).map(move |p| (m, p)))
            .collect();
        let results: Vec<(usize, usize, Vec<f64>)> = tasks
            .into_par_iter()
            .map(|(m, p)| {
                let member = Member::fit(&members[m], &sets[p], SEED)?;
                let test = self.parts[p].1.iter();
                let points: Vec<_> = test.map(|&i| &self.dataset.samples[i].point).collect();
                Ok((m, p, member.predict(&points)?))
            })
            .collect::<oplearn::error::Result<_>>()?;
        let mut all = vec![vec![0.0; self.dataset.samples.len()]; members.len()];
        for (m, p, predicted) in results {
            for (&i, value) in self.parts[p].1.iter().zip(predicted) {
                all[m][i] = value;
            }
        }
        Ok(all)
    }

    /// Mean relative error of members that count alike, %.
    fn error(&self, members: &[Vec<f64>]) -> f64 {
        let samples = self.dataset.samples.iter().enumerate();
        let errors = samples.map(|(i, sample)| {
            let mean = members.iter().map(|own| own[i]).sum::<f64>() / members.len() as f64;
            ((mean - sample.log2_time).exp2() - 1.0).abs()
        });
        100.0 * errors.sum::<f64>() / self.dataset.samples.len() as f64
    }
}
