//! How fast the predictor is: reading, training, one answer, many answers, answers over HTTP.
//!
//!     scripts/bench predict
//!
//! runs this with a folder for its files: a CSV file of several GB, and what `speed.py` trains on. It sets the figures
//! against their targets; with the word `train` after the folder it trains alone ([`training`]). Prints one JSON object.
//! Everything works on made-up rows.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod http;
mod rows;
mod training;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use opdata::{DeviceKind, Row, Traces};
use oplearn::data::{Dataset, Machines, RowSet, Source, points};
use oplearn::features::{FEATURES, Point};
use oplearn::models::Regressor;
use oppredict::model::{TrainOptions, Trained, file, train};
use oppredict::query::answer::Detail;
use serde_json::{Value, json};

/// Number of rows that the model is trained on.
const LEARNED: usize = 4000;
/// Rows that are answered at once.
const ANSWERED: usize = 200_000;
/// Rows of the CSV file.
const READ: usize = 1_000_000;
/// Rounds of everything that is short.
const ROUNDS: usize = 2000;

fn main() -> anyhow::Result<()> {
    let Some(folder) = std::env::args().nth(1).map(PathBuf::from) else {
        anyhow::bail!("name a folder for files of several GB");
    };
    let set = RowSet::from(rows::made_up(LEARNED)?);
    let dataset = Dataset::new(&set, &Machines::Single)?;
    let only_training = std::env::args().nth(2).is_some_and(|word| word == "train");
    let figures = if only_training {
        training::once(&folder, dataset)?
    } else {
        everything(&folder, &set, &dataset)?
    };
    let object: serde_json::Map<String, Value> = figures
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    println!("{}", Value::Object(object));
    Ok(())
}

/// All figures except those of training.
fn everything(folder: &Path, set: &RowSet, dataset: &Dataset) -> anyhow::Result<Figures> {
    let options = TrainOptions::default();
    let trained = train(dataset, DeviceKind::CPU, &options, &())?;
    let mut figures = vec![
        ("features", json!(FEATURES.len())),
        ("members", json!(trained.ensemble.members.len())),
    ];
    figures.extend(singles(&trained, &set.rows[0])?);
    figures.extend(batches(&trained, &set.rows)?);
    figures.extend(reading(folder, &set.rows)?);
    figures.extend(serving(folder, &trained)?);
    Ok(figures)
}

fn seconds<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Median and 99th percentile.
fn percentiles(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize];
    json!({ "p50": at(0.5), "p99": at(0.99) })
}

type Figures = Vec<(&'static str, Value)>;

/// One query at a time, from the row to the answer, ms.
fn singles(trained: &Trained, row: &Row) -> anyhow::Result<Figures> {
    let machine = trained.machine(None)?;
    let one = std::slice::from_ref(row);
    let times = |detail| -> anyhow::Result<Value> {
        let ask = || trained.answer_rows(one, machine, 0.9, detail);
        let rounds = (0..ROUNDS).map(|_| Ok(1e3 * seconds(|| Ok(ask()?))?));
        Ok(percentiles(rounds.collect::<anyhow::Result<_>>()?))
    };
    Ok(vec![
        ("single_short_ms", times(Detail::Short)?),
        ("single_full_ms", times(Detail::Full)?),
    ])
}

/// Many rows in memory, on all cores.
fn batches(trained: &Trained, learned: &[Row]) -> anyhow::Result<Figures> {
    let machine = trained.machine(None)?;
    let many: Vec<Row> = learned.iter().cycle().take(ANSWERED).cloned().collect();
    let rate = |s: f64| json!(ANSWERED as f64 / s);
    let mut made: Vec<Point> = Vec::new();
    let features_s = seconds(|| {
        made = points(&many, machine);
        Ok(())
    })?;
    let all: Vec<&Point> = made.iter().collect();
    let ensemble_s = seconds(|| Ok(trained.ensemble.predict(&all)?))?;
    let answers_s = seconds(|| Ok(trained.answer_rows(&many, machine, 0.9, Detail::Short)?))?;
    Ok(vec![
        ("features_rows_per_s", rate(features_s)),
        ("ensemble_rows_per_s", rate(ensemble_s)),
        ("batch_rows_per_s", rate(answers_s)),
    ])
}

/// A file of a million rows: handed out as they are read, and all of them kept in memory.
fn reading(folder: &Path, learned: &[Row]) -> anyhow::Result<Figures> {
    let path = folder.join("speed.csv");
    let mut file = BufWriter::new(std::fs::File::create(&path)?);
    file.write_all(&opdata::formats::csv::header())?;
    let lines: Vec<Vec<u8>> = learned.iter().map(opdata::formats::csv::line).collect();
    for (place, line) in lines.iter().cycle().take(READ).enumerate() {
        // The row's name is the second field; all others come again and again.
        let rest = line
            .splitn(3, |byte| *byte == b',')
            .nth(2)
            .unwrap_or_default();
        write!(file, "{},row.{place:06},", opdata::SCHEMA_VERSION)?;
        file.write_all(rest)?;
    }
    file.flush()?;
    drop(file);
    let streamed = |traces| {
        let mut count = 0;
        let read_s = seconds(|| {
            opdata::read_batches(&path, traces, |rows: &mut Vec<Row>| {
                count += rows.len();
                Ok::<_, anyhow::Error>(())
            })
        })?;
        anyhow::ensure!(count == READ, "{count} rows were read");
        Ok(read_s)
    };
    let (read_s, with_traces_s) = (streamed(Traces::Skip)?, streamed(Traces::Keep)?);
    let source = [Source::Dataset(path.clone())];
    let mut set = RowSet::default();
    let kept_s = seconds(|| {
        set = RowSet::read(&source)?;
        Ok(())
    })?;
    anyhow::ensure!(set.rows.len() == READ, "{} rows were kept", set.rows.len());
    let csv_bytes = std::fs::metadata(&path)?.len();
    Ok(vec![
        ("csv_rows", json!(READ)),
        ("csv_bytes", json!(csv_bytes)),
        ("read_s", json!(read_s)),
        ("read_with_traces_s", json!(with_traces_s)),
        ("read_and_kept_s", json!(kept_s)),
    ])
}

/// The same query over HTTP, ms.
fn serving(folder: &Path, trained: &Trained) -> anyhow::Result<Figures> {
    // The server reads its model from a file.
    let path = folder.join("speed.opm");
    file::save(trained, &path)?;
    let start = Instant::now();
    let model = file::load(&path)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let (told, address) = std::sync::mpsc::channel();
    // It serves until the process ends.
    std::thread::spawn(move || {
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        oppredict::serve::serve(model, None, any, |address| {
            let _ = told.send(address);
        })
    });
    let address = address.recv()?;
    http::kept_open(address, 50)?;
    Ok(vec![
        ("load_ms", json!(load_ms)),
        (
            "http_kept_open_ms",
            percentiles(http::kept_open(address, ROUNDS)?),
        ),
        (
            "http_opened_anew_ms",
            percentiles(http::opened_anew(address, ROUNDS)?),
        ),
    ])
}
