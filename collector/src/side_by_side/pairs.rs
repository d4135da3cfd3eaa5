//! `opcollect pairs`: operators measured alone and at the same time.
//!
//! Calls of equal operators are measured once. Groups with one operator for each part of a split are measured on each
//! split of threads. The rows of a group are on disk before the next group is measured. A run that was stopped or
//! killed continues where it was ([`PairsPlan`] is stored beside them).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use opdata::contract::pairs::{
    PAIRS_VERSION, PairRow, append_pairs, read_pairs, reopen_pairs, write_pairs,
};
use opdata::contract::{Calibration, CallRef, Level};
use opdata::{Status, Timestamp, stable_hash};
use opengine::env::shared_cache;
use opengine::protocol::{GroupMember, GroupSpec, GroupTimes};
use opengine::stats::{Nanos, Samples};
use opmodels::ImportRequest;
use opmodels::graph::Operator;
use opreport::Misuse;
use serde::{Deserialize, Serialize};

use super::Loaded;
use super::sample::spread;
use crate::plan::Plan;
use crate::report::Ratio;
use crate::run::{Session, quality};

/// The plan beside the rows.
const PLAN_FILE: &str = "pairs.json";
/// Workers that may be lost in a row before the run gives up.
const MOST_LOST: u32 = 3;

/// The plan of the measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairsPlan {
    /// The first model, the target, the seed, and the folder of the rows.
    pub plan: Plan,
    /// Further models.
    pub others: Vec<ImportRequest>,
    /// Threads of each operator of a group.
    pub splits: Vec<Vec<u32>>,
    /// Whose processors are whose.
    pub modes: Vec<Mode>,
    /// Operators to measure, by name, function or workload; all if empty.
    pub operators: Vec<String>,
    /// Maximum number of groups.
    pub sample: Option<usize>,
    /// Rounds of measuring alone and together.
    pub rounds: u32,
    /// Time of each measurement in a round, nanoseconds.
    pub span_ns: u64,
}

/// Whose processors are whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each operator has processors of its own.
    Partitioned,
    /// All operators are on the same processors, and the system divides their time.
    TimeSliced,
}

impl Mode {
    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Partitioned => "partitioned",
            Mode::TimeSliced => "time_sliced",
        }
    }
}

/// The result of a run of pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct PairsReport {
    /// Folder of the rows.
    pub folder: PathBuf,
    /// All rows, including those of earlier parts of the run.
    pub rows: Vec<PairRow>,
    /// Groups that there are without `--sample`.
    pub possible: usize,
    /// Groups that were to be measured.
    pub wanted: usize,
}

/// An operator that represents its calls.
pub(super) struct Unit<'a> {
    pub model: usize,
    pub call: usize,
    pub operator: &'a Operator,
}

/// Some operators on some processors.
#[derive(Clone)]
struct Group {
    units: Vec<usize>,
    split: usize,
    mode: Mode,
    processors: Vec<Vec<usize>>,
}

/// Measures groups of operators, or goes on doing so.
///
/// # Errors
/// Fails if a split does not fit the machine, an operator does not exist, a model cannot be built, or the folder cannot
/// be written.
pub fn measure(
    pairs: &PairsPlan,
    python: Option<&Path>,
    session: &mut Session<'_>,
) -> anyhow::Result<PairsReport> {
    let plan = &pairs.plan;
    let cores = session.environment().state.cores_usable;
    check_splits(&pairs.splits, &pairs.modes, cores)?;
    let mut loaded = Loaded::load(plan, &pairs.others, python, session)?;
    let models = loaded.models.clone();
    let units = units(&models, &loaded, &pairs.operators)?;
    let all = groups(pairs, &units, &loaded.processors);
    let possible = all.len();
    let chosen = match pairs.sample {
        Some(most) if most < possible => {
            let features: Vec<Vec<f64>> = all.iter().map(|group| features(group, &units)).collect();
            let numbers = spread(&features, most);
            numbers
                .into_iter()
                .map(|place| all[place].clone())
                .collect()
        }
        _ => all,
    };
    let folder = &plan.out;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let text = serde_json::to_vec_pretty(pairs)?;
    opdata::write_atomically(&folder.join(PLAN_FILE), &text)?;
    let mut rows = reopen_pairs(folder)?;
    let done: BTreeSet<String> = rows.iter().map(|row| row.group_id.clone()).collect();
    let env_hash = loaded.environment.env_hash.clone();
    let facts = Facts {
        pairs,
        target: loaded.target.to_string(),
        calibration: session.calibrations.load(&env_hash).ok().flatten(),
        env_hash,
        root: session.root.clone(),
    };
    session.progress.begin("measure", chosen.len() as u64);
    let mut lost = 0;
    for group in &chosen {
        let described = facts.describe(group, &units, &models);
        if done.contains(&described[0].group_id) {
            continue;
        }
        if session.interrupt.requested() {
            break;
        }
        let label = label(&described);
        session.progress.working(&label);
        let times = time(&mut loaded, pairs, group, &units);
        let own = match &times {
            Ok(times) => facts.with_times(described, times),
            Err(error) => failed(described, &format!("{error:#}")),
        };
        append_pairs(folder, &own)?;
        session.progress.point(&label, &outcome(&own));
        rows.extend(own);
        match times {
            Ok(_) => lost = 0,
            Err(error) => {
                lost += 1;
                if lost >= MOST_LOST {
                    return Err(error.context("the worker fails again and again"));
                }
                loaded.recover(plan)?;
            }
        }
    }
    session.progress.end();
    write_pairs(folder, &rows)?;
    Ok(PairsReport {
        folder: folder.clone(),
        rows,
        possible,
        wanted: chosen.len(),
    })
}

/// The plan of a run of pairs in a folder.
///
/// # Errors
/// Fails if there is none.
pub fn plan_of(folder: &Path) -> anyhow::Result<PairsPlan> {
    let path = folder.join(PLAN_FILE);
    let text = std::fs::read(&path)
        .with_context(|| format!("{}: not a folder of `opcollect pairs`", path.display()))?;
    let mut pairs: PairsPlan =
        serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    pairs.plan.out = folder.to_owned();
    Ok(pairs)
}

/// A group measured again: its rows of then and now.
#[derive(Debug, Clone, PartialEq)]
pub struct PairReplayed {
    /// As the run has them.
    pub before: Vec<PairRow>,
    /// As they are now.
    pub now: Vec<PairRow>,
}

impl PairReplayed {
    /// Whether the intervals of the slowdowns of then and now meet, for each operator.
    pub fn is_like_before(&self) -> bool {
        let meet = |(before, now): (&PairRow, &PairRow)| {
            let ends = (before.slowdown_low, before.slowdown_high);
            match (ends, (now.slowdown_low, now.slowdown_high)) {
                ((Some(low), Some(high)), (Some(own_low), Some(own_high))) => {
                    own_low <= high && low <= own_high
                }
                _ => false,
            }
        };
        self.before.iter().zip(&self.now).all(meet)
    }
}

impl PairsReport {
    /// Whether a group was not measured.
    pub fn has_failures(&self) -> bool {
        self.rows.iter().any(|row| row.slowdown.is_none())
    }
}

/// Measures one group of a run again.
///
/// # Errors
/// Fails if the run has no such group, or as [`measure`] does.
pub fn replay(
    folder: &Path,
    group_id: &str,
    python: Option<&Path>,
    session: &mut Session<'_>,
) -> anyhow::Result<PairReplayed> {
    let pairs = plan_of(folder)?;
    let rows = read_pairs(folder)?;
    let own = |row: &&PairRow| row.group_id == group_id;
    let before: Vec<PairRow> = rows.iter().filter(own).cloned().collect();
    if before.is_empty() {
        return Err(Misuse(format!("{} has no group {group_id}", folder.display())).into());
    }
    let mut loaded = Loaded::load(&pairs.plan, &pairs.others, python, session)?;
    let models = loaded.models.clone();
    let units = units(&models, &loaded, &pairs.operators)?;
    let facts = Facts {
        pairs: &pairs,
        target: loaded.target.to_string(),
        env_hash: before[0].env_hash.clone(),
        calibration: None,
        root: session.root.clone(),
    };
    let found = groups(&pairs, &units, &loaded.processors)
        .into_iter()
        .map(|group| (facts.describe(&group, &units, &models), group))
        .find(|(described, _)| described[0].group_id == group_id);
    let (described, group) = found.with_context(|| {
        format!("group {group_id} cannot be measured here: its processors or its target are others")
    })?;
    let times = time(&mut loaded, &pairs, &group, &units)?;
    Ok(PairReplayed {
        before,
        now: facts.with_times(described, &times),
    })
}

/// Refuses splits that need more processors than there are.
pub(super) fn check_splits(splits: &[Vec<u32>], modes: &[Mode], cores: u32) -> anyhow::Result<()> {
    for split in splits {
        let needed = |mode: &Mode| match mode {
            Mode::Partitioned => split.iter().sum(),
            Mode::TimeSliced => split.iter().copied().max().unwrap_or(0),
        };
        if let Some(mode) = modes.iter().find(|mode| needed(mode) > cores) {
            let next = match mode {
                Mode::Partitioned => "give a smaller split, or --mode time-sliced",
                Mode::TimeSliced => "give a smaller split",
            };
            return Err(Misuse(format!(
                "--split {}: {} needs {} processors, and this process may use {cores}; {next}",
                words(split),
                mode.name(),
                needed(mode),
            ))
            .into());
        }
    }
    Ok(())
}

/// The distinct operators of the requested models.
pub(super) fn units<'a>(
    models: &'a [opmodels::Imported],
    loaded: &Loaded,
    wanted: &[String],
) -> anyhow::Result<Vec<Unit<'a>>> {
    let mut seen = BTreeSet::new();
    let mut units = Vec::new();
    for (model, (imported, calls)) in models.iter().zip(&loaded.calls).enumerate() {
        for (call, made) in calls.iter().enumerate() {
            let operator = imported.graph.operator(&made.symbol);
            let operator = operator.context("a call of an unknown operator")?;
            if made.has_kernel && seen.insert(operator.workload_hash()) {
                units.push(Unit {
                    model,
                    call,
                    operator,
                });
            }
        }
    }
    let is = |unit: &Unit<'_>, name: &String| {
        let operator = unit.operator;
        [&operator.name, &operator.symbol].contains(&name) || operator.workload_hash() == *name
    };
    if let Some(unknown) = wanted
        .iter()
        .find(|name| !units.iter().any(|unit| is(unit, name)))
    {
        let mut names: Vec<&str> = units.iter().map(|u| u.operator.name.as_str()).collect();
        names.dedup();
        return Err(Misuse(format!(
            "--ops {unknown}: the models have no such operator; they have {}",
            names.join(", ")
        ))
        .into());
    }
    if !wanted.is_empty() {
        units.retain(|unit| wanted.iter().any(|name| is(unit, name)));
    }
    Ok(units)
}

/// All groups: of equal threads without regard to order, else in every order.
fn groups(pairs: &PairsPlan, units: &[Unit<'_>], processors: &[usize]) -> Vec<Group> {
    let mut all = Vec::new();
    for (split, threads) in pairs.splits.iter().enumerate() {
        let is_even = threads.iter().all(|own| *own == threads[0]);
        let mut tuples: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in threads {
            let longer = tuples.iter().flat_map(|tuple| {
                let from = if is_even {
                    tuple.last().copied().unwrap_or(0)
                } else {
                    0
                };
                (from..units.len()).map(move |next| [&tuple[..], &[next]].concat())
            });
            tuples = longer.collect();
        }
        for &mode in &pairs.modes {
            let places = places(threads, mode, processors);
            all.extend(tuples.iter().map(|tuple| Group {
                units: tuple.clone(),
                split,
                mode,
                processors: places.clone(),
            }));
        }
    }
    all
}

/// The processors of each part of a split.
pub(super) fn places(threads: &[u32], mode: Mode, processors: &[usize]) -> Vec<Vec<usize>> {
    let mut next = 0;
    let of = |&threads: &u32| {
        let first = match mode {
            Mode::Partitioned => next,
            Mode::TimeSliced => 0,
        };
        next += threads as usize;
        processors[first..first + threads as usize].to_vec()
    };
    threads.iter().map(of).collect()
}

/// Known properties that decide how the operators of a group disturb each other: bytes and arithmetic per byte of each.
fn features(group: &Group, units: &[Unit<'_>]) -> Vec<f64> {
    let mut all = vec![group.split as f64, group.mode as u8 as f64];
    for &unit in &group.units {
        let operator = units[unit].operator;
        let bytes = (operator.bytes_read + operator.bytes_written).max(1) as f64;
        let flops = (operator.flops + operator.flops_epilogue).max(1) as f64;
        all.extend([bytes.ln(), (flops / bytes).ln()]);
    }
    all
}

/// Has the worker time a group.
fn time(
    loaded: &mut Loaded,
    pairs: &PairsPlan,
    group: &Group,
    units: &[Unit<'_>],
) -> anyhow::Result<GroupTimes> {
    let members = group.units.iter().zip(&group.processors);
    let members = members.map(|(&unit, processors)| GroupMember {
        call: CallRef(units[unit].model, units[unit].call),
        processors: processors.clone(),
        schedule: None,
    });
    let spec = GroupSpec {
        members: members.collect(),
        rounds: pairs.rounds,
        span_ns: pairs.span_ns,
    };
    loaded.time(&pairs.plan, spec)
}

/// Facts that all rows of a run share.
struct Facts<'a> {
    pairs: &'a PairsPlan,
    target: String,
    env_hash: String,
    calibration: Option<Calibration>,
    root: opengine::env::Root,
}

impl Facts<'_> {
    /// The rows of a group without times.
    fn describe(
        &self,
        group: &Group,
        units: &[Unit<'_>],
        models: &[opmodels::Imported],
    ) -> Vec<PairRow> {
        let mut used: Vec<usize> = group.processors.concat();
        used.sort_unstable();
        used.dedup();
        let shared = shared_cache(&self.root, &used);
        let memory = self.memory_gbytes_per_s(used.len() as u32);
        let split = words(&self.pairs.splits[group.split]);
        let workloads: Vec<String> = group
            .units
            .iter()
            .map(|&unit| units[unit].operator.workload_hash())
            .collect();
        let key = serde_json::json!([
            workloads,
            group.processors,
            group.mode.name(),
            self.target,
            self.env_hash
        ]);
        let group_id = stable_hash(&[("group", &key.to_string())]);
        let members = group.units.iter().zip(&group.processors).enumerate();
        let row = |(member, (&unit, processors)): (usize, (&usize, &Vec<usize>))| {
            let Unit {
                model,
                call,
                operator,
            } = units[unit];
            let names: Vec<String> = processors.iter().map(ToString::to_string).collect();
            PairRow {
                pairs_version: PAIRS_VERSION,
                run_id: self.pairs.plan.run_id.clone(),
                group_id: group_id.clone(),
                member: member as u64,
                members: group.units.len() as u64,
                mode: group.mode.name().to_owned(),
                split: split.clone(),
                threads: processors.len() as u64,
                processors: names.join(","),
                shared_cache: shared.clone(),
                model: models[model].graph.model.clone(),
                call: call as u64,
                symbol: operator.symbol.clone(),
                op_name: operator.name.clone(),
                op_kind: operator.kind.name().to_owned(),
                workload_hash: workloads[member].clone(),
                target: self.target.clone(),
                env_hash: self.env_hash.clone(),
                flops: operator.flops + operator.flops_epilogue,
                bytes_read: operator.bytes_read,
                bytes_written: operator.bytes_written,
                memory_gbytes_per_s: memory,
                measured_at: Timestamp::now().to_string(),
                ..PairRow::default()
            }
        };
        members.map(row).collect()
    }

    /// The calibrated rate of reading from memory by some threads, or by the most that were calibrated below.
    fn memory_gbytes_per_s(&self, threads: u32) -> Option<f64> {
        let mut rates = self.calibration.as_ref()?.rates.iter();
        let own = rates.rfind(|own| own.threads <= threads)?;
        let read = own.read_gbytes_per_s.get(&Level::Memory)?;
        Some(read.rate.best)
    }

    /// Rows with the times of their group.
    fn with_times(&self, rows: Vec<PairRow>, times: &GroupTimes) -> Vec<PairRow> {
        let median = |ns: &[f64]| opdata::stats::median(ns.iter().copied());
        let gain: Option<f64> = times
            .members
            .iter()
            .map(|own| Some(median(&own.all_threads_ns)? / median(&own.together_ns)?))
            .sum();
        let with = |(row, own): (PairRow, &opengine::protocol::MemberTimes)| {
            let rounds = own.together_ns.iter().zip(&own.alone_ns);
            let ratios: Vec<f64> = rounds.map(|(together, alone)| together / alone).collect();
            let slowdown = Ratio::of(&ratios);
            let mut samples = Samples::new();
            ratios
                .iter()
                .filter_map(|ratio| Nanos::new(*ratio).ok())
                .for_each(|ratio| samples.push(ratio));
            let grade = samples.summary().ok().map(|s| quality(&s, times.slowdown));
            PairRow {
                status: Status::Measured.to_string(),
                alone_ns: median(&own.alone_ns),
                together_ns: median(&own.together_ns),
                all_threads_ns: median(&own.all_threads_ns),
                sensitivity: median(&own.beside_stream),
                pressure: median(&own.of_stream),
                slowdown: slowdown.map(|ratio| ratio.median),
                slowdown_low: slowdown.map(|ratio| ratio.low),
                slowdown_high: slowdown.map(|ratio| ratio.high),
                throughput_gain: gain,
                rounds: ratios.len() as u64,
                reference_slowdown: Some(times.slowdown),
                grade: grade.map(|grade| grade.as_str().to_owned()),
                ..row
            }
        };
        rows.into_iter().zip(&times.members).map(with).collect()
    }
}

/// The rows of a group that was not measured.
fn failed(rows: Vec<PairRow>, reason: &str) -> Vec<PairRow> {
    let with = |row| PairRow {
        status: Status::Crashed.to_string(),
        reason: Some(reason.lines().next().unwrap_or_default().to_owned()),
        ..row
    };
    rows.into_iter().map(with).collect()
}

fn label(rows: &[PairRow]) -> String {
    let names: Vec<&str> = rows.iter().map(|row| row.op_name.as_str()).collect();
    let (split, mode) = (&rows[0].split, &rows[0].mode);
    format!("{} ({split}, {mode})", names.join(" | "))
}

fn outcome(rows: &[PairRow]) -> String {
    match rows[0].throughput_gain {
        Some(gain) => {
            let slowdowns: Vec<String> = rows
                .iter()
                .filter_map(|row| Some(format!("×{:.3}", row.slowdown?)))
                .collect();
            format!(
                "slowdown {}, throughput ×{gain:.3}",
                slowdowns.join(" and ")
            )
        }
        None => format!(
            "{}: {}",
            rows[0].status,
            rows[0].reason.as_deref().unwrap_or_default()
        ),
    }
}

/// A split as it is written: `1+1`.
pub(super) fn words(split: &[u32]) -> String {
    let parts: Vec<String> = split.iter().map(ToString::to_string).collect();
    parts.join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_split_have_processors_of_their_own_or_the_same() {
        let processors = [2, 3, 6, 7];
        let of = |mode| places(&[1, 3], mode, &processors);
        assert_eq!(of(Mode::Partitioned), [vec![2], vec![3, 6, 7]]);
        assert_eq!(of(Mode::TimeSliced), [vec![2], vec![2, 3, 6]]);
    }
}
