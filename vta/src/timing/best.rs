//! The fastest configuration by the timing model.

use super::{Simulated, simulate};
use crate::config::{Config, Space};
use crate::lower::{Tail, lower};
use crate::profile::Profile;
use crate::workload::{Packed, Workload};

/// The fastest configuration of a workload, and its simulation. `None` if no configuration can be compiled.
///
/// Configurations are tried in the order of a lower bound of their time, until the bound is above the best.
pub fn best(profile: &Profile, workload: &Workload, tail: Tail) -> Option<(Config, Simulated)> {
    let packed = workload.packed(&profile.hardware).ok()?;
    let mut bounded: Vec<(f64, Config)> = Space::of(&packed)
        .configs()
        .filter(|c| c.check(&packed, &profile.hardware, tail.bias).is_ok())
        .map(|c| (bound_ns(profile, &packed, &c), c))
        .collect();
    bounded.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut best: Option<(Config, Simulated)> = None;
    for (bound, config) in bounded {
        if best.is_some_and(|(_, best)| bound >= best.total_ns) {
            break;
        }
        let Ok(program) = lower(&profile.hardware, workload, &config, tail) else {
            continue;
        };
        let Ok(simulated) = simulate(profile, &program) else {
            continue;
        };
        if best.is_none_or(|(_, best)| simulated.total_ns < best.total_ns) {
            best = Some((config, simulated));
        }
    }
    best
}

/// A lower bound of a configuration's time: its host calls, and the busier of the load and the compute stage.
fn bound_ns(profile: &Profile, p: &Packed, c: &Config) -> f64 {
    let t = &profile.timing;
    let [_, _, outputs] = p.elements();
    let tiles = (outputs / c.output_tile()) as f64;
    let steps = (p.ci / c.tile_ci) as f64;
    let taps = p.kernel[0] * p.kernel[1];
    let vectors = outputs as f64 * (1.0 + taps as f64 * p.ci as f64);
    let compute = vectors * t.gemm_uop + 3.0 * outputs as f64 * t.alu_vector;
    let beats = |elements: u64| (elements.div_ceil(profile.hardware.bus_bytes)) as f64;
    let block = profile.hardware.block;
    let weights = (c.tile_co * c.tile_ci * taps) as f64 * beats(block * block) * t.wgt_beat;
    let load = tiles * steps * (t.inp_row + t.wgt_row + 2.0 * t.load_fixed + weights);
    let calls = tiles * (steps * 5.0 + 8.0);
    let host_us = t.host_run_us + t.host_call_us * calls;
    compute.max(load) * 1e3 / profile.hardware.clock_mhz as f64 + host_us * 1e3
}
