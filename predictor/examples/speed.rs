//! How fast: training, one question, many rows, and the features alone. Prints one JSON object.
//!
//!     cargo run --release -p oppredict --example speed -- LOG.jsonl.gz [ROWS]
//!
//! The log's rows are repeated until there are ROWS (100,000) of them; Python's side of the comparison is
//! `predictor/examples/speed.py`, which trains the same trees on the matrix that this writes to `speed.f32`.

use std::time::Instant;

use oppredict::data::{Dataset, ImportFormat, Machines, RowSet, Source, points};
use oppredict::features::{FEATURES, Point};
use oppredict::models::member::{self, Member};
use oppredict::models::{FitOptions, Regressor};
use oppredict::query::answer::Detail;
use oppredict::query::{TrainOptions, train};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(log) = args.next() else {
        anyhow::bail!("name an AutoTVM log");
    };
    let wanted: usize = args.next().map_or(Ok(100_000), |n| n.parse())?;
    let set = RowSet::read(&[Source::Import(ImportFormat::Autotvm, log.into())])?;
    let mut dataset = Dataset::new(&set, &Machines::Single)?;

    let trained = train(
        &dataset,
        set.rows[0].device_kind,
        &TrainOptions::default(),
        &|| (),
    )?;
    let machine = trained.machine(None)?;
    let one = &set.rows[..1];
    let kinds = [one[0].op_kind.as_str()];
    let mut single_us = Vec::new();
    for detail in [Detail::Short, Detail::Full] {
        let rounds = 200;
        let start = Instant::now();
        for _ in 0..rounds {
            trained.answer(&points(one, machine), &kinds, 0.9, detail)?;
        }
        single_us.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds));
    }

    let rows: Vec<_> = set.rows.iter().cycle().take(wanted).cloned().collect();
    let start = Instant::now();
    let many = points(&rows, machine);
    let features_s = start.elapsed().as_secs_f64();
    let all: Vec<&Point> = many.iter().collect();
    let start = Instant::now();
    trained.ensemble.predict(&all)?;
    let ensemble_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    trained.fast.predict(&all)?;
    let fast_s = start.elapsed().as_secs_f64();

    let samples: Vec<_> = dataset
        .samples
        .iter()
        .cycle()
        .take(wanted)
        .cloned()
        .collect();
    dataset.samples = samples;
    let mut matrix: Vec<u8> = Vec::new();
    for sample in &dataset.samples {
        for value in sample
            .point
            .features
            .iter()
            .copied()
            .chain([sample.log2_time as f32])
        {
            matrix.extend_from_slice(&value.to_le_bytes());
        }
    }
    std::fs::write("speed.f32", matrix)?;
    let start = Instant::now();
    Member::fit(
        &member::default_members()[0],
        &dataset,
        &dataset.all(),
        FitOptions::default().seed,
    )?;
    let member_s = start.elapsed().as_secs_f64();

    println!(
        "{}",
        serde_json::json!({
            "rows": wanted,
            "features": FEATURES.len(),
            "single_short_us": single_us[0],
            "single_full_us": single_us[1],
            "features_rows_per_s": wanted as f64 / features_s,
            "ensemble_rows_per_s": wanted as f64 / ensemble_s,
            "fast_rows_per_s": wanted as f64 / fast_s,
            "train_one_member_s": member_s,
        })
    );
    Ok(())
}
