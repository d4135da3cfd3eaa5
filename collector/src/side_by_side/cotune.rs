//! `opcollect cotune`: operators that run at the same time get threads and schedules chosen together.
//!
//! Schedules are drawn and timed alone on the threads of each split. The fastest of each operator are combined. A
//! combination is predicted by the times alone and the slowdowns learned from pairs. The best predicted ones are
//! measured at the same time. The best of these is measured in turn with each operator's own best.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum, ValueHint};
use opdata::contract::CallRef;
use opdata::contract::pairs::read_all_pairs;
use opengine::protocol::{GroupMember, GroupSpec, GroupTimes};
use opengine::schedule::ScheduleSpec;
use oplearn::interference::{Neighbour, Slowdowns};
use opmodels::graph::Operator;
use opreport::{Misuse, units};
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::groups::{Mode, check_splits, places, split, units as units_of, words};
use super::{Loaded, others};
use crate::plan::Planned;
use crate::plan::parse::duration_ns;
use crate::propose::Grid;
use crate::report::Ratio;
use crate::run::Session;

/// Number of an operator's schedules that are combined with those of the others.
const COMBINED: usize = 6;
/// Draws of a new schedule before a space counts as exhausted.
const ATTEMPTS: usize = 200;

/// The objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Objective {
    /// The highest throughput.
    // The sum over the operators of the time alone on all threads, divided by the time at the same time.
    Throughput,
    /// The lowest latency of the slowest operator.
    Latency,
}

/// Operators to tune together.
#[derive(Debug, PartialEq)]
pub struct CotuneRequest {
    /// The first model, the target and the seed.
    pub planned: Box<Planned>,
    /// Further models of the same source.
    pub others: Vec<String>,
    /// The operators, and how they are tuned.
    pub how: CotuneOptions,
}

/// The operators that are tuned together, and how: flags of `opcollect cotune`.
#[derive(Debug, PartialEq, Args)]
#[command(next_help_heading = "Tuning together")]
pub struct CotuneOptions {
    /// Operators that run at the same time: their names, functions or workloads; one for each part of a split
    #[arg(
        long = "ops",
        value_name = "OPERATOR,…",
        value_delimiter = ',',
        required = true
    )]
    pub operators: Vec<String>,
    /// Threads of each operator, as in 1+1; of several splits, the best is chosen
    #[arg(long = "split", value_name = "N+N,…", value_delimiter = ',', default_value = "1+1", value_parser = split)]
    pub splits: Vec<Vec<u32>>,
    /// Objective: the highest throughput, or the lowest latency of the slowest operator
    #[arg(long, value_name = "OBJECTIVE", default_value = "throughput")]
    pub objective: Objective,
    /// Schedules drawn of each operator
    #[arg(long = "trials", value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=3000), id = "cotune-trials")]
    pub trials: u64,
    /// Combinations that are measured at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub finalists: u64,
    /// Operators measured at the same time (a folder of `pairs`), from which slowdowns are predicted (repeatable)
    #[arg(long, value_name = "DIR", action = clap::ArgAction::Append, value_hint = ValueHint::DirPath)]
    pub pairs: Vec<PathBuf>,
    /// Rounds of the last comparison, in turn
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Time of each measurement in a round, e.g. 5ms
    #[arg(long = "span", value_name = "TIME", default_value = "5ms", value_parser = duration_ns)]
    pub span_ns: u64,
}

/// A combination of schedules and a split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Combination {
    /// The split, as in `1+1`.
    pub split: String,
    /// The schedule of each operator. `None` for the default one.
    pub schedules: Vec<Option<ScheduleSpec>>,
    /// Predicted time of each while all run, ns.
    pub predicted_ns: Vec<f64>,
    /// Median measured time of each while all run, ns.
    pub together_ns: Vec<f64>,
}

/// The result of tuning together.
#[derive(Debug, Clone, PartialEq)]
pub struct CotuneReport {
    /// Names of the operators.
    pub operators: Vec<String>,
    /// The objective.
    pub objective: Objective,
    /// Schedules that were timed alone.
    pub timed: usize,
    /// Schedules that could not be built or computed something else.
    pub failed: usize,
    /// Combinations that were measured at the same time.
    pub measured: usize,
    /// The operators' own best schedules.
    pub apart: Combination,
    /// The best combination.
    pub together: Combination,
    /// Gain of tuning together over tuning apart, as a ratio, round by round.
    pub gain: Ratio,
}

/// A schedule of an operator with its time alone on the threads of a split.
#[derive(Debug, Clone)]
struct Timed {
    schedule: Option<ScheduleSpec>,
    alone_ns: f64,
}

/// An operator in the worker.
struct Member<'a> {
    call: CallRef,
    operator: &'a Operator,
}

/// A schedule of each operator on a split.
#[derive(Debug, Clone)]
struct Joint {
    split: usize,
    members: Vec<Timed>,
    predicted_ns: Vec<f64>,
}

/// Tunes operators together.
///
/// # Errors
/// Fails if an operator does not exist, a split does not fit, or the worker is lost.
pub fn cotune(request: &CotuneRequest, session: &mut Session<'_>) -> anyhow::Result<CotuneReport> {
    for split in &request.how.splits {
        if split.len() != request.how.operators.len() {
            return Err(Misuse(format!(
                "--split {} is of {} operators, and --ops names {}; name as many",
                words(split),
                split.len(),
                request.how.operators.len()
            ))
            .into());
        }
    }
    check_splits(
        &request.how.splits,
        &[Mode::Partitioned],
        session.environment().state.cores_usable,
    )?;
    let slowdowns = Slowdowns::of_pairs(&read_all_pairs(&request.how.pairs)?)?;
    let plan = &request.planned.plan;
    let further = others(&request.planned, &request.others);
    let python = request.planned.python.as_deref();
    let loaded = Loaded::load(plan, &further, python, session)?;
    let models = loaded.models.clone();
    let members = request.how.operators.iter().map(|name| {
        let found = units_of(&models, &loaded, std::slice::from_ref(name))?;
        let unit = found.first().context("an operator")?;
        Ok(Member {
            call: CallRef(unit.model, unit.call),
            operator: unit.operator,
        })
    });
    let members = members.collect::<anyhow::Result<Vec<_>>>()?;
    let mut bench = Bench {
        request,
        processors: loaded.processors.clone(),
        loaded,
        members,
        timed: 0,
        failed: 0,
    };
    let mut joints = bench.combinations(&slowdowns, session)?;
    let apart = joints
        .iter()
        .filter(|joint| joint.split == 0)
        .min_by(|a, b| total_alone(a).total_cmp(&total_alone(b)))
        .context("an operator has no schedule that could be timed")?
        .clone();
    // The unit of each operator's work.
    let work: Vec<f64> = apart.members.iter().map(|own| own.alone_ns).collect();
    let merit = |ns: &[f64]| merit(request.how.objective, &work, ns);
    joints.sort_by(|a, b| merit(&b.predicted_ns).total_cmp(&merit(&a.predicted_ns)));
    joints.truncate(request.how.finalists as usize);
    // The operators' own best schedules compete too, so the choice is measured to be no worse than they are.
    joints.push(apart.clone());
    let mut best: Option<(f64, &Joint)> = None;
    session.progress.begin("time together", joints.len() as u64);
    for joint in &joints {
        let ns = bench.together_ns(joint, 3)?;
        let times: Vec<String> = ns.iter().map(|ns| units::time(*ns)).collect();
        let split = words(&request.how.splits[joint.split]);
        session.progress.point(&split, &times.join(" and "));
        if best.is_none_or(|(known, _)| merit(&ns) > known) {
            best = Some((merit(&ns), joint));
        }
    }
    session.progress.end();
    let (_, chosen) = best.context("no combination was measured")?;
    session
        .progress
        .working("each operator's own best and the best combination in turn");
    let mut rounds: Vec<[Vec<f64>; 2]> = Vec::new();
    for _ in 0..request.how.rounds {
        rounds.push([bench.together_ns(&apart, 1)?, bench.together_ns(chosen, 1)?]);
    }
    let ratio = |round: &[Vec<f64>; 2]| merit(&round[1]) / merit(&round[0]);
    let ratios: Vec<f64> = rounds.iter().map(ratio).collect();
    let combination = |joint: &Joint, side: usize| {
        let median =
            |place: usize| opdata::stats::median(rounds.iter().map(|round| round[side][place]));
        Combination {
            split: words(&request.how.splits[joint.split]),
            schedules: joint
                .members
                .iter()
                .map(|own| own.schedule.clone())
                .collect(),
            predicted_ns: joint.predicted_ns.clone(),
            together_ns: (0..joint.members.len()).filter_map(median).collect(),
        }
    };
    Ok(CotuneReport {
        operators: bench
            .members
            .iter()
            .map(|m| m.operator.name.clone())
            .collect(),
        objective: request.how.objective,
        timed: bench.timed,
        failed: bench.failed,
        measured: joints.len(),
        apart: combination(&apart, 0),
        together: combination(chosen, 1),
        gain: Ratio::of(&ratios).context("no rounds")?,
    })
}

/// The loaded models, with the processors to time their schedules on.
struct Bench<'a> {
    request: &'a CotuneRequest,
    loaded: Loaded,
    members: Vec<Member<'a>>,
    processors: Vec<usize>,
    timed: usize,
    failed: usize,
}

impl Bench<'_> {
    /// The fastest schedules of the operators, combined on each split, with predicted times.
    fn combinations(
        &mut self,
        slowdowns: &Slowdowns,
        session: &mut Session<'_>,
    ) -> anyhow::Result<Vec<Joint>> {
        let mut random = Pcg64Mcg::seed_from_u64(self.request.planned.plan.seed);
        let mut drawn = Vec::new();
        for place in 0..self.members.len() {
            drawn.push(self.schedules(place, &mut random)?);
        }
        let mut joints = Vec::new();
        for split in 0..self.request.how.splits.len() {
            let mut chosen: Vec<Vec<Timed>> = vec![Vec::new()];
            for (place, schedules) in drawn.iter().enumerate() {
                let own = self.fastest(split, place, schedules, session)?;
                let longer = chosen.iter().flat_map(|before| {
                    own.iter()
                        .map(|next| [&before[..], std::slice::from_ref(next)].concat())
                });
                chosen = longer.collect();
            }
            joints.extend(chosen.into_iter().map(|members| Joint {
                split,
                predicted_ns: self.predicted(split, &members, slowdowns),
                members,
            }));
        }
        Ok(joints)
    }

    /// The default schedule of an operator, and others at random.
    fn schedules(
        &mut self,
        place: usize,
        random: &mut Pcg64Mcg,
    ) -> anyhow::Result<Vec<Option<ScheduleSpec>>> {
        let Member { call, operator } = &self.members[place];
        let plan = &self.request.planned.plan;
        let space = self.loaded.space(plan, call.0, &operator.symbol)?;
        let grid = Grid::new(plan.target.device, space);
        let mut schedules = vec![None];
        for _ in 0..ATTEMPTS * self.request.how.trials as usize {
            let spec = grid.spec(&grid.random(random));
            if spec.is_some() && !schedules.contains(&spec) {
                schedules.push(spec);
            }
            if schedules.len() > self.request.how.trials as usize {
                break;
            }
        }
        Ok(schedules)
    }

    /// The fastest schedules of an operator alone on its threads of a split.
    fn fastest(
        &mut self,
        split: usize,
        place: usize,
        schedules: &[Option<ScheduleSpec>],
        session: &mut Session<'_>,
    ) -> anyhow::Result<Vec<Timed>> {
        let threads = &self.request.how.splits[split];
        let processors = places(threads, Mode::Partitioned, &self.processors);
        let name = &self.members[place].operator.name;
        let label = format!(
            "{name} ({})",
            units::plural(threads[place].into(), "thread")
        );
        session.progress.begin(&label, schedules.len() as u64);
        let mut own: Vec<Timed> = Vec::new();
        for schedule in schedules {
            if session.interrupt.requested() {
                bail!("interrupted before there were results");
            }
            let member = self.member(place, &processors[place], schedule);
            let outcome = match self.run(vec![member], 1) {
                Ok(times) => {
                    let alone_ns = median(&times.members[0].alone_ns)?;
                    self.timed += 1;
                    own.push(Timed {
                        schedule: schedule.clone(),
                        alone_ns,
                    });
                    units::time(alone_ns)
                }
                Err(error) => {
                    self.failed += 1;
                    self.loaded.recover(&self.request.planned.plan)?;
                    format!("{error:#}")
                }
            };
            session.progress.point(&label, &outcome);
        }
        session.progress.end();
        own.sort_by(|a, b| a.alone_ns.total_cmp(&b.alone_ns));
        own.truncate(COMBINED);
        Ok(own)
    }

    fn member(
        &self,
        place: usize,
        processors: &[usize],
        schedule: &Option<ScheduleSpec>,
    ) -> GroupMember {
        GroupMember {
            call: self.members[place].call,
            processors: processors.to_vec(),
            schedule: schedule.clone(),
        }
    }

    fn run(&mut self, members: Vec<GroupMember>, rounds: u32) -> anyhow::Result<GroupTimes> {
        let group = GroupSpec {
            members,
            rounds,
            span_ns: self.request.how.span_ns,
        };
        self.loaded.time(&self.request.planned.plan, group)
    }

    /// The times of a combination's operators while all run.
    fn together_ns(&mut self, joint: &Joint, rounds: u32) -> anyhow::Result<Vec<f64>> {
        let threads = &self.request.how.splits[joint.split];
        let processors = places(threads, Mode::Partitioned, &self.processors);
        let own = joint.members.iter().zip(&processors).enumerate();
        let members = own.map(|(place, (timed, own))| self.member(place, own, &timed.schedule));
        let times = self.run(members.collect(), rounds)?;
        times
            .members
            .iter()
            .map(|own| median(&own.together_ns))
            .collect()
    }

    /// Times alone with the slowdowns that the operators cause each other.
    fn predicted(&self, split: usize, members: &[Timed], slowdowns: &Slowdowns) -> Vec<f64> {
        let threads = &self.request.how.splits[split];
        let neighbours: Vec<Neighbour> = (self.members.iter().zip(members).zip(threads))
            .map(|((member, timed), threads)| {
                Neighbour::new(member.operator, *threads, timed.alone_ns)
            })
            .collect();
        let of = |(place, own): (usize, &Neighbour)| {
            let others = neighbours
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != place);
            let more: f64 = others
                .map(|(_, beside)| slowdowns.of(own, beside) - 1.0)
                .sum();
            own.alone_ns * (1.0 + more)
        };
        neighbours.iter().enumerate().map(of).collect()
    }
}

fn median(ns: &[f64]) -> anyhow::Result<f64> {
    opdata::stats::median(ns.iter().copied()).context("no times")
}

fn total_alone(joint: &Joint) -> f64 {
    joint.members.iter().map(|own| own.alone_ns).sum()
}

/// How good times are: more is better. `work` is what a call of each operator counts.
fn merit(objective: Objective, work: &[f64], ns: &[f64]) -> f64 {
    match objective {
        Objective::Throughput => work.iter().zip(ns).map(|(work, ns)| work / ns).sum(),
        Objective::Latency => 1.0 / ns.iter().copied().fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_counts_all_work_and_latency_the_longest() {
        let work = [10.0, 20.0];
        let throughput = |ns| merit(Objective::Throughput, &work, ns);
        assert_eq!(throughput(&[10.0, 20.0]), 2.0);
        assert!(throughput(&[20.0, 10.0]) > throughput(&[10.0, 20.0]));
        let latency = |ns| merit(Objective::Latency, &work, ns);
        assert!(latency(&[15.0, 15.0]) > latency(&[10.0, 20.0]));
    }
}
