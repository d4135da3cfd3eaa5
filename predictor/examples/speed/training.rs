//! Training the first member on many rows, on one core, and what Python's xgboost needs to train the same trees
//! (`speed.py`): matrix and targets, parameters, and the trees themselves, to be compared.

use std::io::{BufWriter, Write};
use std::path::Path;

use oplearn::data::Dataset;
use oplearn::models::FitOptions;
use oplearn::models::member::{self, Member};
use serde_json::{Value, json};

use super::Figures;

/// Rows that are trained on.
const TRAINED: usize = 100_000;

/// Trains once; the files are written afterwards.
pub fn once(folder: &Path, mut dataset: Dataset) -> anyhow::Result<Figures> {
    let learned = dataset.samples.iter().cycle().take(TRAINED);
    dataset.samples = learned.cloned().collect();
    let spec = &member::default_members()[0];
    let (all, seed) = (dataset.all(), FitOptions::default().seed);
    let start = cpu_s()?;
    let member = Member::fit(spec, &dataset, &all, seed)?;
    let train_s = cpu_s()? - start;
    write(folder, &dataset, &member, seed)?;
    Ok(vec![
        ("train_rows", json!(TRAINED)),
        ("train_columns", json!(member.columns.len())),
        ("train_s", json!(train_s)),
    ])
}

/// Time that this thread has run, s: others on the machine do not count.
fn cpu_s() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(ns / 1e9)
}

/// `speed.f32`: the features of a row and its target, row by row; `speed.json`: parameters; `speed.ubj`: the trees.
fn write(folder: &Path, dataset: &Dataset, member: &Member, seed: u64) -> anyhow::Result<()> {
    let mut matrix = BufWriter::new(std::fs::File::create(folder.join("speed.f32"))?);
    for sample in &dataset.samples {
        let target = sample.log2_time - member.estimate(&sample.point);
        let values = member.columns.iter().map(|&c| sample.point.features[c]);
        for value in values.chain([target as f32]) {
            matrix.write_all(&value.to_le_bytes())?;
        }
    }
    matrix.flush()?;
    let parameters = member.spec.parameters(seed).into_iter();
    let parameters: serde_json::Map<String, Value> = parameters
        .map(|(name, value)| (name.to_owned(), Value::String(value)))
        .collect();
    let facts = json!({
        "columns": member.columns.len(),
        "rounds": member.spec.trees.rounds,
        "parameters": parameters,
    });
    std::fs::write(folder.join("speed.json"), facts.to_string())?;
    std::fs::write(folder.join("speed.ubj"), member.to_bytes()?)?;
    Ok(())
}
