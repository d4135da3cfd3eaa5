//! `opcollect pairs`: operators measured alone and at the same time.
//!
//! Calls of equal operators are measured once. Groups with one operator for each part of a split are measured on each
//! split of threads. The rows of a group are on disk before the next group is measured. A run that was stopped or
//! killed continues where it was ([`PairsPlan`] is stored beside them).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use opdata::contract::CallRef;
use opdata::contract::pairs::{PairRow, append_pairs, read_pairs, reopen_pairs, write_pairs};
use opengine::protocol::{GroupMember, GroupSpec, GroupTimes};
use opmodels::ImportRequest;
use opreport::Misuse;
use serde::{Deserialize, Serialize};

use super::Loaded;
use super::groups::{Group, Mode, Unit, check_splits, features, groups, units};
use super::rows::{Facts, failed, label, outcome};
use super::sample::spread;
use crate::plan::Plan;
use crate::run::Session;

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
    /// How the operators of a group share processors.
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

/// The result of a run of pairs.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// Measures groups of operators, or continues a run.
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
    let all = groups(&pairs.splits, &pairs.modes, &units, &loaded.processors);
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
        run_id: &plan.run_id,
        splits: &pairs.splits,
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
    /// The pairs as the run has them.
    pub before: Vec<PairRow>,
    /// The pairs as measured now.
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
        run_id: &pairs.plan.run_id,
        splits: &pairs.splits,
        target: loaded.target.to_string(),
        env_hash: before[0].env_hash.clone(),
        calibration: None,
        root: session.root.clone(),
    };
    let found = groups(&pairs.splits, &pairs.modes, &units, &loaded.processors)
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
