//! `opcollect apply`: a model compiled with the best schedules that the store knows.
//!
//! Operators are looked up by workload, target and machine, and take the schedule that is the fastest inside the model
//! ([`in_model`]). An operator without a schedule tries that of the nearest workload of its kind ([`nearest`]), else
//! keeps the default one. It is named, with how to get one. The model is checked and timed; on request it is compared
//! with default schedules in turn. It can be written as a shared library that TVM's runtime loads, and as the scheduled
//! module; its schedules as a database of MetaSchedule ([`database`]).

mod database;
mod nearest;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, ValueHint};
use opengine::device::Conditions;
use opengine::protocol::{Export, WholeModelSpec};
use opengine::runner::WorkerPool;
use opengine::schedule::ScheduleSpec;
use opmodels::graph::Operator;
use opmodels::{Graph, Imported};
use serde::Serialize;
use tvm_bridge::database::workload_hash;

use crate::operator_ir;
use crate::plan::{Plan, Planned, model_conditions};
use crate::report::{Comparison, TunedOperator};
use crate::run::in_model::{self, InModel};
use crate::run::{Session, compare_models, runner, scratch};
use crate::store::{Entry, Store, workload_key};

pub use database::Exported;

/// Schedules of each state of the caches that are tried inside the model.
const OF_EACH_STATE: usize = 3;

/// A model to compile, and the files to write.
#[derive(Debug, PartialEq)]
pub struct ApplyRequest {
    /// The model, the target, the threads and the store.
    pub planned: Box<Planned>,
    /// The comparison and the files.
    pub options: ApplyOptions,
}

/// The comparison and the files to make: flags of `opcollect apply`.
#[derive(Debug, PartialEq, Args)]
#[command(next_help_heading = "Results")]
pub struct ApplyOptions {
    /// Also measure the model with default schedules, in turn with the store's
    #[arg(long)]
    pub compare: bool,
    /// Write a shared library that TVM's runtime loads
    #[arg(long, value_name = "FILE.so", value_hint = ValueHint::FilePath)]
    pub library: Option<PathBuf>,
    /// Write the scheduled module as TVM's JSON
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub module: Option<PathBuf>,
    /// Write the schedules as a MetaSchedule database, a new folder, for MetaScheduleApplyDatabase
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub database: Option<PathBuf>,
}

/// An operator with its schedule from the store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Applied {
    /// Readable name.
    pub name: String,
    /// Hash of the workload.
    pub workload: String,
    /// Calls in one run of the model.
    pub count: u64,
    /// Floating-point operations of all calls.
    #[serde(skip)]
    pub flops: u64,
    /// Median time of one call inside the model, nanoseconds.
    pub in_model_ns: Option<f64>,
    /// The schedule of the store. `None` if it has none.
    #[serde(rename = "schedule")]
    pub entry: Option<Entry>,
    /// Whether the schedule is that of another workload.
    pub is_nearest: bool,
    /// Whether the default schedule was taken, because it is faster inside the model.
    pub takes_default: bool,
}

/// A model with the schedules of the store.
#[derive(Debug, Clone, PartialEq)]
pub struct AppliedModel {
    /// The model.
    pub model: String,
    /// Number of threads that the schedules are the best for.
    pub threads: u32,
    /// Its operators.
    pub operators: Vec<Applied>,
    /// Median end-to-end time, nanoseconds.
    pub latency_ns: f64,
    /// The reference of the output.
    pub checked_against: String,
    /// The operators whose schedule in the database is another one; none if no database was written.
    pub exported: Exported,
    /// The comparison with default schedules, if requested.
    pub comparison: Option<Comparison>,
}

impl Applied {
    /// The same operator with the schedule of another workload.
    fn with_nearest(&self, entry: Entry) -> Applied {
        Applied {
            entry: Some(entry),
            is_nearest: true,
            ..self.clone()
        }
    }

    /// The operator with the first schedule of its workload, and the alternatives to try: the others, then the default
    /// one.
    fn among(self, entries: Vec<Entry>) -> (Applied, Vec<Applied>) {
        let with = |entry| Applied {
            entry: Some(entry),
            ..self.clone()
        };
        let mut tried = entries.into_iter().map(with);
        let Some(first) = tried.next() else {
            return (self, Vec::new());
        };
        let default = Applied {
            takes_default: true,
            ..first.clone()
        };
        let others = tried.chain([default]).collect();
        (first, others)
    }
}

impl AppliedModel {
    /// The share of a sum over the operators, from 0 to 1, for which the store has a schedule of the same workload;
    /// `of` gives each operator's part.
    pub fn coverage(&self, of: impl Fn(&Applied) -> f64) -> f64 {
        let covered: f64 = self
            .operators
            .iter()
            .filter(|operator| operator.entry.is_some() && !operator.is_nearest)
            .map(&of)
            // `sum` would return −0 for an empty iterator.
            .fold(0.0, |sum, own| sum + own);
        let all: f64 = self.operators.iter().map(&of).sum();
        covered / all
    }
}

/// Compiles and measures a model with the schedules of the store.
///
/// # Errors
/// Fails if there is no store, if the model cannot be imported or built, if its output is wrong, or if a file cannot be
/// written.
pub fn apply(request: &ApplyRequest, session: &mut Session<'_>) -> anyhow::Result<AppliedModel> {
    let plan = &request.planned.plan;
    let threads = plan.threads.iter().copied().max().unwrap_or(1);
    let environment = session.environment_of(plan)?;
    let target = plan.target.dictionary(&environment);
    session
        .progress
        .working(&format!("importing {}", plan.model.model));
    let python = request.planned.python.as_deref();
    let imported = session.importer.import(&plan.model, python, &mut |_| {})?;
    let graph = &imported.graph;
    let jobs = session.environment().state.cores_usable as usize;
    let folder = scratch()?;
    let mut own = runner(plan, &imported, &target, jobs, session, folder.path())?;
    let at = most_threads(plan)?;
    session
        .progress
        .working("building the model with its best schedules and checking its output");
    let machine = &environment.env_hash;
    let lookup = Lookup {
        plan,
        imported: &imported,
        target: &target,
        machine,
        jobs,
    };
    let mut operators = lookup.fastest_inside(&mut own, &mut |text| session.progress.note(text))?;
    let absolute = |path: &Option<PathBuf>| path.as_deref().map(std::path::absolute).transpose();
    let export = Export {
        library: absolute(&request.options.library)?,
        module: absolute(&request.options.module)?,
    };
    let (measured, checked_against) = lookup.measure(&mut own, &operators, Some(export))?;
    let times = measured.of(graph.operators.iter().map(|o| o.symbol.as_str()));
    for (operator, in_model_ns) in operators.iter_mut().zip(times) {
        operator.in_model_ns = in_model_ns;
    }
    own.rest();
    let exported = match &request.options.database {
        Some(folder) => {
            let model = (graph, &operator_ir::module(&imported.folder)?);
            database::write(folder, model, &target, &operators, &mut store(plan)?)?
        }
        None => Exported::default(),
    };
    let comparison = match request.options.compare {
        false => None,
        true => {
            let tuned: Vec<TunedOperator> = graph
                .operators
                .iter()
                .zip(&operators)
                .filter(|(_, applied)| !applied.takes_default)
                .filter_map(|(operator, applied)| {
                    let entry = applied.entry.as_ref()?;
                    let spec = entry.spec()?;
                    Some(TunedOperator {
                        name: operator.name.clone(),
                        symbol: operator.symbol.clone(),
                        count: operator.count,
                        conditions: at.clone(),
                        default_ns: None,
                        best_ns: entry.time_ns,
                        schedules: 0,
                        row_id: entry.source.clone(),
                        spec,
                        others: Vec::new(),
                    })
                })
                .collect();
            let another = &mut || runner(plan, &imported, &target, jobs, session, folder.path());
            compare_models(
                plan,
                graph,
                jobs,
                &tuned,
                std::slice::from_ref(&at),
                another,
                &mut |_| {},
            )?
            .pop()
        }
    };
    Ok(AppliedModel {
        model: plan.model.model.clone(),
        threads,
        operators,
        latency_ns: measured.latency_ns,
        checked_against,
        exported,
        comparison,
    })
}

/// A model, and where its schedules are looked up, at the most threads of a plan.
pub(crate) struct Lookup<'a> {
    /// The store, the threads, how to time.
    pub plan: &'a Plan,
    /// The model.
    pub imported: &'a Imported,
    /// The target of the compiler, as TVM describes it.
    pub target: &'a serde_json::Value,
    /// Hash of the machine's environment.
    pub machine: &'a str,
    /// Threads that compile.
    pub jobs: usize,
}

impl Lookup<'_> {
    /// The best schedule that the store knows of each operator, at the most threads of a plan, and others to try.
    ///
    /// # Errors
    /// Fails if there is no store, or if it cannot be read.
    fn known(&self) -> anyhow::Result<(Vec<Applied>, Vec<Vec<Applied>>)> {
        let &Self {
            plan,
            imported,
            target,
            machine,
            ..
        } = self;
        let mut store = store(plan)?;
        let threads = plan.threads.iter().copied().max().unwrap_or(1);
        let mut module = None;
        let mut of = |operator: &Operator| {
            let workload = operator.workload_hash();
            let mut best = store.best(&workload, target, machine, Some(threads), usize::MAX)?;
            if best.is_empty() {
                // MetaSchedule's databases know the function by another hash, and times at the target's number of cores.
                let module = match &module {
                    Some(module) => module,
                    None => module.insert(operator_ir::module(&imported.folder)?),
                };
                let hash = workload_hash(&module.prim_func(&operator.symbol)?)?;
                best = store.best(&workload_key(&hash), target, machine, None, usize::MAX)?;
            }
            best.retain(|entry| applies(plan, entry));
            let without = Applied {
                name: operator.name.clone(),
                workload,
                count: operator.count,
                flops: operator.count * operator.flops,
                in_model_ns: None,
                entry: None,
                is_nearest: false,
                takes_default: false,
            };
            anyhow::Ok(without.among(finalists(best)))
        };
        imported.graph.operators.iter().map(&mut of).collect()
    }

    /// The operators of the model, each with the schedule of the store that is the fastest inside the model.
    ///
    /// # Errors
    /// Fails if there is no store, if it cannot be read, or if the model cannot be built or measured.
    fn fastest_inside(
        &self,
        runner: &mut WorkerPool,
        note: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Vec<Applied>> {
        let (mut operators, mut others) = self.known()?;
        nearest::fill(self, runner, &operators, &mut others)?;
        let symbols = || {
            let operators = self.imported.graph.operators.iter();
            operators.map(|operator| operator.symbol.as_str())
        };
        let measure = &mut |operators: &[Applied]| {
            let (measured, _) = self.measure(runner, operators, None)?;
            anyhow::Ok((measured.latency_ns, measured.of(symbols())))
        };
        in_model::choose(&mut operators, &others, measure, note)?;
        Ok(operators)
    }

    /// The schedules of the store with which the model's operators are fastest, by function.
    ///
    /// # Errors
    /// Fails if there is no store, if it cannot be read, or if the model cannot be built or measured.
    pub fn schedules(
        &self,
        runner: &mut WorkerPool,
        note: &mut dyn FnMut(&str),
    ) -> anyhow::Result<BTreeMap<String, ScheduleSpec>> {
        let fastest = self.fastest_inside(runner, note)?;
        Ok(schedules(&self.imported.graph, &fastest))
    }

    /// Builds and times the model; returns its times and the reference of its output.
    fn measure(
        &self,
        runner: &mut WorkerPool,
        operators: &[Applied],
        export: Option<Export>,
    ) -> anyhow::Result<(InModel, String)> {
        let graph = &self.imported.graph;
        let spec = WholeModelSpec {
            graph: graph.clone(),
            jobs: self.jobs,
            schedules: schedules(graph, operators),
            export,
            watch_tasks: false,
        };
        let ready = in_model::build(runner, spec)?;
        let measured = in_model::time(runner, &most_threads(self.plan)?, self.plan.timing)?;
        Ok((measured, ready.checked_against))
    }
}

/// The schedules of the store to try, the fastest first: a few from each state of the caches.
fn finalists(known: Vec<Entry>) -> Vec<Entry> {
    let mut finalists: Vec<Entry> = Vec::new();
    for entry in known {
        let of_state = finalists.iter().filter(|f| f.key.cache == entry.key.cache);
        let is_new = !finalists
            .iter()
            .any(|f| f.program_hash == entry.program_hash);
        if is_new && of_state.count() < OF_EACH_STATE {
            finalists.push(entry);
        }
    }
    finalists
}

/// The store of a plan.
///
/// # Errors
/// Fails if there is none, or if it cannot be opened.
fn store(plan: &Plan) -> anyhow::Result<Store> {
    let path = plan.store.as_deref();
    let path = path.context("--store none: there is nothing to apply")?;
    match Store::existing(path)? {
        Some(store) => Ok(store),
        None => bail!(
            "the store {} is not there; tune a model (--iftune=true) or fill it: opcollect store import RUN",
            path.display()
        ),
    }
}

/// The conditions of a whole model at the most threads of a plan.
fn most_threads(plan: &Plan) -> anyhow::Result<Conditions> {
    let most = plan.threads.iter().max();
    let all = model_conditions(plan).into_iter();
    let mut own = all.filter(|at| Some(&at.threads) == most);
    own.next_back().context("no threads")
}

/// Whether this version can make an entry's schedule: a store of several versions may have knobs that it does not know.
fn applies(plan: &Plan, entry: &Entry) -> bool {
    match entry.spec() {
        Some(ScheduleSpec::Template { choice }) => plan.target.device.read_choice(choice).is_ok(),
        Some(_) => true,
        None => false,
    }
}

fn schedules(graph: &Graph, operators: &[Applied]) -> BTreeMap<String, ScheduleSpec> {
    let operators = graph.operators.iter().zip(operators);
    operators
        .filter(|(_, applied)| !applied.takes_default)
        .filter_map(|(operator, applied)| {
            Some((operator.symbol.clone(), applied.entry.as_ref()?.spec()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::entry;

    pub fn operator() -> Applied {
        Applied {
            name: "dense".to_owned(),
            workload: "w".to_owned(),
            count: 1,
            flops: 1,
            in_model_ns: None,
            entry: None,
            is_nearest: false,
            takes_default: false,
        }
    }

    /// The final schedule of an operator, with a note; `time` gives the time of each candidate inside the model.
    fn chosen(
        (own, others): (Applied, Vec<Applied>),
        time: impl Fn(&Applied) -> anyhow::Result<f64>,
    ) -> (Applied, usize) {
        let (mut operators, mut notes) = ([own], 0);
        let measure = &mut |tried: &[Applied]| {
            let ns = time(&tried[0])?;
            anyhow::Ok((ns, vec![Some(ns)]))
        };
        in_model::choose(&mut operators, &[others], measure, &mut |_| notes += 1).unwrap();
        let [operator] = operators;
        (operator, notes)
    }

    #[test]
    fn the_default_schedule_is_taken_where_it_is_faster_and_the_stores_is_kept_beside_it() {
        let known = vec![entry("a", 1, 5.0), entry("a", 2, 6.0)];
        let (own, others) = operator().among(known);
        let tried: Vec<bool> = others.iter().map(|o| o.takes_default).collect();
        assert_eq!(tried, [false, true]);
        let time = |o: &Applied| Ok(if o.takes_default { 50.0 } else { 100.0 });
        let (operator, _) = chosen((own, others), time);
        assert!(operator.takes_default && operator.entry.is_some() && !operator.is_nearest);
    }

    #[test]
    fn another_workloads_schedule_is_taken_if_it_is_faster_and_one_that_fails_is_not() {
        let (own, mut others) = operator().among(Vec::new());
        assert!(own.entry.is_none() && others.is_empty());
        others
            .extend([entry("near", 1, 6.0), entry("broken", 1, 1.0)].map(|e| own.with_nearest(e)));
        let (operator, notes) = chosen((own, others), |o| match &o.entry {
            None => Ok(100.0),
            Some(entry) if entry.time_ns > 1.0 => Ok(10.0 * entry.time_ns),
            Some(_) => bail!("does not build"),
        });
        assert!(operator.is_nearest);
        assert_eq!((operator.entry.unwrap().time_ns, notes), (6.0, 1));
    }

    #[test]
    fn finalists_are_of_each_state_of_the_caches() {
        let of = |cache: &str, time_ns: f64| {
            let mut entry = entry("w", time_ns as u64, time_ns);
            entry.key.cache = cache.to_owned();
            entry
        };
        let model = (1..=6).map(|n| of("model", f64::from(n)));
        let flushed = (7..=8).map(|n| of("flushed", f64::from(n)));
        let times: Vec<f64> = finalists(model.chain(flushed).collect())
            .iter()
            .map(|entry| entry.time_ns)
            .collect();
        assert_eq!(times, [1.0, 2.0, 3.0, 7.0, 8.0]);
    }
}
