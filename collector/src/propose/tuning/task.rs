//! One operator while it is tuned.

use std::collections::HashMap;
use std::sync::Arc;

use opdata::{Row, Status};
use opengine::device::Conditions;
use opengine::schedule::{Choice, ScheduleSpec};
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use super::super::{Outcome, Trials};
use super::grid::{Grid, Point};
use super::learned::Learned;
use super::tuner::{History, SearchState, Trial, Tuner};

/// An improvement of the best time that counts.
const IMPROVEMENT: f64 = 0.01;
/// A task ends if this share of its trials, and at least this number, brought no improvement.
const PATIENCE: (f64, usize) = (0.4, 48);
/// Trials after which a task ends that has not built once.
const HOPELESS: usize = 24;

/// The inputs of a task.
pub(super) struct TaskSpec {
    /// Number of the operator in the graph.
    pub operator: usize,
    /// Calls in a run of the model.
    pub count: u64,
    /// Its space.
    pub grid: Grid,
    /// Its default schedule.
    pub base: Choice,
    /// Schedules of the store to start from.
    pub known: Vec<Choice>,
    /// Name of the tuner, and the tuner itself.
    pub tuner: (&'static str, Box<dyn Tuner>),
    /// Maximum number of schedules, including the default one.
    pub trials: u64,
    /// Seed of all random decisions.
    pub seed: u64,
}

pub(super) struct Task {
    pub operator: usize,
    /// Calls in a run of the model.
    count: u64,
    history: History,
    base: Choice,
    known: Vec<Choice>,
    name: &'static str,
    tuner: Box<dyn Tuner>,
    trials: usize,
    random: Pcg64Mcg,
    /// The default schedule's rows by condition.
    defaults: Vec<(Conditions, Arc<Row>)>,
    /// Times by condition, in the order of the trials.
    times: Vec<(Conditions, Vec<Option<f64>>)>,
    proposed: usize,
    /// Lowest cost so far, and the number of trials when it was found.
    best: (f64, usize),
    batches: usize,
    /// Gain of the preceding batch, as a difference of costs.
    last_gain: f64,
    failures: HashMap<String, usize>,
    ended: bool,
}

impl Task {
    pub fn new(spec: TaskSpec) -> Task {
        let TaskSpec {
            operator,
            count,
            grid,
            base,
            known,
            tuner: (name, tuner),
            trials,
            seed,
        } = spec;
        Task {
            operator,
            count,
            ended: grid.size() <= 1.0 && !tuner.leaves_the_grid(),
            history: History::new(grid),
            base,
            known,
            name,
            tuner,
            trials: usize::try_from(trials).unwrap_or(usize::MAX),
            random: Pcg64Mcg::seed_from_u64(seed),
            defaults: Vec::new(),
            times: Vec::new(),
            proposed: 0,
            best: (0.0, 0),
            batches: 0,
            last_gain: 0.0,
            failures: HashMap::new(),
        }
    }

    /// Begins with the default schedule. Returns its point and the key of its schedule, if the space contains it.
    pub fn begin(&mut self) -> Option<(Point, String)> {
        self.proposed += 1;
        let base = self.base.clone();
        let spec = ScheduleSpec::Template { choice: base };
        self.history.note(&spec);
        Some((self.history.grid.point_of(&self.base)?, spec.key()))
    }

    /// Maximum number of schedules that are measured.
    pub fn most_trials(&self) -> u64 {
        let size = match self.tuner.leaves_the_grid() {
            true => f64::INFINITY,
            false => self.history.grid.size().max(1.0),
        };
        (self.trials as f64).min(size) as u64
    }

    /// The trials under each set of conditions.
    pub fn trials(&self) -> impl Iterator<Item = Trials> + '_ {
        self.times.iter().map(|(conditions, times)| Trials {
            tuner: self.name,
            operator: self.operator,
            conditions: conditions.clone(),
            times: times.clone(),
        })
    }

    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Expected gain of another batch for the model's latency, nanoseconds: by the operator's share, the last batch's
    /// gain, and the number of trials.
    pub fn gain(&self) -> f64 {
        let row = self.defaults.last().and_then(|(_, row)| row.time_median_ns);
        let now = row.unwrap_or_default() * self.best.0.exp() * self.count as f64;
        now * (0.5 * self.last_gain + 0.3 / (1.0 + self.batches as f64))
    }

    /// The next points with their schedules; none when the task has ended.
    ///
    /// # Errors
    /// Fails if the tuner does.
    pub fn propose(
        &mut self,
        learned: &Learned,
        n: usize,
    ) -> anyhow::Result<Vec<(Point, ScheduleSpec)>> {
        let left = self.trials.saturating_sub(self.proposed);
        let mut search = SearchState {
            history: &self.history,
            learned,
            base: self.defaults.first().map(|(_, row)| &**row),
            known: &self.known,
            random: &mut self.random,
        };
        let mut proposed = match self.ended || left == 0 {
            true => Vec::new(),
            false => self.tuner.schedules(&mut search, n.min(left))?,
        };
        proposed.retain(|(_, spec)| self.history.note(spec));
        self.proposed += proposed.len();
        self.ended |= proposed.is_empty();
        self.batches += 1;
        Ok(proposed)
    }

    /// Takes the outcomes of a candidate under all conditions.
    pub fn observe(
        &mut self,
        point: Option<(Point, String)>,
        outcomes: &[&Outcome],
        conditions: usize,
    ) {
        let Some(first) = outcomes.first() else {
            return;
        };
        let is_default = self.defaults.is_empty() && self.history.trials.is_empty();
        if is_default {
            let rows = outcomes
                .iter()
                .map(|o| (o.conditions.clone(), Arc::clone(&o.row)));
            self.defaults = rows.collect();
        }
        for outcome in outcomes.iter().filter(|o| o.row.status != Status::Skipped) {
            let time = outcome.row.time_median_ns;
            match self
                .times
                .iter_mut()
                .find(|(at, _)| *at == outcome.conditions)
            {
                Some((_, times)) => times.push(time),
                None => self.times.push((outcome.conditions.clone(), vec![time])),
            }
        }
        let costs: Vec<f64> = outcomes.iter().filter_map(|o| self.cost(o)).collect();
        let cost =
            (costs.len() == conditions).then(|| costs.iter().sum::<f64>() / costs.len() as f64);
        if cost.is_none() && first.row.status != Status::Skipped {
            let reason = first
                .row
                .reason
                .clone()
                .unwrap_or_else(|| first.row.status.to_string());
            *self.failures.entry(reason).or_default() += 1;
        }
        if first.row.status == Status::Skipped && !is_default {
            // The program is that of another schedule: it cost no build.
            self.proposed = self.proposed.saturating_sub(1);
        }
        if let Some((point, key)) = point {
            self.history.trials.push(Trial { point, key, cost });
        }
        let tried = self.history.trials.len();
        let cost = cost.unwrap_or(f64::INFINITY);
        self.last_gain *= 0.9;
        if cost < self.best.0 - IMPROVEMENT {
            self.last_gain = self.last_gain.max(self.best.0 - cost);
            self.best = (cost, tried);
        }
        let patience = ((self.trials as f64 * PATIENCE.0) as usize).max(PATIENCE.1);
        let never = self.history.trials.iter().all(|trial| trial.cost.is_none());
        self.ended |= tried >= self.best.1 + patience || (never && tried >= HOPELESS);
    }

    /// The logarithm of a time over the default schedule's under the same condition.
    fn cost(&self, outcome: &Outcome) -> Option<f64> {
        let own = outcome.row.time_median_ns?;
        let default = self
            .defaults
            .iter()
            .find(|(at, _)| *at == outcome.conditions)
            .and_then(|(_, row)| row.time_median_ns);
        // Where the default schedule does not run, times are compared as they are.
        Some((own / default.unwrap_or(1e9)).ln())
    }

    /// The message that no schedule was built, with the commonest reason.
    pub fn complaint(&self) -> Option<String> {
        let tried = self.history.trials.len();
        let failed: usize = self.failures.values().sum();
        if tried < HOPELESS || failed < tried {
            return None;
        }
        let (reason, times) = self.failures.iter().max_by_key(|(_, times)| **times)?;
        let name = self
            .defaults
            .first()
            .map_or("an operator", |(_, row)| row.op_name.as_str());
        Some(format!(
            "tuning of {name} ended: none of {tried} schedules ran; {times} of them: {reason}"
        ))
    }
}
