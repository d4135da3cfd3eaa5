//! Calls with their times, and the time of stages.

use std::collections::BTreeMap;

use opdata::contract::{CallRef, Lane, Stage};

/// Calls of one or more models that are to be scheduled.
pub struct Problem {
    /// The calls, model after model.
    pub calls: Vec<Call>,
    /// Threads.
    pub threads: u32,
    /// The slowdown of an operator beside another, by their numbers.
    pub slowdowns: Vec<Vec<f64>>,
    /// Time that a stage of several lanes costs beside its calls, ns.
    pub stage_ns: f64,
}

/// A call of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The call's place in its model.
    pub at: CallRef,
    /// Numbers of the calls whose results it reads.
    pub inputs: Vec<usize>,
    /// Its time alone by number of threads, ns.
    pub times_ns: BTreeMap<u32, f64>,
    /// Number of its operator in [`Problem::slowdowns`].
    pub operator: usize,
}

/// Calls that run one after another on some threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Threads.
    pub threads: u32,
    /// Numbers of the calls.
    pub calls: Vec<usize>,
}

/// Groups that run at the same time.
pub type Groups = Vec<Group>;

impl Problem {
    /// The time of a call alone on some threads, ns; infinite where it is not known.
    pub fn alone_ns(&self, call: usize, threads: u32) -> f64 {
        self.calls[call]
            .times_ns
            .get(&threads)
            .copied()
            .unwrap_or(f64::INFINITY)
    }

    /// The numbers of threads at which all calls have a time, ascending.
    pub fn known_threads(&self) -> Vec<u32> {
        let all = self.calls.first().map(|call| call.times_ns.keys().copied());
        let known = |threads: &u32| self.calls.iter().all(|c| c.times_ns.contains_key(threads));
        all.into_iter().flatten().filter(known).collect()
    }

    /// The number of threads at which a call alone is fastest.
    pub fn best_threads(&self, call: usize) -> u32 {
        let times = self.calls[call].times_ns.iter();
        let fastest = times.min_by(|a, b| a.1.total_cmp(b.1));
        fastest.map_or(self.threads, |(threads, _)| *threads)
    }

    /// The time of groups that run at the same time, ns: that of the longest, with each call slowed down by the others' mix.
    pub fn stage_time_ns(&self, groups: &[Group]) -> f64 {
        let alone = |group: &Group| {
            let times = group
                .calls
                .iter()
                .map(|&call| self.alone_ns(call, group.threads));
            times.sum::<f64>()
        };
        if let [only] = groups {
            return alone(only);
        }
        let totals: Vec<f64> = groups.iter().map(alone).collect();
        let mut longest = 0.0_f64;
        for (number, group) in groups.iter().enumerate() {
            let mut time = 0.0;
            for &call in &group.calls {
                let mut slowdown = 1.0;
                for (other, beside) in groups.iter().enumerate().filter(|(o, _)| *o != number) {
                    // A shorter group leaves this one alone for the rest of the stage.
                    let overlap = (totals[other] / totals[number]).min(1.0);
                    let mut mix = 0.0;
                    for &neighbour in &beside.calls {
                        let share = self.alone_ns(neighbour, beside.threads) / totals[other];
                        let [own, other] = [call, neighbour].map(|c| self.calls[c].operator);
                        mix += share * (self.slowdowns[own][other] - 1.0);
                    }
                    slowdown += mix * overlap;
                }
                time += self.alone_ns(call, group.threads) * slowdown;
            }
            longest = longest.max(time);
        }
        longest + self.stage_ns
    }

    /// The time of stages that follow each other, ns.
    pub fn time_ns(&self, stages: &[Groups]) -> f64 {
        stages.iter().map(|groups| self.stage_time_ns(groups)).sum()
    }

    /// A lower bound on the time of every schedule, ns, unless operators speed each other up. It is the longest chain
    /// of calls that read each other's results, or the work of all calls shared evenly by all threads.
    pub fn bound_ns(&self) -> f64 {
        let mut work_ns = 0.0;
        let mut ends_ns: Vec<f64> = Vec::new();
        for call in &self.calls {
            let least = |times: &mut dyn Iterator<Item = f64>| times.fold(f64::INFINITY, f64::min);
            let of_threads = call.times_ns.iter().map(|(n, ns)| f64::from(*n) * ns);
            work_ns += least(&mut of_threads.into_iter());
            let begin_ns = call.inputs.iter().map(|&input| ends_ns[input]);
            let begin_ns = begin_ns.fold(0.0, f64::max);
            ends_ns.push(begin_ns + least(&mut call.times_ns.values().copied()));
        }
        let chain_ns = ends_ns.into_iter().fold(0.0, f64::max);
        chain_ns.max(work_ns / f64::from(self.threads))
    }

    /// Stages with the calls by model and number; stages of one lane on the same threads that follow each other are one.
    pub fn named(&self, stages: &[Groups]) -> Vec<Stage> {
        let mut named: Vec<Stage> = Vec::new();
        for groups in stages {
            let lanes = groups.iter().map(|group| Lane {
                threads: group.threads,
                calls: group
                    .calls
                    .iter()
                    .map(|&call| self.calls[call].at)
                    .collect(),
            });
            let lanes: Vec<Lane> = lanes.collect();
            match (
                &mut named.last_mut().map(|stage| &mut stage.lanes[..]),
                &lanes[..],
            ) {
                (Some([last]), [next]) if last.threads == next.threads => {
                    last.calls.extend(&next.calls);
                }
                _ => named.push(Stage { lanes }),
            }
        }
        named
    }
}
