//! Equilibria and optima on random instances, heuristics, memory, and limits of time.

use opdata::DeviceKind;
use proptest::prelude::*;

use super::problem::{Device, Job, Link};
use super::*;

const LIMIT: Duration = Duration::from_secs(20);

fn device(name: &str, group: Option<usize>) -> Device {
    Device {
        name: name.to_owned(),
        kind: DeviceKind::CPU,
        threads: 1,
        power_w: 1.0,
        memory_bytes: None,
        group,
    }
}

/// A problem of a job's costs on each device, a chain where `link` costs something.
fn problem(costs: &[Vec<Option<f64>>], link: Link, shared: bool) -> Problem {
    let devices = costs[0].len();
    let group = shared.then_some(0);
    let is_free = link == Link::default();
    Problem {
        devices: (0..devices)
            .map(|d| device(&format!("d{d}"), group))
            .collect(),
        jobs: costs
            .iter()
            .enumerate()
            .map(|(number, costs)| Job {
                name: format!("job{number}"),
                model: 0,
                costs_ns: costs.clone(),
                weight_bytes: 10,
                output_bytes: 100,
                inputs: match number {
                    0 => Vec::new(),
                    _ if is_free => Vec::new(),
                    _ => vec![number - 1],
                },
            })
            .collect(),
        links: vec![vec![link; devices]; devices],
        slowdowns: vec![1.2],
        energy_weight: 0.0,
    }
}

/// Costs of up to `jobs` jobs on up to three devices; some cannot run on some, each can run on the first.
fn costs(jobs: usize) -> impl Strategy<Value = Vec<Vec<Option<f64>>>> {
    let cost = prop::option::weighted(0.85, 1.0..100.0_f64);
    (1..=3_usize, 1..=jobs).prop_flat_map(move |(devices, jobs)| {
        let job = (
            1.0..100.0_f64,
            prop::collection::vec(cost.clone(), devices - 1),
        );
        let job = job.prop_map(|(first, rest)| [vec![Some(first)], rest].concat());
        prop::collection::vec(job, jobs)
    })
}

/// The least cost of all placements.
fn brute_force(problem: &Problem) -> f64 {
    let mut best = f64::INFINITY;
    let mut placement = vec![0; problem.jobs.len()];
    loop {
        let can = placement
            .iter()
            .enumerate()
            .all(|(j, &d)| problem.jobs[j].costs_ns[d].is_some());
        if can && problem.fits(&placement) {
            best = best.min(problem.objective_ns(&placement));
        }
        let Some(next) = placement.iter().position(|d| d + 1 < problem.devices.len()) else {
            return best;
        };
        placement[..next].fill(0);
        placement[next] += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn in_an_equilibrium_no_job_gains_by_moving(costs in costs(10), seed in 0..1000_u64) {
        let problem = problem(&costs, Link::default(), false);
        let start = at_random(&problem, seed).unwrap();
        let play = game::play(&problem, &start);
        prop_assert_eq!(&play.ending, &Ending::Equilibrium);
        prop_assert!(play.loads_fell);
        for job in 0..problem.jobs.len() {
            let own = problem.own_cost_ns(&play.placement, job);
            for (device, _) in problem.choices(job) {
                let mut moved = play.placement.clone();
                moved[job] = device;
                prop_assert!(problem.own_cost_ns(&moved, job) >= own * (1.0 - 1e-6));
            }
        }
    }

    #[test]
    fn with_transfers_and_shared_devices_a_game_ends_in_an_equilibrium_or_a_true_cycle(
        costs in costs(8), seed in 0..1000_u64, ns_per_byte in 0.01..0.5_f64, shared: bool,
    ) {
        let link = Link { latency_ns: 1.0, ns_per_byte };
        let problem = problem(&costs, link, shared);
        let start = at_random(&problem, seed).unwrap();
        let play = game::play(&problem, &start);
        match &play.ending {
            Ending::Equilibrium => {
                let mut placement = play.placement.clone();
                let mut jobs = 0..problem.jobs.len();
                let gaining = jobs.find_map(|job| game::best_move(&problem, &mut placement, job));
                prop_assert_eq!(gaining, None);
            }
            Ending::Cycle(moves) => {
                let mut placement = play.placement.clone();
                for step in moves.iter().rev() {
                    prop_assert!(step.after_ns < step.before_ns);
                    prop_assert_eq!(placement[step.job], step.to);
                    placement[step.job] = step.from;
                }
                prop_assert_eq!(&placement, &play.placement);
            }
            Ending::Unsettled => prop_assert!(false, "eight jobs are unsettled"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_optimum_is_that_of_all_placements(
        costs in costs(8), ns_per_byte in 0.0..0.5_f64, shared: bool, energy_weight in 0.0..1.0_f64, chain: bool,
    ) {
        let link = match chain {
            true => Link { latency_ns: 1.0, ns_per_byte },
            false => Link::default(),
        };
        let mut problem = problem(&costs, link, shared);
        problem.energy_weight = if energy_weight < 0.5 { 0.0 } else { energy_weight };
        if let Some(last) = problem.devices.last_mut() {
            last.power_w = 0.3;
            last.memory_bytes = (problem.jobs.len() > 3).then_some(130);
        }
        let found = exact::optimum(&problem, None, 0.0, LIMIT).map(|found| {
            assert!(found.is_proven);
            found.objective_ns
        });
        let least = brute_force(&problem);
        prop_assert!(exact::divided(&problem).0 <= least + 1e-6);
        prop_assert!((found.unwrap_or(f64::INFINITY) - least).abs() < 1e-6 || found.is_none() && least.is_infinite());
    }

    #[test]
    fn placements_in_time_respect_inputs_and_devices(costs in costs(10), ns_per_byte in 0.01..0.5_f64) {
        let link = Link { latency_ns: 1.0, ns_per_byte };
        let problem = problem(&costs, link, false);
        for placement in [timeline::heft(&problem), timeline::greedy(&problem)].into_iter().flatten() {
            let slots = timeline::of_placement(&problem, &placement);
            prop_assert_eq!(slots.len(), problem.jobs.len());
            for slot in &slots {
                for &input in &problem.jobs[slot.job].inputs {
                    let transfer = problem.transfer_ns(input, placement[input], slot.device);
                    prop_assert!(slots[input].end_ns + transfer <= slot.begin_ns + 1e-9);
                }
                for other in &slots {
                    let apart = other.end_ns <= slot.begin_ns + 1e-9 || slot.end_ns <= other.begin_ns + 1e-9;
                    prop_assert!(apart || other.device != slot.device || other.job == slot.job);
                }
            }
        }
    }
}

#[test]
fn two_hundred_jobs_end_at_the_limit_with_a_bound() {
    let costs: Vec<Vec<Option<f64>>> = (0..200)
        .map(|job| {
            (0..4)
                .map(|d| Some(10.0 + f64::from((job * 37 + d * 101) % 89)))
                .collect()
        })
        .collect();
    let problem = problem(&costs, Link::default(), false);
    let begun = std::time::Instant::now();
    let placed = place(&problem, 1, Duration::from_millis(200)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
    let best = placed.outcomes.last().unwrap();
    assert!(placed.bound_ns > 0.0 && placed.bound_ns <= best.objective_ns);
    assert!(
        best.objective_ns <= placed.bound_ns * 1.05,
        "{} {}",
        best.objective_ns,
        placed.bound_ns
    );
    let anarchy = placed.equilibria.price_of_anarchy.unwrap();
    assert!((1.0..4.0).contains(&anarchy), "{anarchy}");
}

#[test]
fn what_fits_nowhere_is_refused_with_the_sizes() {
    let mut problem = problem(&[vec![Some(1.0)], vec![Some(2.0)]], Link::default(), false);
    problem.devices[0].memory_bytes = Some(50);
    let error = place(&problem, 1, LIMIT).unwrap_err().to_string();
    assert!(
        error.contains("weights take 20 bytes") && error.contains("d0 50"),
        "{error}"
    );
}
