//! Dumps of the tests' own making, for every chip and mode, with what is true of them.
//!
//! Per core and kernel: tiles of two loads, a matrix multiplication, an addition and a store, and some SDMA traffic.
//! They are framed as each chip frames its profiles. Durations and sizes come from a small generator, so a seed is a
//! dump.

#![allow(dead_code)]

mod descriptors;
mod files;
mod maker;

use tpuprofile::chip::Chip;

/// What to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    Pmu,
    Nodes,
    Details,
    Bmodel,
}

pub const CAPTURES: [Capture; 4] = [
    Capture::Pmu,
    Capture::Nodes,
    Capture::Details,
    Capture::Bmodel,
];

#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub chip: Chip,
    pub capture: Capture,
    pub kernels: u32,
    pub tiles: u32,
    /// Kernels have this many lengths, in turn.
    pub vary: u32,
    pub ports: u32,
    pub wrap: bool,
    pub counts: bool,
    pub seed: u64,
}

impl Spec {
    pub fn new(chip: Chip, capture: Capture) -> Spec {
        Spec {
            chip,
            capture,
            kernels: 3,
            tiles: 6,
            vary: 3,
            ports: 0,
            wrap: false,
            counts: true,
            seed: 1,
        }
    }
}

/// One engine's record before it is bytes: ticks by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rec {
    pub start: u64,
    pub end: u64,
    pub id: u32,
    pub bytes: u32,
    pub to_local: bool,
    pub sync: bool,
    pub word: u32,
}

/// What is true of a record of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    pub cycles: u64,
    pub kernel: u32,
    pub id: u32,
    pub name: &'static str,
    pub bytes: u32,
}

/// A core's parts, to be damaged before they are written.
#[derive(Debug, Clone, Default)]
pub struct Core {
    pub records: [Vec<Rec>; 3],
    pub nodes: Vec<u32>,
    /// Ids and bytes.
    pub extra: Vec<(u32, Vec<u8>)>,
    pub des: [Vec<Vec<u8>>; 2],
    pub truth: [Vec<Truth>; 3],
}

pub struct Dump {
    pub spec: Spec,
    pub cores: Vec<Core>,
}

/// Makes a dump.
pub fn make(spec: Spec) -> Dump {
    let chip = spec.chip.spec();
    let cores = (0..chip.cores)
        .map(|number| maker::core(&spec, number))
        .collect();
    Dump { spec, cores }
}
