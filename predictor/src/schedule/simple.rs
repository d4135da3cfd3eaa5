//! Schedules without a search: one call after another, greedy stages, each model on threads of its own.

use std::ops::Range;

use super::problem::{Group, Groups, Problem};

/// Every call after the other on all threads.
pub fn sequential(problem: &Problem) -> Vec<Groups> {
    let one = |call| {
        vec![Group {
            threads: problem.threads,
            calls: vec![call],
        }]
    };
    (0..problem.calls.len()).map(one).collect()
}

/// Every call that is ready runs in the next stage, the longest first, each on the group that is free first.
pub fn greedy(problem: &Problem) -> Vec<Groups> {
    greedy_of(problem, 0..problem.calls.len())
}

/// Greedy stages of a range of calls, after all calls before it.
pub fn greedy_of(problem: &Problem, range: Range<usize>) -> Vec<Groups> {
    let mut done: Vec<bool> = (0..problem.calls.len())
        .map(|call| call < range.start)
        .collect();
    let mut stages = Vec::new();
    loop {
        let is_ready = |call: &usize| {
            !done[*call] && problem.calls[*call].inputs.iter().all(|&input| done[input])
        };
        let ready: Vec<usize> = range.clone().filter(is_ready).collect();
        match ready[..] {
            [] => return stages,
            [only] => stages.push(vec![Group {
                threads: problem.best_threads(only),
                calls: vec![only],
            }]),
            _ => stages.push(balanced(problem, &ready)),
        }
        for call in ready {
            done[call] = true;
        }
    }
}

/// Calls in as many groups of equal threads as possible. The longest go first, each to the group that is free first.
pub fn balanced(problem: &Problem, calls: &[usize]) -> Groups {
    let threads = share(problem, calls.len() as u32);
    let many = ((problem.threads / threads) as usize).min(calls.len());
    let mut order = calls.to_vec();
    order.sort_by(|a, b| {
        problem
            .alone_ns(*b, threads)
            .total_cmp(&problem.alone_ns(*a, threads))
    });
    let mut groups: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); many];
    for call in order {
        let first = groups.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((time, own)) = first {
            *time += problem.alone_ns(call, threads);
            own.push(call);
        }
    }
    groups
        .into_iter()
        .map(|(_, calls)| Group { threads, calls })
        .collect()
}

/// The largest known number of threads that this many groups can have each, and 1 at least.
pub fn share(problem: &Problem, groups: u32) -> u32 {
    let most = (problem.threads / groups.max(1)).max(1);
    let known = problem.known_threads();
    known
        .into_iter()
        .rfind(|threads| *threads <= most)
        .unwrap_or(1)
}

/// Each model on one of several groups of equal threads, filled longest first and as even as that makes them. The end
/// of the longest group runs on all threads after them, where that is faster. Nothing for one model, or where threads
/// do not suffice.
pub fn partitioned(problem: &Problem) -> Option<Vec<Groups>> {
    let many = problem.calls.last()?.at.0 + 1;
    if many < 2 || problem.threads < 2 {
        return None;
    }
    let of_model = |model: usize| {
        let all = problem.calls.iter().enumerate();
        let own = all.filter(move |(_, call)| call.at.0 == model);
        own.map(|(number, _)| number)
    };
    let groups = (many as u32).min(problem.threads);
    let threads = share(problem, groups);
    let time =
        |model: usize| -> f64 { of_model(model).map(|c| problem.alone_ns(c, threads)).sum() };
    let mut order: Vec<(usize, f64)> = (0..many).map(|model| (model, time(model))).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut lanes: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); groups as usize];
    for (model, ns) in order {
        if let Some((time, calls)) = lanes.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0)) {
            *time += ns;
            calls.extend(of_model(model));
        }
    }
    let longest = (0..lanes.len()).max_by(|&a, &b| lanes[a].0.total_cmp(&lanes[b].0))?;
    let group = |calls: &[usize]| Group {
        threads,
        calls: calls.to_vec(),
    };
    let cut_at = |kept: usize| {
        let first = lanes
            .iter()
            .enumerate()
            .map(|(lane, (_, calls))| match lane == longest {
                true => group(&calls[..kept]),
                false => group(calls),
            });
        let mut stages = vec![first.collect::<Groups>()];
        let rest = lanes[longest].1[kept..].iter();
        stages.extend(rest.map(|&call| {
            vec![Group {
                threads: problem.best_threads(call),
                calls: vec![call],
            }]
        }));
        stages
    };
    let all = lanes[longest].1.len();
    (1..=all)
        .map(cut_at)
        .min_by(|a, b| problem.time_ns(a).total_cmp(&problem.time_ns(b)))
}
