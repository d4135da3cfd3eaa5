//! Measuring a row of a dataset again, from its record alone.
//!
//! The row names the import, the operator, the target, the threads and the seed, and holds the schedule's trace. The
//! plan in `run.json` says how the import was made and the point timed. The kernel is rebuilt from the trace, and
//! its program must be the recorded one. It is checked and timed, and the new median is compared with the recorded
//! one.
//!
//! The time lands inside the recorded noise if the logarithm of the ratio is at most √(a² + b² + r²). Here a and b are the
//! relative half widths of the two medians' 95 % intervals, or the recorded spread if that is larger. [`REPEATABILITY`], r,
//! is what two runs differ by on an idle machine if nothing has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, ValueHint};
use opdata::contract::interference::is_disturbed;
use opdata::{CacheState, JsonText, Row, RunManifest};
use opengine::device::Conditions;
use opengine::interference::remeasure::{relative, until_quiet};
use opengine::measure::counters::Count;
use opengine::protocol::{MeasureSpec, Measured, QuietMoment};
use opengine::runner::{Made, WorkerPool};
use opengine::schedule::{Choice, ScheduleSpec};
use opmodels::Imported;
use opmodels::graph::Operator;

use crate::plan::Plan;
use crate::propose::Candidate;
use crate::report::TimeReport;
use crate::run::{Session, import_key, kernel_spec, plan_of, quality, requests, runner, time_of};

/// Difference between two runs of one kernel on a quiet machine: another placement in memory, another moment.
pub const REPEATABILITY: f64 = 0.06;
/// How often a point is measured at most, until the machine is quiet.
const ATTEMPTS: usize = 3;
/// Relative noise of a median that has too few samples for an interval.
const WITHOUT_INTERVAL: f64 = 0.25;

/// A request for a replay: the arguments of `opcollect replay`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ReplayRequest {
    /// The row, by the value in its column `row_id`
    #[arg(value_name = "ROW-ID")]
    pub row: String,
    /// Folder of the run that has the row [default: the one of runs/ that the row's name begins with]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// Counters, as for the main job [default: those of the run]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub counters: Vec<String>,
    /// Python with TVM that imports models [default: the project's .venv]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub python: Option<PathBuf>,
}

/// A row, and its new measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// The row.
    pub row_id: String,
    /// Its operator.
    pub operator: String,
    /// Threads.
    pub threads: u32,
    /// Cache state.
    pub cache: CacheState,
    /// The recorded time.
    pub recorded: TimeReport,
    /// The time now.
    pub now: TimeReport,
    /// Time now over the recorded time.
    pub ratio: f64,
    /// Largest ratio (or its inverse) that is inside the noise.
    pub noise_ratio: f64,
    /// Whether the time is the recorded one.
    pub verdict: Verdict,
    /// Counters of one call, recorded and now.
    pub counts: Vec<CountPair>,
    /// Warnings about the comparison.
    pub warnings: Vec<String>,
}

/// A counter, as it was recorded and as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct CountPair {
    /// Its name, `source:name`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The row's value, if it has one.
    pub recorded: Option<f64>,
    /// The new count, or why there is none.
    pub now: Result<f64, String>,
}

/// Where a replayed time lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Inside the recorded noise.
    Inside,
    /// Above it.
    Slower,
    /// Below it.
    Faster,
}

impl Verdict {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Inside => "inside",
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
        }
    }
}

/// Measures a row again.
///
/// # Errors
/// Fails if the row or what it names is missing, it was not measured, or its kernel cannot be rebuilt.
pub fn replay(request: &ReplayRequest, session: &mut Session<'_>) -> anyhow::Result<Replayed> {
    let row_id = request.row.as_str();
    let folder = match &request.run {
        Some(folder) => folder.clone(),
        None => folder_of(row_id)?,
    };
    let row = find(&folder, row_id)?;
    let (Some(trace), Some(_)) = (&row.schedule_trace, row.time_median_ns) else {
        bail!(
            "{row_id} has no time to compare with: it ended `{}`{}",
            row.status,
            row.reason
                .as_ref()
                .map_or_else(String::new, |r| format!(" ({r})"))
        );
    };
    let manifest = RunManifest::load(&folder)?;
    let at = Conditions::of_row(&row).context("the row has no threads or no cache state")?;
    let (threads, cache) = (at.threads, at.cache);
    let recorded = plan_of(&manifest, &folder)?;
    let plan = Plan {
        threads: vec![threads],
        seed: row.seed.context("the row has no seed")?,
        counters: match request.counters.is_empty() {
            true => recorded.counters.clone(),
            false => request.counters.clone(),
        },
        ..recorded
    };
    let imported = import_of(&row, &plan, request.python.as_deref(), session)?;
    let operator = operator_of(&row, &imported)?;
    let target: serde_json::Value = row
        .target
        .as_ref()
        .and_then(|t| serde_json::from_str(t.as_str()).ok())
        .context("the row has no target")?;
    let candidate = Candidate {
        place: 0,
        operator: 0,
        schedule_spec: spec_of(&row, trace)?,
        conditions: vec![at.clone()],
    };
    // This comes before the worker takes what may be the only server of another machine.
    let here = session.environment_of(&plan)?.env_hash;
    session.progress.working("rebuilding and measuring");
    let scratch = crate::run::scratch()?;
    let mut runner = runner(&plan, &imported, &target, 1, session, scratch.path())?;
    let spec = kernel_spec(operator, &candidate);
    let mut made = None;
    runner.build(std::slice::from_ref(&spec), &mut |_, result| {
        made = Some(result)
    });
    let built = match made {
        Some(Ok(Made::New(built))) => built,
        Some(Err(failure)) => bail!("{row_id} cannot be rebuilt: {}", failure.reason),
        _ => bail!("{row_id} cannot be rebuilt: the build gave no result"),
    };
    let hash = format!("{:016x}", built.program_hash);
    if row.program_hash.as_ref() != Some(&hash) {
        bail!(
            "{row_id}: its trace makes another program now ({hash}, recorded {}); the row is of TVM {}",
            row.program_hash.as_deref().unwrap_or("none"),
            row.tvm_version.as_deref().unwrap_or("unknown")
        );
    }
    let point = MeasureSpec {
        id: 0,
        at,
        policy: plan.timing,
        prune_beyond_ns: None,
        quiet: QuietMoment::Preferred,
    };
    let measured = quietest(&mut runner, &point)?;
    if let Some(complaint) = measured.comparison.complaint() {
        bail!("{row_id}: the kernel is wrong now: {complaint}");
    }
    judge(&row, threads, cache, &measured, &here)
}

/// The specification of the row's kernel: its trace, or its knobs if they replace the program that the trace belongs
/// to.
fn spec_of(row: &Row, trace: &JsonText) -> anyhow::Result<ScheduleSpec> {
    let choice: Option<Choice> = row.schedule_knobs.as_ref().and_then(|k| k.decode().ok());
    match choice.filter(Choice::rewrites_program) {
        Some(choice) => Ok(ScheduleSpec::Template { choice }),
        None => Ok(ScheduleSpec::Trace {
            trace: trace.decode().context("the row's schedule_trace")?,
        }),
    }
}

fn judge(
    row: &Row,
    threads: u32,
    cache: CacheState,
    measured: &Measured,
    here: &str,
) -> anyhow::Result<Replayed> {
    let taken = measured.taken.as_ref().context("no sample was taken")?;
    let summary = taken.samples.summary().map_err(|e| anyhow!("{e}"))?;
    let grade = measured
        .simulated
        .is_none()
        .then(|| quality(&summary, measured.slowdown));
    let now = TimeReport::new(&summary, grade);
    let recorded = time_of(row).context("the row has no time")?;
    let ratio = now.median_ns / recorded.median_ns;
    let spread = row.time_std_ns.map(|std| std / recorded.median_ns);
    let squares = half_width(&recorded).max(spread.unwrap_or(0.0)).powi(2)
        + half_width(&now).powi(2)
        + REPEATABILITY.powi(2);
    let noise = squares.sqrt();
    let verdict = match ratio.ln() {
        log if log.abs() <= noise => Verdict::Inside,
        log if log > 0.0 => Verdict::Slower,
        _ => Verdict::Faster,
    };
    let mut warnings = Vec::new();
    if row.env_hash.as_deref() != Some(here) {
        warnings.push("the row was measured on another machine".to_owned());
    }
    if is_disturbed(measured.slowdown) {
        warnings.push(format!(
            "the row was measured again under interference (the reference kernel took {:.2} times its idle time)",
            measured.slowdown
        ));
    }
    if row.drift_ratio.is_some_and(is_disturbed) {
        warnings.push("the row was measured under interference".to_owned());
    }
    Ok(Replayed {
        row_id: row.row_id.clone(),
        operator: row.op_name.clone(),
        threads,
        cache,
        recorded,
        now,
        ratio,
        noise_ratio: noise.exp(),
        verdict,
        counts: counts(row, measured),
        warnings,
    })
}

/// The new counts beside those of the row.
fn counts(row: &Row, measured: &Measured) -> Vec<CountPair> {
    let recorded: BTreeMap<String, f64> = row
        .counters
        .as_ref()
        .and_then(|counters| serde_json::from_str(counters.as_str()).ok())
        .unwrap_or_default();
    let counted = measured.counted.as_ref();
    let pair = |count: &Count| CountPair {
        name: count.full_name(),
        unit: count.counter.unit.clone(),
        recorded: recorded.get(&count.full_name()).copied(),
        now: count.value.clone(),
    };
    counted.map_or_else(Vec::new, |counted| {
        counted.counts.iter().map(pair).collect()
    })
}

/// Half of the 95 % interval, relative to the median.
fn half_width(time: &TimeReport) -> f64 {
    match time.relative_half_width() {
        Some(half) if half > 0.0 => half,
        _ => WITHOUT_INTERVAL,
    }
}

/// Measures until the machine is quiet, a few times at most; of the results the one with the least slowdown counts.
fn quietest(runner: &mut WorkerPool, point: &MeasureSpec) -> anyhow::Result<Measured> {
    let mut left = 1..ATTEMPTS;
    // A replay has only one row to measure: each attempt waits for a quiet moment, and none is refused.
    let measure = |_| runner.first.measure(point).map_err(|f| anyhow!(f.reason));
    until_quiet(
        measure,
        |measured| relative(measured.slowdown),
        || left.next().is_some(),
    )
}

/// The folder in `runs/` of the run in the row's name.
fn folder_of(row_id: &str) -> anyhow::Result<PathBuf> {
    let runs = Path::new("runs");
    let run_id = row_id
        .rsplit_once('.')
        .map(|(run, _)| run)
        .with_context(|| {
            format!("{row_id} is no row: a row's name is that of its run and a number, as in 20260131T120000Z-resnet-18-llvm.000017")
        })?;
    let named = runs.join(run_id);
    if named.is_dir() {
        return Ok(named);
    }
    let folders = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let is_it = |folder: &PathBuf| {
        RunManifest::load(folder).is_ok_and(|manifest| manifest.run_id == run_id)
    };
    folders.map(|f| f.path()).find(is_it).with_context(|| {
        format!("there is no run {run_id} in runs/; name its folder with --run DIR")
    })
}

fn find(folder: &Path, row_id: &str) -> anyhow::Result<Row> {
    let rows = opdata::read_rows(folder)?;
    let count = rows.len();
    rows.into_iter()
        .find(|row| row.row_id == row_id)
        .with_context(|| format!("{} has no row {row_id} among its {count}", folder.display()))
}

/// The import that the row is about, made anew if it is not in the cache.
fn import_of(
    row: &Row,
    plan: &Plan,
    python: Option<&Path>,
    session: &mut Session<'_>,
) -> anyhow::Result<Imported> {
    let key = row
        .import_key
        .as_deref()
        .context("the row names no import")?;
    session
        .progress
        .working(&format!("importing {}", plan.model.model));
    let base = session.importer.import(&plan.model, python, &mut |_| {})?;
    if import_key(&base) == key {
        return Ok(base);
    }
    for request in requests(plan, &base.graph)? {
        let imported = session.importer.import(&request, python, &mut |_| {})?;
        if import_key(&imported) == key {
            return Ok(imported);
        }
    }
    bail!(
        "{} cannot be imported as it was for {}: the model, the importer or TVM is another version now (import {key})",
        plan.model.model,
        row.row_id
    )
}

fn operator_of<'a>(row: &Row, imported: &'a Imported) -> anyhow::Result<&'a Operator> {
    let symbol = row
        .op_symbol
        .as_deref()
        .context("the row names no function")?;
    let operator = imported
        .graph
        .operator(symbol)
        .with_context(|| format!("the import has no function {symbol}"))?;
    if row.workload_hash.as_ref() != Some(&operator.workload_hash()) {
        bail!(
            "{symbol} computes something else now than when {} was measured",
            row.row_id
        );
    }
    Ok(operator)
}
