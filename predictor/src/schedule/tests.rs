//! Schedules are possible, never slower than they say, and as fast as a search through everything.

use std::collections::BTreeMap;

use opdata::contract::{CallRef, check_stages};
use proptest::prelude::*;

use super::problem::{Call, Groups};
use super::*;

const LIMIT: Duration = Duration::from_secs(20);
/// Enough for small blocks; wide ones get greedy stages.
const SHORT: Duration = Duration::from_millis(30);

fn problem(calls: &[(Vec<usize>, f64, f64)], threads: u32) -> Problem {
    let calls = calls
        .iter()
        .enumerate()
        .map(|(number, (inputs, one, all))| Call {
            at: CallRef(0, number),
            inputs: inputs.clone(),
            times_ns: BTreeMap::from([(1, *one), (threads, *all)]),
            operator: 0,
        });
    Problem {
        calls: calls.collect(),
        threads,
        slowdowns: vec![vec![1.0]],
        stage_ns: 0.5,
    }
}

/// Graphs of calls in topological order; a call on two threads takes half to all of its time on one.
fn graphs(most: usize) -> impl Strategy<Value = Vec<(Vec<usize>, f64, f64)>> {
    let call = (any::<u64>(), 1.0..100.0_f64, 0.5..1.1_f64);
    prop::collection::vec(call, 1..=most).prop_map(|calls| {
        let of = |(number, (bits, one, share)): (usize, (u64, f64, f64))| {
            let inputs = (0..number).filter(|input| bits >> (input % 64) & 3 == 3);
            (inputs.collect(), one, one * share)
        };
        calls.into_iter().enumerate().map(of).collect()
    })
}

fn check(problem: &Problem, stages: &[Groups]) -> Result<(), String> {
    let inputs = problem
        .calls
        .iter()
        .map(|call| call.inputs.clone())
        .collect();
    check_stages(&problem.named(stages), problem.threads, &[inputs])
}

/// The fastest time by trying every stage of one or two groups of single calls, without pruning.
fn by_trying(problem: &Problem, done: u64) -> f64 {
    let many = problem.calls.len();
    if done.count_ones() as usize == many {
        return 0.0;
    }
    let is_ready = |call: &usize| {
        let needs = &problem.calls[*call].inputs;
        done >> call & 1 == 0 && needs.iter().all(|input| done >> input & 1 == 1)
    };
    let ready: Vec<usize> = (0..many).filter(is_ready).collect();
    let mut best = f64::INFINITY;
    for (number, &call) in ready.iter().enumerate() {
        let after = by_trying(problem, done | 1 << call);
        best = best.min(problem.alone_ns(call, problem.best_threads(call)) + after);
        for &other in &ready[number + 1..] {
            let group = |call| problem::Group {
                threads: 1,
                calls: vec![call],
            };
            let stage = problem.stage_time_ns(&[group(call), group(other)]);
            best = best.min(stage + by_trying(problem, done | 1 << call | 1 << other));
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_schedule_is_possible_and_none_is_chosen_that_loses(calls in graphs(30)) {
        let problem = problem(&calls, 2);
        for stages in [simple::sequential(&problem), simple::greedy(&problem), dynamic::stages(&problem, Instant::now() + SHORT).stages] {
            prop_assert_eq!(check(&problem, &stages), Ok(()));
        }
        let scheduled = schedule(&problem, &problem, SHORT);
        prop_assert!(scheduled.outcomes[scheduled.chosen].speedup >= 1.0);
        for outcome in &scheduled.outcomes {
            prop_assert!(outcome.predicted_ns >= scheduled.bound_ns * (1.0 - 1e-9), "{}", outcome.name);
        }
        let named = |name| scheduled.outcomes.iter().find(|o| o.name == name).unwrap().predicted_ns;
        prop_assert!(named("dynamic programme") <= named("sequential") + 1e-9);
    }

    #[test]
    fn the_dynamic_programme_is_as_fast_as_trying_all_stages_of_single_calls(calls in graphs(8)) {
        let problem = problem(&calls, 2);
        let found = dynamic::stages(&problem, Instant::now() + LIMIT);
        prop_assert!(!found.cut_short);
        // Its groups may have several calls, so it can be faster.
        prop_assert!(problem.time_ns(&found.stages) <= by_trying(&problem, 0) + 1e-6);
    }
}

#[test]
fn branches_run_at_the_same_time_and_a_chain_does_not() {
    let diamond = [
        (vec![], 10.0, 6.0),
        (vec![0], 10.0, 9.0),
        (vec![0], 10.0, 9.0),
        (vec![1, 2], 10.0, 6.0),
    ];
    let alone = |problem: Problem| schedule(&problem, &problem, LIMIT);
    let scheduled = alone(problem(&diamond, 2));
    let chosen = &scheduled.outcomes[scheduled.chosen];
    assert_eq!(
        (chosen.stages.len(), chosen.predicted_ns),
        (3, 6.0 + 10.5 + 6.0)
    );
    assert_eq!(scheduled.bound_ns, 6.0 + 9.0 + 6.0, "the chain");
    let apart = [(vec![], 10.0, 6.0), (vec![], 8.0, 5.0)];
    assert_eq!(
        problem(&apart, 2).bound_ns(),
        (10.0 + 8.0) / 2.0,
        "the work"
    );
    let chain = [(vec![], 10.0, 6.0), (vec![0], 10.0, 6.0)];
    let scheduled = alone(problem(&chain, 2));
    assert_eq!(scheduled.chosen, 0, "it gains nothing");
}

#[test]
fn a_gain_that_is_not_there_by_least_times_is_not_taken() {
    // Two calls without order: on both threads each is seen to take as long as on one, and once took half.
    let [seen, least] = [[10.0, 10.0], [10.0, 5.0]].map(|[one, all]| {
        let calls = [(vec![], one, all), (vec![], one, all)];
        problem(&calls, 2)
    });
    let scheduled = schedule(&seen, &least, LIMIT);
    assert_eq!(scheduled.chosen, 0);
    let fastest = scheduled.outcomes.iter().map(|outcome| outcome.speedup);
    assert!(fastest.fold(0.0, f64::max) > 1.9);
    assert_ne!(schedule(&seen, &seen, LIMIT).chosen, 0);
}

#[test]
fn a_deadline_that_is_over_leaves_greedy_stages() {
    let wide: Vec<_> = (0..200).map(|_| (vec![], 10.0, 9.0)).collect();
    let problem = problem(&wide, 2);
    let found = dynamic::stages(&problem, Instant::now());
    assert!(found.cut_short);
    assert_eq!(check(&problem, &found.stages), Ok(()));
}

#[test]
fn models_that_run_at_the_same_time_end_together() {
    // The second model takes half of the time of the first.
    let mut problem = problem(&vec![(vec![], 10.0, 8.0); 12], 2);
    for (number, call) in problem.calls.iter_mut().enumerate() {
        let model = usize::from(number >= 8);
        call.at = CallRef(model, number - model * 8);
    }
    let stages = simple::partitioned(&problem).unwrap();
    assert_eq!(problem.time_ns(&stages), 40.0 + 0.5 + 4.0 * 8.0);
}
