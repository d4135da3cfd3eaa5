//! A placement problem: jobs, the devices that they can run on, and the cost of a placement.
//!
//! The *load* of a device is the time of its jobs, with the transfers of their inputs from other devices. The largest load is
//! the period in which the jobs of one run after the other can go through the devices side by side. Devices of a group share
//! something (memory bandwidth, a cache): if several of them work, each takes `slowdown` times as long.

use opdata::DeviceKind;

/// A device.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// The device's name, such as `cpu0`.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Threads of a job on it.
    pub threads: u64,
    /// Power while it works, W; 0 if energy does not count.
    pub power_w: f64,
    /// Memory for weights and the largest output, bytes.
    pub memory_bytes: Option<u64>,
    /// Number of the group of devices with shared resources that it belongs to.
    pub group: Option<usize>,
}

/// A way from one device to another.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Link {
    /// Time of an empty transfer, ns.
    pub latency_ns: f64,
    /// Time of a byte, ns.
    pub ns_per_byte: f64,
}

/// A call of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name: model and operator.
    pub name: String,
    /// Number of its model.
    pub model: usize,
    /// Time on each device, ns. `None` where the job cannot run.
    pub costs_ns: Vec<Option<f64>>,
    /// Bytes of its weights.
    pub weight_bytes: u64,
    /// Bytes of its output.
    pub output_bytes: u64,
    /// Numbers of the jobs whose outputs it reads, all lower than its own.
    pub inputs: Vec<usize>,
}

/// The device of each job.
pub type Placement = Vec<usize>;

/// Jobs, devices and the links between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The devices.
    pub devices: Vec<Device>,
    /// The jobs.
    pub jobs: Vec<Job>,
    /// The link from a device (first index) to another (second index).
    pub links: Vec<Vec<Link>>,
    /// The slowdown of each group, at least 1.
    pub slowdowns: Vec<f64>,
    /// Weight of energy against time, 0 (time alone) to 1 (energy alone).
    pub energy_weight: f64,
}

impl Problem {
    /// The devices that a job can run on, with its time on each, ns.
    pub fn choices(&self, job: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let costs = self.jobs[job].costs_ns.iter().enumerate();
        costs.filter_map(|(device, cost)| Some((device, (*cost)?)))
    }

    /// Shortest time of a job on any device, ns; infinite if it can run on none.
    pub fn least_ns(&self, job: usize) -> f64 {
        let times = self.choices(job).map(|(_, cost)| cost);
        times.fold(f64::INFINITY, f64::min)
    }

    /// Time of a job on a device, ns; infinite where it cannot run.
    pub fn cost_ns(&self, job: usize, device: usize) -> f64 {
        self.jobs[job].costs_ns[device].unwrap_or(f64::INFINITY)
    }

    /// Time of moving a job's output between devices, ns.
    pub fn transfer_ns(&self, job: usize, from: usize, to: usize) -> f64 {
        if from == to {
            return 0.0;
        }
        let link = self.links[from][to];
        link.latency_ns + link.ns_per_byte * self.jobs[job].output_bytes as f64
    }

    /// Slowdown of each device under a placement, because others of its group work at the same time.
    pub fn slowdowns_of(&self, placement: &[usize]) -> Vec<f64> {
        let mut used = vec![false; self.devices.len()];
        for &device in placement {
            used[device] = true;
        }
        let devices = 0..self.devices.len();
        let slowdown = |device: usize| {
            let group = self.devices[device].group?;
            let shares = |other: usize| {
                other != device && used[other] && self.devices[other].group == Some(group)
            };
            devices.clone().any(shares).then(|| self.slowdowns[group])
        };
        devices
            .clone()
            .map(|d| slowdown(d).unwrap_or(1.0))
            .collect()
    }

    /// The load of each device, ns.
    pub fn loads_ns(&self, placement: &[usize]) -> Vec<f64> {
        let mut loads = vec![0.0; self.devices.len()];
        for (job, &device) in placement.iter().enumerate() {
            loads[device] += self.cost_ns(job, device);
            for &input in &self.jobs[job].inputs {
                loads[device] += self.transfer_ns(input, placement[input], device);
            }
        }
        let slowdowns = self.slowdowns_of(placement);
        loads
            .iter()
            .zip(slowdowns)
            .map(|(load, slow)| load * slow)
            .collect()
    }

    /// Energy of a job on a device, nJ.
    pub fn energy_nj(&self, job: usize, device: usize) -> f64 {
        self.cost_ns(job, device) * self.devices[device].power_w
    }

    /// Minimum energy of a job on any device, nJ; infinite if it can run on none.
    pub fn least_energy_nj(&self, job: usize) -> f64 {
        let energies = self
            .choices(job)
            .map(|(device, _)| self.energy_nj(job, device));
        energies.fold(f64::INFINITY, f64::min)
    }

    /// Energy of all jobs, nJ.
    pub fn all_energy_nj(&self, placement: &[usize]) -> f64 {
        let jobs = placement.iter().enumerate();
        jobs.map(|(job, &device)| self.energy_nj(job, device)).sum()
    }

    /// Nanoseconds that weigh as much as a nanojoule: sum of the shortest times over that of the minimum energies of
    /// all jobs.
    pub fn ns_per_nj(&self) -> f64 {
        let jobs = || 0..self.jobs.len();
        let energy: f64 = jobs().map(|job| self.least_energy_nj(job)).sum();
        match energy > 0.0 {
            true => jobs().map(|job| self.least_ns(job)).sum::<f64>() / energy,
            false => 0.0,
        }
    }

    /// Cost of a placement, ns: the weighted sum of the largest load and the energy.
    pub fn objective_ns(&self, placement: &[usize]) -> f64 {
        let period = self.loads_ns(placement).into_iter().fold(0.0, f64::max);
        if self.energy_weight == 0.0 {
            return period;
        }
        let energy = self.all_energy_nj(placement) * self.ns_per_nj();
        (1.0 - self.energy_weight) * period + self.energy_weight * energy
    }

    /// Cost of a placement for one job, ns: the weighted sum of its device's load and its own energy.
    pub fn own_cost_ns(&self, placement: &[usize], job: usize) -> f64 {
        let device = placement[job];
        let load = self.loads_ns(placement)[device];
        if self.energy_weight == 0.0 {
            return load;
        }
        let energy = self.energy_nj(job, device) * self.ns_per_nj();
        (1.0 - self.energy_weight) * load + self.energy_weight * energy
    }

    /// Bytes that a device holds under a placement: all weights and the largest output.
    pub fn memory_bytes(&self, placement: &[usize], device: usize) -> u64 {
        let own = || {
            placement
                .iter()
                .zip(&self.jobs)
                .filter(|(d, _)| **d == device)
        };
        let weights: u64 = own().map(|(_, job)| job.weight_bytes).sum();
        weights + own().map(|(_, job)| job.output_bytes).max().unwrap_or(0)
    }

    /// Whether every device holds what a placement puts there.
    pub fn fits(&self, placement: &[usize]) -> bool {
        let devices = self.devices.iter().enumerate();
        let mut limits = devices.filter_map(|(device, facts)| Some((device, facts.memory_bytes?)));
        limits.all(|(device, most)| self.memory_bytes(placement, device) <= most)
    }
}
