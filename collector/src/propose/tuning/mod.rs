//! Tuning: a proposer whose candidates follow from measurements.
//!
//! Each operator is a task with a tuner of its own. A scheduler gives the next batch to the task from which the model's
//! latency gains most. All tuners are files here, and lines of [`make`].
//!
//! | module | for |
//! | --- | --- |
//! | [`grid`] | the space of an operator as points |
//! | [`tuner`] | what a tuner is and what it knows |
//! | [`task`] | one operator: its trials, its tuner, when it ends |
//! | [`learned`] | the cost model that all operators share |
//! | [`auto`], [`boosted`], [`droplet`], [`genetic`], [`gridsearch`], [`metaschedule`], [`random`] | the tuners |

mod auto;
mod boosted;
mod droplet;
mod genetic;
mod grid;
mod gridsearch;
mod learned;
mod metaschedule;
mod random;
mod task;
mod tuner;

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context as _, anyhow, bail};
use opdata::contract::Environment;
use opdata::contract::plan::TuningPolicy;
use opdata::{Row, Status, read_rows};
use opengine::device::Conditions;
use opengine::runner::WorkerPool;
use opengine::schedule::{Choice, ScheduleSpec};
use oplearn::features::machine::MachineFacts;
use opmodels::Imported;
use opmodels::graph::Operator;

use super::{Candidate, Drawing, Outcome, Proposer, Trials};
use crate::plan::{self, Plan};
use crate::store::Store;
use crate::tuners;
use boosted::{Boosted, Objective, Sees};
pub(crate) use grid::Grid;
use grid::Point;
use learned::Learned;
use metaschedule::{MetaSchedule, Origin};
use task::{Task, TaskSpec};
use tuner::{SearchState, Tuner};

/// Candidates of one operator that are built together, then measured (AutoTVM and MetaSchedule: 64).
const BATCH: usize = 16;
/// Number of schedules of the store that a task starts from.
const KNOWN: usize = 4;

/// The tuner of a name of [`crate::tuners::TUNERS`], for an operator.
fn make(name: &str, origin: &Origin, seed: u64) -> Option<Box<dyn Tuner>> {
    let boosted = |sees, objective| Box::new(Boosted { sees, objective }) as Box<dyn Tuner>;
    Some(match name {
        "auto" => Box::<auto::Auto>::default(),
        "xgb" => boosted(Sees::LoopNest, Objective::Cost),
        "xgb-rank" => boosted(Sees::LoopNest, Objective::Rank),
        "xgb_knob" => boosted(Sees::Knobs, Objective::Cost),
        "xgb_curve" => boosted(Sees::Curve, Objective::Cost),
        "ga" => Box::new(genetic::Genetic),
        "droplet" => Box::new(droplet::Droplet),
        "random" => Box::new(random::Random),
        "gridsearch" => Box::<gridsearch::GridSearch>::default(),
        "metaschedule" => Box::new(MetaSchedule::new(origin.clone(), seed)),
        _ => return None,
    })
}

/// Proposes by measurements.
pub struct Tuning {
    plan_seed: u64,
    conditions: Vec<Conditions>,
    tasks: Vec<Task>,
    learned: Learned,
    place: u64,
    /// Proposed candidates: the task, and point and key. The default schedule has these only if the space contains it.
    pending: HashMap<u64, (usize, Option<(Point, String)>)>,
    /// Whether a tuner asks the shared model.
    learns: bool,
    /// Tasks whose default schedule was not proposed.
    untouched: usize,
    problem: Option<String>,
}

/// Makes the proposer of a plan that tunes.
///
/// # Errors
/// Fails if the spaces cannot be described, XGBoost's library is missing, or a history is of another target or machine.
pub(super) fn draw(
    plan: &Plan,
    policy: &TuningPolicy,
    imported: &Imported,
    environment: &Environment,
    runner: &mut WorkerPool,
) -> anyhow::Result<Drawing> {
    let graph = &imported.graph;
    let learns = |name: &String| tuners::named(name).is_some_and(|tuner| tuner.learns);
    if policy.tuners.iter().any(learns) {
        oplearn::xgboost::version().context(
            "this tuner learns with XGBoost's library, which `scripts/setup` installs; ga, droplet, random and gridsearch do without",
        )?;
    }
    let symbols: Vec<String> = graph.operators.iter().map(|o| o.symbol.clone()).collect();
    let spaces = runner
        .first
        .spaces(&symbols)
        .map_err(|f| anyhow!(f.reason))?;
    let facts = serde_json::to_value(environment)?;
    let mut learned = Learned::new(MachineFacts::of_environment(&environment.env_hash, &facts)?);
    let target = plan.target.dictionary(environment);
    for folder in &policy.history {
        for row in history(folder, environment, &target)? {
            learned.add(&row);
        }
    }
    let conditions = plan::conditions(plan);
    let mut store = plan.store.as_deref().map(Store::open).transpose()?;
    let mut tasks = Vec::new();
    for (operator, space) in spaces.into_iter().enumerate() {
        let workload = graph.operators[operator].workload_hash();
        let known = match &mut store {
            Some(store) => known(store, &graph.operators[operator], &target, environment)?,
            None => Vec::new(),
        };
        let seed = super::draw::operator_seed(plan.seed, &workload);
        let origin = Origin {
            import: imported.folder.clone(),
            symbol: graph.operators[operator].symbol.clone(),
            target: target.clone(),
            trials: usize::try_from(policy.trials).unwrap_or(usize::MAX),
            threads: environment.state.cores_usable.max(1) as usize,
        };
        for name in &policy.tuners {
            tasks.push(Task::new(TaskSpec {
                operator,
                count: graph.operators[operator].count,
                base: space.base.clone(),
                grid: Grid::new(plan.target.device, space.clone()),
                known: known.clone(),
                tuner: tuners::named(name)
                    .and_then(|known| Some((known.name, make(name, &origin, seed)?)))
                    .with_context(|| format!("there is no tuner {name}"))?,
                trials: policy.trials,
                seed,
            }));
        }
    }
    let operators = (0..graph.operators.len()).map(|o| (o, super::draw::default_alone()));
    Ok(Drawing {
        operators: operators.collect(),
        all_shards: 0,
        proposer: Box::new(Tuning {
            plan_seed: plan.seed,
            conditions,
            learned,
            place: 0,
            pending: HashMap::new(),
            learns: policy.tuners.iter().any(|name| name == "auto"),
            untouched: tasks.len(),
            tasks,
            problem: None,
        }),
    })
}

/// Schedules of the store to start from: those of the workload, or else of the nearest ones.
fn known(
    store: &mut Store,
    operator: &Operator,
    target: &serde_json::Value,
    environment: &Environment,
) -> anyhow::Result<Vec<Choice>> {
    let machine = &environment.env_hash;
    let known = store.choices(&operator.workload_hash(), target, machine, KNOWN)?;
    if !known.is_empty() {
        return Ok(known);
    }
    let near = store.nearest(operator.kind.name(), &operator.shapes(), target, machine)?;
    let near = near.into_iter().take(KNOWN);
    Ok(near.map(|entry| entry.choice).collect())
}

/// Rows of an earlier run to learn from.
fn history(
    folder: &std::path::Path,
    environment: &Environment,
    target: &serde_json::Value,
) -> anyhow::Result<Vec<Row>> {
    let rows = read_rows(folder).with_context(|| format!("--history {}", folder.display()))?;
    let other = rows
        .iter()
        .find(|row| row.env_hash.as_deref() != Some(&environment.env_hash));
    if let Some(row) = other {
        bail!(
            "--history {}: its rows are of the machine {}, and this is {}; give a history of this machine",
            folder.display(),
            row.env_hash.as_deref().unwrap_or("unknown"),
            environment.env_hash
        );
    }
    let text = target.to_string();
    let is_other = |row: &&Row| Conditions::dictionary_of_row(row).is_some_and(|own| own != text);
    if let Some(row) = rows.iter().find(is_other) {
        bail!(
            "--history {}: its rows are of the target {}, and this run's is {text}; give a history of this target",
            folder.display(),
            Conditions::dictionary_of_row(row).unwrap_or_default()
        );
    }
    Ok(rows)
}

/// The row that a point would have, as far as it is known before it is built; none before the default schedule has one.
fn candidate_row(search: &SearchState<'_>, point: &[usize]) -> Option<Row> {
    let grid = &search.history.grid;
    let choice = grid.choice(point)?;
    let mut row = search.base?.clone();
    row.schedule_space = Some("template".to_owned());
    let knobs = serde_json::to_value(&choice).ok()?;
    row.schedule_knobs = Some(opdata::JsonText::from(&knobs));
    grid.device().fill_schedule(&mut row, &choice);
    Some(row)
}

impl Tuning {
    fn candidate(
        &mut self,
        task: usize,
        point: Option<(Point, String)>,
        spec: ScheduleSpec,
    ) -> Candidate {
        let place = self.place;
        self.place += 1;
        self.pending.insert(place, (task, point));
        Candidate {
            place,
            operator: self.tasks[task].operator,
            schedule_spec: spec,
            conditions: self.conditions.clone(),
        }
    }

    /// The default schedule of tasks that have none yet: all others are judged by it.
    fn defaults(&mut self, n: usize) -> Vec<Candidate> {
        let first = self.tasks.len() - self.untouched;
        let next = first..self.tasks.len().min(first + n);
        self.untouched -= next.len();
        next.map(|task| {
            let point = self.tasks[task].begin();
            self.candidate(task, point, ScheduleSpec::Default)
        })
        .collect()
    }

    fn try_propose(&mut self, n: usize) -> anyhow::Result<Vec<Candidate>> {
        if self.learns {
            self.learned.train(self.plan_seed)?;
        }
        loop {
            let open = (0..self.tasks.len()).filter(|&task| !self.tasks[task].is_ended());
            let next = open.max_by(|&a, &b| self.tasks[a].gain().total_cmp(&self.tasks[b].gain()));
            let Some(task) = next else {
                return Ok(Vec::new());
            };
            let points = self.tasks[task].propose(&self.learned, n.min(BATCH))?;
            if !points.is_empty() {
                let candidates = points.into_iter();
                return Ok(candidates
                    .map(|(point, spec)| self.candidate(task, Some((point, spec.key())), spec))
                    .collect());
            }
        }
    }
}

impl Proposer for Tuning {
    fn propose(&mut self, n: usize) -> Vec<Candidate> {
        if self.untouched > 0 {
            return self.defaults(n);
        }
        self.try_propose(n).unwrap_or_else(|error| {
            self.problem = Some(format!("{error:#}"));
            Vec::new()
        })
    }

    fn observe(&mut self, outcomes: &[Outcome]) {
        let mut by_place: BTreeMap<u64, Vec<&Outcome>> = BTreeMap::new();
        for outcome in outcomes {
            by_place.entry(outcome.place).or_default().push(outcome);
        }
        for (place, outcomes) in by_place {
            let Some((task, point)) = self.pending.remove(&place) else {
                continue;
            };
            for outcome in &outcomes {
                if outcome.row.status == Status::Measured {
                    self.learned.add(&outcome.row);
                }
            }
            self.tasks[task].observe(point, &outcomes, self.conditions.len());
        }
    }

    fn fixed_candidates(&self) -> &[Candidate] {
        &[]
    }

    fn points(&self) -> u64 {
        let trials: u64 = self.tasks.iter().map(Task::most_trials).sum();
        trials * self.conditions.len() as u64
    }

    fn trials(&self) -> Vec<Trials> {
        self.tasks.iter().flat_map(Task::trials).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let failed = self.tasks.iter().filter_map(Task::complaint);
        self.problem.clone().into_iter().chain(failed).collect()
    }
}

#[cfg(test)]
mod tests;
