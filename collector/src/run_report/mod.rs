//! `opcollect report`: what a run has measured, as plain data; with a second run, what changed.
//!
//! [`curves`] follows each factor of a sweep to the point where it stops paying. How it looks, as a page and in Markdown, is
//! `render/run_page`. Everything comes from the run's folder: rows, `run.json`, whole models.

pub mod curves;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueHint};
use opdata::contract::Environment;
use opdata::contract::whole_model::{WholeModelRecord, whole_model_files};
use opdata::lint::{self, Finding};
use opdata::roofline::{Standing, Work};
use opdata::{Quality, RUN_JSON, Row, RunManifest, Status, Traces, read_rows_with};
use opengine::device::Conditions;
use opengine::stats::Samples;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::compare::{self, Comparison, Options};
use crate::report::Latency;
use curves::{Curve, Heat};

/// Smaller changes are ignored.
const THRESHOLD: f64 = 0.05;

/// A request for a report: the arguments of `opcollect report`.
#[derive(Debug, PartialEq, Args)]
pub struct ReportRequest {
    /// A run: its folder, its name, or `latest`
    #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
    pub run: PathBuf,
    /// A later run, to say what changed
    #[arg(value_name = "RUN2", value_hint = ValueHint::DirPath)]
    pub later: Option<PathBuf>,
    /// Directory of report.html and report.md [default: that of the run, the later one of two]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

/// A run, ready to be shown.
#[derive(Debug, Clone)]
pub struct RunOverview {
    /// Its name, times, command and versions.
    pub manifest: RunManifest,
    /// Its machine.
    pub environment: Environment,
    /// Its models.
    pub models: BTreeSet<String>,
    /// Number of points by how they ended.
    pub ended: BTreeMap<Status, u64>,
    /// Number of measured points by grade.
    pub grades: BTreeMap<&'static str, u64>,
    /// Operators with their default schedules, the longest first.
    pub operators: Vec<OperatorTime>,
    /// Whole models, by model and threads.
    pub whole_models: Vec<WholeModelTime>,
    /// Factors of sweeps.
    pub curves: Vec<Curve>,
    /// Tiles against threads, for the operators with most of both.
    pub heats: Vec<Heat>,
    /// Measured rows under the roofs: flop a byte, Gflop a second.
    pub points: Vec<(f64, f64)>,
    /// Values of each counter in the rows, by its name.
    pub counters: BTreeMap<String, Vec<CountOfRow>>,
    /// Rows that physics forbids.
    pub findings: Vec<(String, Finding)>,
    /// Noise: half widths over medians, slowdowns, other processes' shares.
    pub noise: Noise,
}

/// A count of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountOfRow {
    /// The count of one run.
    pub count: f64,
    /// The row's median time, nanoseconds.
    pub time_ns: f64,
    /// Its threads.
    pub threads: u64,
}

/// An operator with its default schedule.
#[derive(Debug, Clone)]
pub struct OperatorTime {
    /// Its model.
    pub model: String,
    /// Its name.
    pub name: String,
    /// Shapes of its inputs and weights.
    pub shapes: String,
    /// Calls in the model.
    pub count: u64,
    /// Threads.
    pub threads: u64,
    /// Conditions that only the device has, in words; empty for most.
    pub device_conditions: String,
    /// Median time of a call, nanoseconds.
    pub median_ns: f64,
    /// Grade of the time.
    pub quality: Option<Quality>,
    /// Rate of arithmetic.
    pub gflops_per_s: Option<f64>,
    /// Position of the operator under the roofline.
    pub standing: Option<Standing>,
}

impl OperatorTime {
    /// Time of all calls, nanoseconds.
    pub fn total_ns(&self) -> f64 {
        self.median_ns * self.count as f64
    }
}

/// A model, run as one.
#[derive(Debug, Clone)]
pub struct WholeModelTime {
    /// The import, or nothing for the plan's first.
    pub import: Option<String>,
    /// Threads.
    pub threads: u32,
    /// Conditions that only the device has, in words; empty for most.
    pub device_conditions: String,
    /// Median, nanoseconds.
    pub median_ns: f64,
    /// Its 95 % interval.
    pub interval_ns: (f64, f64),
    /// How its latencies are spread.
    pub latency: Latency,
    /// Share of it that the operators inside the model explain.
    pub explained: Option<f64>,
}

/// Medians and 95 % quantiles of the noise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noise {
    /// Half the interval over the median.
    pub half_width: Option<(f64, f64)>,
    /// The reference kernel's time over its best.
    pub drift: Option<(f64, f64)>,
    /// Share of CPU time that others took.
    pub others: Option<(f64, f64)>,
}

/// A report: one run, and its changes to a later one.
#[derive(Debug, Clone)]
pub struct RunReportData {
    /// The run; of two, the later one.
    pub run: RunOverview,
    /// The comparison of both runs.
    pub comparison: Option<Comparison>,
}

/// Reads what the report is about.
///
/// # Errors
/// Fails if a folder is not a run, if it has no rows, or if the runs have nothing in common.
pub fn read(request: &ReportRequest) -> anyhow::Result<RunReportData> {
    let shown = request.later.as_ref().unwrap_or(&request.run);
    let comparison = match &request.later {
        None => None,
        Some(later) => {
            let options = Options {
                threshold: THRESHOLD,
                allow_other_machine: true,
            };
            let sides = [vec![request.run.clone()], vec![later.clone()]];
            Some(compare::compare(&sides[0], &sides[1], options)?)
        }
    };
    Ok(RunReportData {
        run: overview(shown)?,
        comparison,
    })
}

fn overview(folder: &Path) -> anyhow::Result<RunOverview> {
    let manifest = RunManifest::load(folder).with_context(|| {
        format!(
            "{} is no run's folder; give one, such as runs/…",
            folder.display()
        )
    })?;
    // A run of another tool may say nothing of its machine.
    let known = Some(&manifest.environment).filter(|value| value.is_object());
    let known = known.cloned().unwrap_or_else(|| serde_json::json!({}));
    let environment: Environment = serde_json::from_value(known)
        .with_context(|| format!("the environment in {}", folder.join(RUN_JSON).display()))?;
    let rows = read_rows_with(folder, Traces::Skip)?;
    if rows.is_empty() {
        anyhow::bail!("{} has no rows to report on", folder.display());
    }
    let calibration = environment.calibration.as_ref();
    let mut ended = BTreeMap::new();
    let mut grades = BTreeMap::new();
    for row in &rows {
        *ended.entry(row.status).or_insert(0) += 1;
        if let Some(quality) = row.quality {
            *grades.entry(quality.as_str()).or_insert(0) += 1;
        }
    }
    let findings = rows.iter().flat_map(|row| {
        let found = lint::findings(row, calibration);
        found.into_iter().map(|f| (row.row_id.clone(), f))
    });
    Ok(RunOverview {
        models: rows.iter().filter_map(|r| r.model_name.clone()).collect(),
        ended,
        grades,
        operators: operators(&rows, &environment),
        whole_models: whole_models(folder)?,
        curves: curves::curves(&rows),
        heats: curves::heats(&rows),
        points: rows.iter().filter_map(point).collect(),
        counters: counters(&rows),
        findings: findings.collect(),
        noise: noise(&rows),
        manifest,
        environment,
    })
}

/// Conditions that only a device has, in words.
fn words(conditions: &BTreeMap<String, String>) -> String {
    let words = conditions
        .iter()
        .map(|(name, value)| format!("{name} {value}"));
    words.collect::<Vec<_>>().join(", ")
}

/// The shapes of a row's inputs and weights.
fn shapes(row: &Row) -> String {
    let all = [&row.input_shapes, &row.weight_shapes];
    let all: Vec<String> = all.into_iter().flatten().map(ToString::to_string).collect();
    all.join(";")
}

fn operators(rows: &[Row], environment: &Environment) -> Vec<OperatorTime> {
    let mut all: Vec<OperatorTime> = rows
        .iter()
        .filter(|row| row.schedule_space.as_deref() == Some("default"))
        .filter_map(|row| {
            let work = Work::of(row);
            let standing = environment.calibration.as_ref().zip(work);
            Some(OperatorTime {
                model: row.model_name.clone().unwrap_or_default(),
                name: row.op_name.clone(),
                shapes: shapes(row),
                count: row.op_count.unwrap_or(1),
                threads: row.threads?,
                device_conditions: words(&Conditions::of_row(row)?.device),
                median_ns: row.time_median_ns?,
                quality: row.quality,
                gflops_per_s: row.gflops_per_s,
                standing: standing.and_then(|(c, work)| c.standing(&work)),
            })
        })
        .collect();
    all.sort_by(|a, b| b.total_ns().total_cmp(&a.total_ns()));
    all
}

/// A row's arithmetic intensity and rate.
fn point(row: &Row) -> Option<(f64, f64)> {
    let work = Work::of(row).filter(|work| work.flops > 0.0 && work.bytes > 0.0)?;
    Some((work.flops / work.bytes, work.flops / work.time_ns))
}

fn counters(rows: &[Row]) -> BTreeMap<String, Vec<CountOfRow>> {
    let mut all: BTreeMap<String, Vec<CountOfRow>> = BTreeMap::new();
    for row in rows {
        let (Some(time_ns), Some(threads)) = (row.time_median_ns, row.threads) else {
            continue;
        };
        let counts = row.counters.as_ref();
        let counts = counts.and_then(|c| c.decode::<BTreeMap<String, serde_json::Value>>().ok());
        for (name, count) in counts.unwrap_or_default() {
            if let Some(count) = count.as_f64() {
                all.entry(name).or_default().push(CountOfRow {
                    count,
                    time_ns,
                    threads,
                });
            }
        }
    }
    all
}

fn noise(rows: &[Row]) -> Noise {
    let of = |value: fn(&Row) -> Option<f64>| -> Option<(f64, f64)> {
        let mut all: Vec<f64> = rows.iter().filter_map(value).collect();
        all.sort_by(f64::total_cmp);
        let median = opdata::stats::median_of_sorted(&all)?;
        Some((median, opdata::stats::quantile_of_sorted(&all, 0.95)?))
    };
    Noise {
        half_width: of(|row| {
            let (low, high) = (row.time_ci_low_ns?, row.time_ci_high_ns?);
            let median = row.time_median_ns.filter(|m| *m > 0.0)?;
            Some((high - low) / 2.0 / median)
        }),
        drift: of(|row| row.drift_ratio),
        others: of(|row| row.other_cpu_share),
    }
}

/// The part of a whole model's record that is read.
#[derive(Deserialize)]
struct Times {
    taken: Taken,
    #[serde(default)]
    instrumented_sum_ns: Option<f64>,
    #[serde(default)]
    instrumented_total_ns: Option<f64>,
}

#[derive(Deserialize)]
struct Taken {
    samples: Samples,
}

fn whole_models(folder: &Path) -> anyhow::Result<Vec<WholeModelTime>> {
    let mut all = Vec::new();
    for file in whole_model_files(folder)? {
        let record: WholeModelRecord<IgnoredAny, Times> = WholeModelRecord::load(&file.path)?;
        for at in record.threads {
            let Ok(summary) = at.times.taken.samples.summary() else {
                continue;
            };
            let inside = at
                .times
                .instrumented_sum_ns
                .zip(at.times.instrumented_total_ns);
            all.push(WholeModelTime {
                import: file.import_key.clone(),
                threads: at.threads,
                device_conditions: words(&at.device),
                median_ns: summary.median.get(),
                interval_ns: (summary.ci_low.get(), summary.ci_high.get()),
                latency: Latency::new(&summary),
                explained: inside
                    .filter(|(_, all)| *all > 0.0)
                    .map(|(sum, all)| sum / all),
            });
        }
    }
    Ok(all)
}
