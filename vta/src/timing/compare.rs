//! Compares the simulator with a log: errors task by task, the order of configurations, and configurations that cannot
//! be compiled.

use rayon::prelude::*;

use super::simulate;
use crate::config::Config;
use crate::log::{Log, Outcome};
use crate::lower::{Tail, lower};
use crate::profile::Profile;
use crate::workload::Workload;

/// Difference of measured times from which their order is compared.
const DIFFERENT: f64 = 0.01;

/// A task of a log.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its workload.
    pub workload: Workload,
    /// Configurations with a time of the board and of the simulator, both in nanoseconds.
    pub times: Vec<(Config, f64, f64)>,
}

impl Task {
    /// Absolute errors, percent of the board's time.
    pub fn errors_percent(&self) -> Vec<f64> {
        self.times
            .iter()
            .map(|(_, board, ours)| (ours / board - 1.0).abs() * 100.0)
            .collect()
    }

    /// Pairs of configurations whose times differ by more than 1 %, and how many of them the simulator has in the board's
    /// order.
    pub fn ordered(&self) -> (usize, usize) {
        let (mut pairs, mut right) = (0, 0);
        for (i, (_, board, ours)) in self.times.iter().enumerate() {
            for (_, other_board, other_ours) in &self.times[i + 1..] {
                if (board / other_board - 1.0).abs() > DIFFERENT {
                    pairs += 1;
                    right += usize::from((board < other_board) == (ours < other_ours));
                }
            }
        }
        (pairs, right)
    }

    /// The board's time of the configuration that is fastest in the simulator, over its best time. `None` for a task of
    /// one configuration.
    pub fn chosen_over_best(&self) -> Option<f64> {
        let best = self.times.iter().map(|t| t.1).fold(f64::INFINITY, f64::min);
        let chosen = self.times.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
        (self.times.len() > 1).then_some(chosen.1 / best)
    }
}

/// A log beside the simulator.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Tasks with a time, in the order of their workloads.
    pub tasks: Vec<Task>,
    /// Configurations that ran on the board and are refused here, and why.
    pub wrongly_refused: Vec<(Workload, Config, String)>,
    /// Configurations that the compiler refused and that are accepted here.
    pub wrongly_accepted: Vec<(Workload, Config)>,
    /// Configurations that both refuse.
    pub refused: u64,
    /// Configurations that failed on the board for reasons that say nothing about them.
    pub unknown: u64,
}

impl Comparison {
    /// Sets a log beside a profile.
    pub fn of(profile: &Profile, log: &Log) -> Comparison {
        let lowered = |w: &Workload, c: &Config| lower(&profile.hardware, w, c, Tail::AUTOTVM);
        let mut comparison = Comparison {
            tasks: Vec::new(),
            wrongly_refused: Vec::new(),
            wrongly_accepted: Vec::new(),
            refused: 0,
            unknown: 0,
        };
        for record in &log.records {
            let (w, c) = (record.workload, record.config);
            match (record.outcome, lowered(&w, &c)) {
                (Outcome::Ran(_), Err(why)) => {
                    comparison.wrongly_refused.push((w, c, why.to_string()))
                }
                (Outcome::NotCompiled, Ok(_)) => comparison.wrongly_accepted.push((w, c)),
                (Outcome::NotCompiled, Err(_)) => comparison.refused += 1,
                (Outcome::Unknown, _) => comparison.unknown += 1,
                (Outcome::Ran(_), Ok(_)) => {}
            }
        }
        let tasks: Vec<_> = log.tasks().into_iter().collect();
        let timed = tasks.par_iter().map(|(workload, configs)| {
            let times = configs.iter().filter_map(|(config, seconds)| {
                let simulated = simulate(profile, &lowered(workload, config).ok()?).ok()?;
                Some((*config, seconds * 1e9, simulated.total_ns))
            });
            Task {
                workload: *workload,
                times: times.collect(),
            }
        });
        comparison.tasks = timed.filter(|task| !task.times.is_empty()).collect();
        comparison
    }

    /// Absolute errors of all configurations, percent.
    pub fn errors_percent(&self) -> Vec<f64> {
        self.tasks.iter().flat_map(Task::errors_percent).collect()
    }
}
