//! The fastest stages of a block, by dynamic programming over the sets of calls that are done (as IOS does: Ding et al.,
//! "IOS: Inter-Operator Scheduler for CNN Acceleration", MLSys 2021).
//!
//! From a set of calls that are done, the next stage is one call, on its best number of threads, or several groups at once.
//! Groups are pruned: at most [`MOST_IN_GROUP`] calls in one, [`MOST_GROUPS`] of one state, and only stages that are faster than
//! their calls one after another.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use super::blocks::blocks;
use super::problem::{Group, Groups, Problem};
use super::simple::{balanced, greedy_of, share};

/// Maximum number of calls of a group in one stage.
const MOST_IN_GROUP: usize = 6;
/// Maximum number of groups considered from one state.
const MOST_GROUPS: usize = 160;
/// Maximum number of states of a block; wider blocks get greedy stages.
const MOST_STATES: usize = 20_000;

/// Stages, and whether the search was cut short.
pub struct Found {
    /// The stages.
    pub stages: Vec<Groups>,
    /// Whether some blocks were not searched, for lack of time or for too many states.
    pub cut_short: bool,
}

/// The fastest stages of all calls, block by block. A block that is not searched to the end gets greedy stages, or its
/// calls one after another if that is faster.
pub fn stages(problem: &Problem, deadline: Instant) -> Found {
    let mut found = Found {
        stages: Vec::new(),
        cut_short: false,
    };
    // Where models follow each other, a block of one and a block of the next could run at once: that is partitioning.
    for block in blocks(&problem.calls) {
        match Block::new(problem, block.clone()).fastest(deadline) {
            Some(stages) => found.stages.extend(stages),
            None => {
                found.cut_short = true;
                let greedy = greedy_of(problem, block.clone());
                let one_by_one: Vec<Groups> = block.map(|call| alone(problem, call)).collect();
                let loses = problem.time_ns(&greedy) > problem.time_ns(&one_by_one);
                found.stages.extend(if loses { one_by_one } else { greedy });
            }
        }
    }
    found
}

fn alone(problem: &Problem, call: usize) -> Groups {
    vec![Group {
        threads: problem.best_threads(call),
        calls: vec![call],
    }]
}

/// A set of a block's calls, a bit each.
type Set = u64;

struct Block<'a> {
    problem: &'a Problem,
    calls: Range<usize>,
    /// The calls of the block whose results each call reads.
    needs: Vec<Set>,
    /// Threads of each of two groups.
    half: u32,
}

/// The best stages that lead to a state.
struct Reached {
    time_ns: f64,
    before: Set,
    stage: Groups,
}

impl<'a> Block<'a> {
    fn new(problem: &'a Problem, calls: Range<usize>) -> Block<'a> {
        let needs = calls.clone().map(|call| {
            let inputs = problem.calls[call].inputs.iter();
            let own = inputs.filter(|input| calls.contains(input));
            own.fold(0, |set, input| set | 1 << (input - calls.start))
        });
        Block {
            problem,
            needs: needs.collect(),
            half: share(problem, 2),
            calls,
        }
    }

    /// The fastest stages. `None` if the deadline is over or there are too many states.
    fn fastest(&self, deadline: Instant) -> Option<Vec<Groups>> {
        // Blocks have at most `MOST_CALLS` calls, fewer than a set has bits.
        let all: Set = (1 << self.calls.len()) - 1;
        let mut reached: HashMap<Set, Reached> = HashMap::new();
        // States by how many calls are done: each stage does one at least.
        let mut waiting: Vec<Vec<Set>> = vec![Vec::new(); self.calls.len() + 1];
        waiting[0].push(0);
        for done in 0..self.calls.len() {
            for state in std::mem::take(&mut waiting[done]) {
                if Instant::now() > deadline || reached.len() > MOST_STATES {
                    return None;
                }
                let so_far = reached.get(&state).map_or(0.0, |reached| reached.time_ns);
                for stage in self.stages_from(state) {
                    let own = stage.iter().flat_map(|group| &group.calls);
                    let after = own.fold(state, |set, call| set | 1 << (call - self.calls.start));
                    let time_ns = so_far + self.problem.stage_time_ns(&stage);
                    let known = reached.get(&after).map(|reached| reached.time_ns);
                    if known.is_none() {
                        waiting[after.count_ones() as usize].push(after);
                    }
                    if known.is_none_or(|known| time_ns < known) {
                        let before = state;
                        reached.insert(
                            after,
                            Reached {
                                time_ns,
                                before,
                                stage,
                            },
                        );
                    }
                }
            }
        }
        let mut stages = Vec::new();
        let mut state = all;
        while state != 0 {
            let step = reached.remove(&state)?;
            stages.push(step.stage);
            state = step.before;
        }
        stages.reverse();
        Some(stages)
    }

    fn is_ready(&self, call: usize, done: Set) -> bool {
        done & (1 << call) == 0 && self.needs[call] & !done == 0
    }

    /// The stages that may follow a state.
    fn stages_from(&self, done: Set) -> Vec<Groups> {
        let ready = (0..self.calls.len()).filter(|&call| self.is_ready(call, done));
        let ready: Vec<usize> = ready.map(|call| self.calls.start + call).collect();
        let mut stages: Vec<Groups> = ready
            .iter()
            .map(|&call| alone(self.problem, call))
            .collect();
        if ready.len() < 2 || self.problem.threads < 2 {
            return stages;
        }
        let sequential = |groups: &[Group]| -> f64 {
            let calls = groups.iter().flat_map(|group| &group.calls);
            let best = |&call: &usize| self.problem.alone_ns(call, self.problem.best_threads(call));
            calls.map(best).sum()
        };
        let mut add = |stage: Groups| {
            if self.problem.stage_time_ns(&stage) < sequential(&stage) {
                stages.push(stage);
            }
        };
        if ready.len() > 2 && self.problem.threads > 2 {
            add(balanced(self.problem, &ready));
        }
        let sequences = self.sequences(done);
        for (number, (own, set)) in sequences.iter().enumerate() {
            for (other, beside) in &sequences[number + 1..] {
                if set & beside == 0 {
                    let group = |calls: &Vec<usize>| Group {
                        threads: self.half,
                        calls: calls.clone(),
                    };
                    add(vec![group(own), group(other)]);
                }
            }
        }
        stages
    }

    /// Calls that can run one after another from a state, with the set of each; of independent calls in one order only.
    fn sequences(&self, done: Set) -> Vec<(Vec<usize>, Set)> {
        let mut all: Vec<(Vec<usize>, Set)> = Vec::new();
        let mut next: Vec<(Vec<usize>, Set)> = vec![(Vec::new(), 0)];
        for _ in 0..MOST_IN_GROUP {
            let mut longer = Vec::new();
            for (calls, set) in next {
                for call in 0..self.calls.len() {
                    let in_order = calls.last().is_none_or(|&last| {
                        let last = last - self.calls.start;
                        call > last || self.needs[call] & (1 << last) != 0
                    });
                    if set & (1 << call) == 0 && in_order && self.is_ready(call, done | set) {
                        let calls = [&calls[..], &[self.calls.start + call]].concat();
                        longer.push((calls, set | 1 << call));
                    }
                }
            }
            if longer.is_empty() || all.len() + longer.len() > MOST_GROUPS {
                break;
            }
            all.extend(longer.iter().cloned());
            next = longer;
        }
        all
    }
}
