//! Whole models beside a run's operators: `whole_model.json` for the plan's first import, `whole_model.<import key>.json` for
//! others (a sweep over batch sizes has several).

use std::path::Path;

use opdata::contract::whole_model::{WholeModelRecord, whole_model_files};
use opengine::stats::Samples;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::CompareError;
use super::estimate::Timing;
use super::point::{Point, drift};

/// Times of a file, as the statistics of samples take them.
#[derive(Deserialize)]
struct Times {
    taken: Taken,
    #[serde(default)]
    drift: Option<f64>,
}

#[derive(Deserialize)]
struct Taken {
    samples: Samples,
}

/// The whole models of a run; `firsts` has the first point of each import.
pub(super) fn points(
    run: &Path,
    firsts: &[(Option<String>, Point)],
) -> Result<Vec<Point>, CompareError> {
    let files = whole_model_files(run)?;
    let has_file =
        |key: &Option<String>| key.is_some() && files.iter().any(|f| f.import_key == *key);
    let mut points = Vec::new();
    for file in &files {
        let of_import = firsts.iter().find(|(key, _)| match &file.import_key {
            Some(_) => *key == file.import_key,
            None => !has_file(key),
        });
        // An import without a row here has its rows in another shard.
        if let Some((_, point)) = of_import {
            points.extend(read(&file.path, point)?);
        }
    }
    Ok(points)
}

/// The whole model of one file at each number of threads; `of_import` is any point of its import.
fn read(path: &Path, of_import: &Point) -> Result<Vec<Point>, CompareError> {
    let record: WholeModelRecord<IgnoredAny, Times> = WholeModelRecord::load(path)?;
    let points = record.threads.iter().map(|at| {
        let timing = at.times.taken.samples.summary().ok().map(|s| Timing {
            median_ns: s.median.get(),
            interval: Some((s.ci_low.get(), s.ci_high.get(), s.ci_level)),
            std_ns: s.std.map(|std| std.get()),
            samples: Some(s.samples),
            min_ns: Some(s.min.get()).filter(|min| *min > 0.0),
            drift: drift(at.times.drift),
            busy: false,
        });
        of_import.whole_model(at.threads.into(), timing.filter(|t| t.median_ns > 0.0))
    });
    Ok(points.collect())
}
