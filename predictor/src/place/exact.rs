//! The optimum: branch and bound over the devices of the jobs, the largest first, with a limit of time.
//!
//! The bound of a branch is the larger of two loads: the largest load of a device so far, and the mean load if every
//! other job took its shortest time. If the limit ends the search, the bound is that of the linear programme in which jobs
//! may be divided ([`good_lp`]). Transfers and shared devices only add to it.

use std::time::{Duration, Instant};

use good_lp::{
    Expression, ProblemVariables, Solution as _, SolverModel as _, Variable, constraint,
    default_solver, variable,
};

use super::problem::{Placement, Problem};

/// Number of branches between two readings of the clock.
const LOOK: u64 = 4096;
/// Relative difference that counts as rounding: a bound this close proves the placement.
const EQUAL: f64 = 1e-12;

/// The best placement that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimum {
    /// The best placement found.
    pub placement: Placement,
    /// Its cost, ns.
    pub objective_ns: f64,
    /// No placement costs less than this, ns.
    pub bound_ns: f64,
    /// Whether it is the optimum.
    pub is_proven: bool,
}

/// Searches for the optimum, beginning with a placement that fits. `None` if no placement fits. `divided_ns` is the
/// cost of [`divided`] jobs, the bound if the limit ends the search.
pub fn optimum(
    problem: &Problem,
    start: Option<Placement>,
    divided_ns: f64,
    limit: Duration,
) -> Option<Optimum> {
    let mut order: Vec<usize> = (0..problem.jobs.len()).collect();
    order.sort_by(|&a, &b| problem.least_ns(b).total_cmp(&problem.least_ns(a)));
    // For each position of the order, the sum over the jobs from there on.
    let sums = |of: &dyn Fn(usize) -> f64| {
        let mut sums = vec![0.0; order.len() + 1];
        for (place, &job) in order.iter().enumerate().rev() {
            sums[place] = sums[place + 1] + of(job);
        }
        sums
    };
    let least_after = sums(&|job| problem.least_ns(job));
    let least_energy_after = sums(&|job| problem.least_energy_nj(job));
    let mut search = Search {
        problem,
        order: &order,
        least_after: &least_after,
        least_energy_after: &least_energy_after,
        ns_per_nj: problem.ns_per_nj(),
        readers: readers(problem),
        alike: alike(problem),
        placement: vec![usize::MAX; order.len()],
        best: start.map(|placement| (problem.objective_ns(&placement), placement)),
        branches: 0,
        end: Instant::now() + limit,
        is_over: false,
    };
    search.branch(0, &vec![0.0; problem.devices.len()], 0.0);
    let is_proven = !search.is_over;
    let (objective_ns, placement) = search.best?;
    let bound_ns = match is_proven {
        true => objective_ns,
        false => divided_ns.min(objective_ns),
    };
    Some(Optimum {
        placement,
        objective_ns,
        bound_ns,
        is_proven: is_proven || bound_ns >= objective_ns * (1.0 - EQUAL),
    })
}

struct Search<'p> {
    problem: &'p Problem,
    order: &'p [usize],
    /// Sum of the shortest times of the jobs from a position of the order on.
    least_after: &'p [f64],
    least_energy_after: &'p [f64],
    ns_per_nj: f64,
    /// The jobs that read each job's output.
    readers: Vec<Vec<usize>>,
    /// The first device that each device is like.
    alike: Vec<usize>,
    placement: Placement,
    best: Option<(f64, Placement)>,
    branches: u64,
    end: Instant,
    is_over: bool,
}

impl Search<'_> {
    fn branch(&mut self, place: usize, loads: &[f64], energy: f64) {
        self.branches += 1;
        if self.branches.is_multiple_of(LOOK) {
            self.is_over |= Instant::now() > self.end;
        }
        if self.is_over {
            return;
        }
        let Some(&job) = self.order.get(place) else {
            let objective = self.problem.objective_ns(&self.placement);
            let better = self.best.as_ref().is_none_or(|(best, _)| objective < *best);
            if better && self.problem.fits(&self.placement) {
                self.best = Some((objective, self.placement.clone()));
            }
            return;
        };
        let used = |search: &Self, device: usize| search.placement.contains(&device);
        let mut branches: Vec<(f64, usize, Vec<f64>, f64)> = Vec::new();
        for (device, cost) in self.problem.choices(job) {
            // Of several equal devices without a job, only the first is tried.
            let twin = (self.alike[device]..device)
                .any(|other| self.alike[other] == self.alike[device] && !used(self, other));
            if twin && !used(self, device) {
                continue;
            }
            let mut loads = loads.to_vec();
            loads[device] += cost;
            for &input in &self.problem.jobs[job].inputs {
                let from = self.placement[input];
                if from != usize::MAX {
                    loads[device] += self.problem.transfer_ns(input, from, device);
                }
            }
            for &reader in &self.readers[job] {
                let to = self.placement[reader];
                if to != usize::MAX {
                    loads[to] += self.problem.transfer_ns(job, device, to);
                }
            }
            let energy = energy + self.problem.energy_nj(job, device);
            branches.push((self.bound(place + 1, &loads, energy), device, loads, energy));
        }
        branches.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (bound, device, loads, energy) in branches {
            let best = self.best.as_ref().map_or(f64::INFINITY, |(best, _)| *best);
            if bound >= best * (1.0 - EQUAL) {
                break;
            }
            self.placement[job] = device;
            self.branch(place + 1, &loads, energy);
            self.placement[job] = usize::MAX;
        }
    }

    /// No placement that begins like this one costs less, ns.
    fn bound(&self, place: usize, loads: &[f64], energy: f64) -> f64 {
        let largest = loads.iter().copied().fold(0.0, f64::max);
        let all: f64 = loads.iter().sum::<f64>() + self.least_after[place];
        let period = largest.max(all / loads.len() as f64);
        let weight = self.problem.energy_weight;
        let energy = (energy + self.least_energy_after[place]) * self.ns_per_nj;
        (1.0 - weight) * period + weight * energy
    }
}

fn readers(problem: &Problem) -> Vec<Vec<usize>> {
    let mut readers = vec![Vec::new(); problem.jobs.len()];
    for (job, facts) in problem.jobs.iter().enumerate() {
        for &input in &facts.inputs {
            readers[input].push(job);
        }
    }
    readers
}

/// Finds for each device the first one with equal costs, links, memory, power and group.
fn alike(problem: &Problem) -> Vec<usize> {
    let devices = &problem.devices;
    let is_like = |a: usize, b: usize| {
        let (one, other) = (&devices[a], &devices[b]);
        let others = (0..devices.len()).filter(|d| *d != a && *d != b);
        let between = problem.links[a][b] == problem.links[b][a];
        one.power_w == other.power_w
            && one.memory_bytes == other.memory_bytes
            && one.group == other.group
            && between
            && problem
                .jobs
                .iter()
                .all(|job| job.costs_ns[a] == job.costs_ns[b])
            && others.into_iter().all(|d| {
                problem.links[a][d] == problem.links[b][d]
                    && problem.links[d][a] == problem.links[d][b]
            })
    };
    let first = |device| {
        (0..device)
            .find(|&other| is_like(other, device))
            .unwrap_or(device)
    };
    (0..devices.len()).map(first).collect()
}

/// The minimum cost if jobs could be divided between devices, ns (0 if the linear programme has no solution). With it
/// comes the placement of each job where its largest part is. No more jobs are divided than there are devices.
pub fn divided(problem: &Problem) -> (f64, Option<Placement>) {
    let mut variables = ProblemVariables::new();
    let period = variables.add(variable().min(0));
    let shares: Vec<Vec<(usize, f64, Variable)>> = (0..problem.jobs.len())
        .map(|job| {
            let choices = problem.choices(job);
            choices
                .map(|(device, cost)| (device, cost, variables.add(variable().min(0).max(1))))
                .collect()
        })
        .collect();
    // In units of the mean time, so that the solver's tolerances fit.
    let unit = (0..problem.jobs.len())
        .map(|job| problem.least_ns(job))
        .sum::<f64>()
        / problem.jobs.len().max(1) as f64;
    let weight = problem.energy_weight;
    let mut objective: Expression = (1.0 - weight) * period;
    if weight > 0.0 {
        let scale = weight * problem.ns_per_nj() / unit;
        for (job, shares) in shares.iter().enumerate() {
            for (device, _, share) in shares {
                objective += scale * problem.energy_nj(job, *device) * *share;
            }
        }
    }
    let mut model = variables.minimise(objective).using(default_solver);
    for shares in &shares {
        let all: Expression = shares.iter().map(|(_, _, share)| *share).sum();
        model = model.with(constraint!(all == 1));
    }
    for device in 0..problem.devices.len() {
        let own = shares.iter().flatten().filter(|(at, ..)| *at == device);
        let load: Expression = own.map(|(_, cost, share)| (*cost / unit) * *share).sum();
        model = model.with(constraint!(load <= period));
    }
    match model.solve() {
        Ok(solution) => {
            let energy: f64 = shares
                .iter()
                .enumerate()
                .flat_map(|(job, shares)| shares.iter().map(move |share| (job, share)))
                .map(|(job, (device, _, share))| {
                    problem.energy_nj(job, *device) * solution.value(*share)
                })
                .sum();
            let period = solution.value(period) * unit;
            let largest = |shares: &Vec<(usize, f64, Variable)>| {
                let shares = shares
                    .iter()
                    .map(|(device, _, share)| (*device, solution.value(*share)));
                let largest = shares.max_by(|a, b| a.1.total_cmp(&b.1));
                largest.map(|(device, _)| device)
            };
            let placement: Option<Placement> = shares.iter().map(largest).collect();
            // The solver's answer is accurate only to its tolerance.
            let cost = (1.0 - weight) * period + weight * energy * problem.ns_per_nj();
            (
                cost * (1.0 - 1e-6),
                placement.filter(|placement| problem.fits(placement)),
            )
        }
        Err(_) => (0.0, None),
    }
}
