//! When each job runs: a placement in time, and the two heuristics that place jobs by it.
//!
//! *HEFT* (Topcuoglu, Hariri and Wu, IEEE TPDS 13, 2002) takes jobs by their upward rank. That is the mean time from a
//! job's begin to the end of all that follows. It gives each to the device where it ends first, in gaps too. *Greedy*
//! takes jobs in the order of the models and appends each where it ends first.

use super::problem::{Placement, Problem};

/// A job in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// The job.
    pub job: usize,
    /// Its device.
    pub device: usize,
    /// Time at which it begins, ns, after its transfers.
    pub begin_ns: f64,
    /// When it ends, ns.
    pub end_ns: f64,
}

/// When the last job ends, ns.
pub fn latency_ns(slots: &[Slot]) -> f64 {
    slots.iter().map(|slot| slot.end_ns).fold(0.0, f64::max)
}

/// The jobs of a placement in time. Each begins when its inputs are there and its device is free; jobs of the highest
/// rank go first.
pub fn of_placement(problem: &Problem, placement: &[usize]) -> Vec<Slot> {
    let slowdowns = problem.slowdowns_of(placement);
    let mut times = Times::new(problem);
    for job in by_rank(problem) {
        let device = placement[job];
        let begin = times.ready(job, device).max(times.free(device));
        let end = begin + problem.cost_ns(job, device) * slowdowns[device];
        times.put(job, device, begin, end);
    }
    times.slots()
}

/// HEFT's placement. `None` if the devices' memory does not suffice.
pub fn heft(problem: &Problem) -> Option<Placement> {
    place(problem, by_rank(problem), true)
}

/// The greedy placement. `None` if the devices' memory does not suffice.
pub fn greedy(problem: &Problem) -> Option<Placement> {
    place(problem, (0..problem.jobs.len()).collect(), false)
}

fn place(problem: &Problem, order: Vec<usize>, in_gaps: bool) -> Option<Placement> {
    let mut times = Times::new(problem);
    let mut used: Vec<(u64, u64)> = vec![(0, 0); problem.devices.len()];
    for job in order {
        let facts = &problem.jobs[job];
        let grown = |device: usize, used: &[(u64, u64)]| {
            let (weights, output) = used[device];
            (weights + facts.weight_bytes, output.max(facts.output_bytes))
        };
        let fits = |device: usize| {
            let (weights, output) = grown(device, &used);
            let most = problem.devices[device].memory_bytes;
            most.is_none_or(|most| weights + output <= most)
        };
        let choices = problem.choices(job).filter(|(device, _)| fits(*device));
        let ends = choices.map(|(device, cost)| {
            let ready = times.ready(job, device);
            let begin = match in_gaps {
                true => times.gap(device, ready, cost),
                false => ready.max(times.free(device)),
            };
            (device, begin, begin + cost)
        });
        let (device, begin, end) = ends.min_by(|a, b| a.2.total_cmp(&b.2))?;
        used[device] = grown(device, &used);
        times.put(job, device, begin, end);
    }
    Some(
        times
            .slots
            .iter()
            .map(|slot| slot.map_or(0, |slot| slot.device))
            .collect(),
    )
}

/// The jobs by upward rank, the highest first: an order in which inputs come before their readers.
fn by_rank(problem: &Problem) -> Vec<usize> {
    let n = problem.jobs.len();
    let mut ranks = vec![0.0_f64; n];
    let pairs = problem.devices.len() * problem.devices.len();
    for job in (0..n).rev() {
        let (mut sum, mut count) = (0.0, 0.0);
        for (_, cost) in problem.choices(job) {
            sum += cost;
            count += 1.0;
        }
        ranks[job] += sum / f64::max(count, 1.0);
        for &input in &problem.jobs[job].inputs {
            let devices = 0..problem.devices.len();
            let between = devices
                .clone()
                .flat_map(|a| devices.clone().map(move |b| (a, b)));
            let transfers = between.map(|(a, b)| problem.transfer_ns(input, a, b));
            let mean = transfers.sum::<f64>() / pairs.max(1) as f64;
            ranks[input] = ranks[input].max(mean + ranks[job]);
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| ranks[b].total_cmp(&ranks[a]).then(a.cmp(&b)));
    order
}

/// The times of the jobs that were placed before.
struct Times<'p> {
    problem: &'p Problem,
    slots: Vec<Option<Slot>>,
    /// The slots of each device by time.
    devices: Vec<Vec<(f64, f64)>>,
}

impl<'p> Times<'p> {
    fn new(problem: &'p Problem) -> Self {
        Times {
            problem,
            slots: vec![None; problem.jobs.len()],
            devices: vec![Vec::new(); problem.devices.len()],
        }
    }

    /// When a job's inputs are on a device, ns.
    fn ready(&self, job: usize, device: usize) -> f64 {
        let inputs = self.problem.jobs[job].inputs.iter();
        let there = inputs.filter_map(|&input| {
            let slot = self.slots[input]?;
            Some(slot.end_ns + self.problem.transfer_ns(input, slot.device, device))
        });
        there.fold(0.0, f64::max)
    }

    /// When a device's last job ends, ns.
    fn free(&self, device: usize) -> f64 {
        self.devices[device].last().map_or(0.0, |(_, end)| *end)
    }

    /// The first moment from `ready` on at which a device is free for a time.
    fn gap(&self, device: usize, ready: f64, cost: f64) -> f64 {
        let mut begin = ready;
        for &(busy, free) in &self.devices[device] {
            if begin + cost <= busy {
                break;
            }
            begin = begin.max(free);
        }
        begin
    }

    fn put(&mut self, job: usize, device: usize, begin_ns: f64, end_ns: f64) {
        let own = &mut self.devices[device];
        let place = own.partition_point(|(begin, _)| *begin < begin_ns);
        own.insert(place, (begin_ns, end_ns));
        self.slots[job] = Some(Slot {
            job,
            device,
            begin_ns,
            end_ns,
        });
    }

    fn slots(self) -> Vec<Slot> {
        self.slots.into_iter().flatten().collect()
    }
}
