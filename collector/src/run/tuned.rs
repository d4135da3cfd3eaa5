//! The last steps of a tuning run. It measures the fastest schedules again in a fresh process. Then it runs the whole
//! model with them and with default schedules, in turn.
//!
//! The fastest of many measurements is partly luck. So the best few of each operator, and the default schedule, are built
//! and measured once more, and the best of these measurements counts.

use std::collections::{BTreeMap, HashMap};

use opdata::{CacheState, Row};
use opengine::device::Conditions;
use opengine::measure::TimingPolicy;
use opengine::protocol::{MeasureSpec, QuietMoment, WholeModelSpec};
use opengine::runner::{Failure, Made, WorkerPool};
use opengine::schedule::ScheduleSpec;
use opmodels::Graph;

use super::collect::kernel_spec;
use super::in_model;
use crate::plan::{Plan, conditions};
use crate::propose::{Candidate, Trials};
use crate::report::{Comparison, Partial, TunedOperator, TunedReport};

/// Schedules of an operator that are measured again, beside the default one.
const FINALISTS: usize = 3;
/// Rounds of a comparison: the model with default schedules, then with tuned ones.
const ROUNDS: usize = 7;
/// Numbers of trials after which the latency is reported: 0, then this and its doubles.
const FIRST_PART: usize = 16;

/// A schedule of an operator, with its row.
struct Finalist<'r> {
    operator: usize,
    at: Conditions,
    spec: ScheduleSpec,
    row: &'r Row,
}

/// Measures the best schedules of `rows` again; `trials` are what tuners tried, in order.
pub(super) fn finish(
    plan: &Plan,
    graph: &Graph,
    rows: &[&Row],
    trials: &[Trials],
    runner: &mut WorkerPool,
    note: &mut dyn FnMut(&str),
) -> TunedReport {
    let mut report = TunedReport {
        partial: partial(graph, trials),
        ..TunedReport::default()
    };
    let finalists = finalists(graph, rows, &conditions(plan));
    note(&format!(
        "measuring the best {} schedules again in a fresh process",
        finalists.len()
    ));
    runner.rest();
    let times = measure_again(plan, graph, &finalists, runner);
    for at in conditions(plan) {
        for (operator, described) in graph.operators.iter().enumerate() {
            let own = finalists.iter().zip(&times);
            let mut own: Vec<(&Finalist<'_>, f64)> = own
                .filter(|(f, _)| f.operator == operator && f.at == at)
                .filter_map(|(finalist, ns)| Some((finalist, (*ns)?)))
                .collect();
            own.sort_by(|a, b| a.1.total_cmp(&b.1));
            let Some(((best, best_ns), others)) = own.split_first() else {
                continue;
            };
            let default = own.iter().find(|(f, _)| f.spec == ScheduleSpec::Default);
            let tried = rows.iter().filter(|row| {
                row.op_symbol.as_deref() == Some(&described.symbol)
                    && Conditions::of_row(row).as_ref() == Some(&at)
            });
            report.operators.push(TunedOperator {
                name: described.name.clone(),
                symbol: described.symbol.clone(),
                count: described.count,
                conditions: at.clone(),
                default_ns: default.map(|(_, ns)| *ns),
                best_ns: *best_ns,
                schedules: tried.count() as u64,
                row_id: best.row.row_id.clone(),
                spec: best.spec.clone(),
                others: others.iter().map(|(f, _)| f.spec.clone()).collect(),
            });
        }
    }
    report
}

/// The default schedule and the fastest few of each operator under each of the conditions.
fn finalists<'r>(graph: &Graph, rows: &[&'r Row], conditions: &[Conditions]) -> Vec<Finalist<'r>> {
    let mut all = Vec::new();
    for at in conditions {
        for (operator, described) in graph.operators.iter().enumerate() {
            let mut own: Vec<(&Row, f64)> = rows
                .iter()
                .filter(|row| row.op_symbol.as_deref() == Some(&described.symbol))
                .filter(|row| Conditions::of_row(row).as_ref() == Some(at))
                .filter(|row| row.status.has_time())
                .filter_map(|row| Some((*row, row.time_median_ns?)))
                .collect();
            own.sort_by(|a, b| a.1.total_cmp(&b.1));
            let mut left = FINALISTS;
            for (row, _) in own {
                let Some(spec) = spec(row) else {
                    continue;
                };
                if spec != ScheduleSpec::Default {
                    if left == 0 {
                        continue;
                    }
                    left -= 1;
                }
                all.push(Finalist {
                    operator,
                    at: at.clone(),
                    spec,
                    row,
                });
            }
        }
    }
    all
}

/// The schedule specification of a row's kernel.
fn spec(row: &Row) -> Option<ScheduleSpec> {
    match row.schedule_space.as_deref()? {
        "default" => Some(ScheduleSpec::Default),
        "trace" => Some(ScheduleSpec::Trace {
            trace: row.schedule_trace.as_ref()?.decode().ok()?,
        }),
        _ => Some(ScheduleSpec::Template {
            choice: row.schedule_knobs.as_ref()?.decode().ok()?,
        }),
    }
}

/// Median times of the finalists. `None` for those that failed.
fn measure_again(
    plan: &Plan,
    graph: &Graph,
    finalists: &[Finalist<'_>],
    runner: &mut WorkerPool,
) -> Vec<Option<f64>> {
    let numbered = || (0..).zip(finalists);
    let specs: Vec<_> = numbered()
        .map(|(place, finalist)| {
            let candidate = Candidate {
                place,
                operator: finalist.operator,
                schedule_spec: finalist.spec.clone(),
                conditions: vec![finalist.at.clone()],
            };
            kernel_spec(&graph.operators[finalist.operator], &candidate)
        })
        .collect();
    let mut built: HashMap<u64, Result<Made, Failure>> = HashMap::new();
    runner.build(&specs, &mut |id, made| {
        built.insert(id, made);
    });
    let times = numbered()
        .map(|(place, finalist)| {
            // A kernel that was built for other conditions is measured by the number that it has.
            let id = match built.get(&place)? {
                Ok(Made::New(_)) => place,
                Ok(Made::Duplicate { of }) => *of,
                Err(_) => return None,
            };
            let spec = MeasureSpec {
                id,
                at: finalist.at.clone(),
                policy: plan.timing,
                prune_beyond_ns: None,
                quiet: QuietMoment::Preferred,
            };
            let taken = runner.first.measure(&spec).ok()?.taken?;
            Some(taken.samples.summary().ok()?.median.get())
        })
        .collect();
    runner.forget(&specs.iter().map(|spec| spec.id).collect::<Vec<_>>());
    times
}

/// The model's latency by operators' times after a part of the trials, as a sum over calls, for each tuner.
fn partial(graph: &Graph, trials: &[Trials]) -> Vec<Partial> {
    let mut series: Vec<(&'static str, &Conditions)> = Vec::new();
    for tried in trials {
        if !series.contains(&(tried.tuner, &tried.conditions)) {
            series.push((tried.tuner, &tried.conditions));
        }
    }
    let of_series = |(tuner, at): (&'static str, &Conditions)| {
        let own = trials.iter();
        let own: Vec<&Trials> = own
            .filter(|tried| tried.tuner == tuner && tried.conditions == *at)
            .collect();
        // The default schedule is the first.
        let most = own.iter().map(|tried| tried.times.len()).max().unwrap_or(0);
        let most = most.saturating_sub(1);
        let doubles = std::iter::successors(Some(FIRST_PART), |part| Some(part * 2));
        let mut parts: Vec<usize> = std::iter::once(0)
            .chain(doubles.take_while(|part| *part < most))
            .chain([most])
            .collect();
        parts.dedup();
        let sum = |part: usize| -> Option<f64> {
            let best = |tried: &&Trials| {
                let times = tried.times.iter().take(part + 1).filter_map(|ns| *ns);
                let count = graph.operators[tried.operator].count as f64;
                Some(times.min_by(f64::total_cmp)? * count)
            };
            own.iter().map(best).sum()
        };
        let partial = parts.into_iter().map(|part| Partial {
            tuner,
            conditions: at.clone(),
            trials: part as u64,
            sum_ns: sum(part),
        });
        partial.collect::<Vec<_>>()
    };
    series.into_iter().flat_map(of_series).collect()
}

/// Measures the whole model with default and with tuned schedules in turn, each in a process of its own. Of the schedules
/// that were measured again, each operator takes the fastest inside the model.
///
/// # Errors
/// Fails if a model cannot be built, or has a wrong output.
pub(crate) fn compare(
    plan: &Plan,
    graph: &Graph,
    jobs: usize,
    tuned: &[TunedOperator],
    conditions: &[Conditions],
    runners: &mut dyn FnMut() -> anyhow::Result<WorkerPool>,
    note: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Comparison>> {
    let spec = |schedules| WholeModelSpec {
        graph: graph.clone(),
        jobs,
        schedules,
        export: None,
        watch_tasks: false,
    };
    let policy = TimingPolicy {
        stop: opengine::stats::StopRule {
            budget_ns: plan.timing.stop.budget_ns / 2,
            ..plan.timing.stop
        },
        ..plan.timing
    };
    let mut before = runners()?;
    in_model::build(&mut before, spec(BTreeMap::new()))?;
    let mut all = Vec::new();
    for at in conditions.iter().cloned() {
        let mut after = runners()?;
        let mut known: BTreeMap<&str, Vec<ScheduleSpec>> = BTreeMap::new();
        let own = |o: &&TunedOperator| {
            o.conditions.threads == at.threads && o.conditions.device == at.device
        };
        for operator in tuned.iter().filter(own) {
            let known = known.entry(&operator.symbol).or_default();
            for spec in [&operator.spec].into_iter().chain(&operator.others) {
                // Another state of the caches may have the same finalists.
                if !known.contains(spec) {
                    known.push(spec.clone());
                }
            }
        }
        let symbols: Vec<&str> = known.keys().copied().collect();
        let known = known.into_values().map(|mut all| (all.remove(0), all));
        let (mut chosen, others): (Vec<ScheduleSpec>, Vec<Vec<ScheduleSpec>>) = known.unzip();
        note(&format!(
            "the whole model with default and with tuned schedules in turn ({})",
            at.without_cache()
        ));
        let at = Conditions {
            cache: CacheState::Model,
            ..at
        };
        let with = |chosen: &[ScheduleSpec]| {
            let schedules = symbols.iter().zip(chosen);
            let schedules = schedules.map(|(symbol, spec)| ((*symbol).to_owned(), spec.clone()));
            spec(schedules.collect())
        };
        let measure = &mut |chosen: &[ScheduleSpec]| {
            in_model::build(&mut after, with(chosen))?;
            let measured = in_model::time(&mut after, &at, policy)?;
            anyhow::Ok((measured.latency_ns, measured.of(symbols.iter().copied())))
        };
        in_model::choose(&mut chosen, &others, measure, note)?;
        let ready = in_model::build(&mut after, with(&chosen))?;
        let median = |runner: &mut WorkerPool| -> anyhow::Result<f64> {
            Ok(in_model::time(runner, &at, policy)?.latency_ns)
        };
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push((median(&mut before)?, median(&mut after)?));
        }
        after.rest();
        all.extend(Comparison::of(at, &rounds, ready.comparison.max_abs_error));
    }
    before.rest();
    Ok(all)
}
