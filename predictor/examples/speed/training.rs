//! Trains the first member on many rows, on one core, and writes the inputs for Python's xgboost to train the same
//! trees (`speed.py`). These are the matrix with the targets (`speed.f32`), the parameters (`speed.json`), and the
//! trees to compare (`speed.ubj`).

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use oplearn::data::Dataset;
use oplearn::models::member::Member;
use oplearn::models::{FitOptions, TrainingSet, pool};
use oplearn::xgboost::{Booster, Labels, Rows};
use serde_json::json;

use super::Figures;

/// Number of rows in the training benchmark.
const TRAINED: usize = 100_000;

/// Trains once from the samples, and once from the matrix in memory, as Python does; the files are written afterwards.
pub fn once(folder: &Path, mut dataset: Dataset) -> anyhow::Result<Figures> {
    let learned = dataset.samples.iter().cycle().take(TRAINED);
    dataset.samples = learned.cloned().collect();
    let spec = &pool::unseen(&[])[0];
    let (all, seed) = (dataset.all(), FitOptions::default().seed);
    let start = cpu_s()?;
    let member = Member::fit(spec, &TrainingSet::new(&dataset, &all), seed)?;
    let fit_s = cpu_s()? - start;
    let samples = || dataset.samples.iter();
    let values: Vec<f32> = samples()
        .flat_map(|s| member.columns.iter().map(|&c| s.point.features[c]))
        .collect();
    let targets: Vec<f32> = samples()
        .map(|s| (s.log2_time - member.estimate(&s.point)) as f32)
        .collect();
    let rows = Rows {
        values: &values,
        width: member.columns.len(),
    };
    let labels = Labels {
        targets: &targets,
        ..Labels::default()
    };
    let parameters = spec.parameters(seed);
    let start = cpu_s()?;
    let booster = Booster::train(&parameters, rows, labels, spec.trees.rounds)?;
    let train_s = cpu_s()? - start;
    let facts = json!({
        "columns": rows.width,
        "rounds": spec.trees.rounds,
        "parameters": parameters.into_iter().collect::<BTreeMap<_, _>>(),
    });
    std::fs::write(folder.join("speed.json"), facts.to_string())?;
    std::fs::write(folder.join("speed.ubj"), booster.to_bytes()?)?;
    write(&folder.join("speed.f32"), rows, &targets)?;
    Ok(vec![
        ("train_rows", json!(TRAINED)),
        ("train_columns", json!(rows.width)),
        ("train_s", json!(train_s)),
        ("train_from_samples_s", json!(fit_s)),
    ])
}

/// Time that this thread has run, s: others on the machine do not count.
fn cpu_s() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(ns / 1e9)
}

/// Writes the features of each row and its target.
fn write(path: &Path, rows: Rows<'_>, targets: &[f32]) -> anyhow::Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    for (row, target) in rows.values.chunks_exact(rows.width).zip(targets) {
        for value in row.iter().chain([target]) {
            file.write_all(&value.to_le_bytes())?;
        }
    }
    file.flush()?;
    Ok(())
}
