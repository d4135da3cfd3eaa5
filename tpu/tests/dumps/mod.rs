//! Dumps of the tests' own making, for every chip and mode, with what is true of them.
//!
//! Per core and kernel: tiles of two loads, a matrix multiplication, an addition and a store, and some SDMA traffic;
//! framed as each chip frames its profiles. Durations and sizes come from a small generator, so a seed is a dump.

#![allow(dead_code)]

mod descriptors;
mod files;

use descriptors::{DDR, LMEM, addition, dma_system, matmul, system, transfer};
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
    /// Kernels have so many lengths, in turn.
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

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }
}

/// Codes of BD, GDMA, SDMA, CDMA, VSDMA.
fn engines(chip: Chip) -> [u32; 5] {
    if chip == Chip::Aks {
        [0, 1, 3, 4, 5]
    } else {
        [0, 1, 2, 3, 4]
    }
}

impl Core {
    fn node(&mut self, code: u32, task: u32, function: u32, info: u32, detail: Vec<u8>) {
        self.nodes
            .push(1 | code << 7 | task << 10 | function << 15 | info << 20);
        self.extra.push((self.extra.len() as u32, detail));
    }
}

/// Makes a dump.
pub fn make(spec: Spec) -> Dump {
    let chip = spec.chip.spec();
    let cores = (0..chip.cores)
        .map(|number| make_core(&spec, number))
        .collect();
    Dump { spec, cores }
}

fn make_core(spec: &Spec, number: u32) -> Core {
    let chip = spec.chip.spec();
    let code = engines(spec.chip);
    let bmodel = spec.capture == Capture::Bmodel;
    let pair = chip.preamble_len() == 2;
    let mut random = Random(spec.seed * 7919 + u64::from(number) + 1);
    let base = u64::from(number) * 1_000_003 + if spec.wrap { (1 << 32) - 20_000 } else { 5000 };
    let scale = chip.tiu_mhz / chip.dma_mhz;
    let mut core = Core::default();
    let tiu = |s: u64, e: u64, id: u32, word: u32| Rec {
        start: ((s + base) as f64 * scale) as u64,
        end: ((e + base) as f64 * scale) as u64,
        id,
        bytes: 0,
        to_local: false,
        sync: false,
        word,
    };
    let dma = |s: u64, e: u64, id: u32, bytes: u32, to_local: bool| Rec {
        start: s + base,
        end: e + base,
        id,
        bytes,
        to_local,
        sync: bytes == 0,
        word: 0,
    };
    let mut now = 1000;
    if pair {
        for j in 0..2 {
            let at = now + 40 * u64::from(j);
            core.records[1].push(dma(at, at + 11, 100 + j, 0, true));
            core.records[0].push(tiu(at, at + 25, 100 + j, 0));
            core.records[2].push(dma(at, at + 11, 100 + j, 0, true));
            if !bmodel {
                core.node(code[1], 6, 3, 0, dma_system(3));
                core.node(code[0], 15, 9, 0, system(9));
                core.node(code[2], 6, 3, 0, dma_system(3));
            }
        }
    }
    let (mut t, mut d, mut s) = (0u32, 0u32, 0u32);
    let reset = |core: &mut Core| core.nodes.extend(code[..3].iter().map(|c| 12 | c << 7));
    if !bmodel {
        reset(&mut core);
    }
    if spec.chip == Chip::Cv84x6 {
        core.records[0].push(tiu(now - 500, now - 490, 7, 0));
        for (j, function) in [(0u64, 8u32), (1, 9)] {
            core.records[0].push(tiu(now + 20 * j, now + 20 * j + 10, t, 0));
            t += 1;
            if bmodel {
                core.des[0].push(system(u64::from(function)));
            } else {
                core.node(code[0], 15, function, 0, system(u64::from(function)));
            }
        }
    }
    now += 200;
    if !bmodel && pair && number + 1 == chip.cores {
        for _ in 0..spec.ports {
            core.records[2].push(dma(now, now + 11, s, 0, true));
            core.node(code[4], 6, 3, 0, dma_system(3));
            s += 1;
            now += 20;
        }
    }
    let (mut gt, mut tt) = (now, now);
    for kernel in 0..spec.kernels {
        if !bmodel {
            if kernel > 0 {
                reset(&mut core);
                (t, d, s) = (0, 0, 0);
            }
            let name = format!("kernel_{kernel}");
            core.nodes.push(14 | kernel << 7);
            core.nodes.push((name.len() as u32) << 7);
            let mut bytes = name.into_bytes();
            bytes.resize(bytes.len().div_ceil(4) * 4, 0);
            core.nodes.extend(
                bytes
                    .chunks(4)
                    .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            );
        }
        // Kernels differ in length, as in life, so that their sections do too.
        for tile in 0..spec.tiles + kernel % spec.vary {
            let mut load = |core: &mut Core, random: &mut Random, from, to, gt: &mut u64| {
                let bytes = 8192 * random.between(1, 8) as u32;
                let length = u64::from(bytes) / 64 + random.between(10, 90);
                core.records[1].push(dma(*gt, *gt + length, d, bytes, to == LMEM));
                let name = if to == LMEM { "tensorLd" } else { "tensorSt" };
                core.truth[1].push(Truth {
                    cycles: length + 1,
                    kernel,
                    id: d,
                    name,
                    bytes,
                });
                let detail = transfer(spec.chip, from, to, u64::from(bytes) / 2);
                if bmodel {
                    core.des[1].push(detail);
                } else {
                    core.node(code[1], 0, 0, 1 | from << 4 | to << 6, detail);
                }
                d += 1;
                *gt += length + 2;
                d
            };
            load(&mut core, &mut random, DDR, LMEM, &mut gt);
            let dependency = load(&mut core, &mut random, DDR, LMEM, &mut gt);
            tt = tt.max(gt);
            for (task, function, low, high, name) in
                [(2, 4, 300, 900, "MM2_NN"), (3, 2, 30, 90, "add")]
            {
                let length = random.between(low, high);
                // Not 2: one bank conflict is what a sync record looks like to bigTpuProfile in mode 0.
                let conflicts = [0, 2, 3, 4][random.below(4) as usize];
                let record = tiu(tt, tt + length, t, conflicts << 1);
                core.truth[0].push(Truth {
                    cycles: record.end - record.start + 1,
                    kernel,
                    id: t,
                    name,
                    bytes: 0,
                });
                core.records[0].push(record);
                let detail = if task == 2 {
                    matmul(dependency)
                } else {
                    addition(dependency)
                };
                if bmodel {
                    core.des[0].push(detail);
                } else {
                    core.node(code[0], task, function, 1, detail);
                }
                t += 1;
                tt += length + 1;
            }
            if tile % 4 == 0 {
                gt = gt.max(tt);
            }
            load(&mut core, &mut random, LMEM, DDR, &mut gt);
        }
        if pair && !bmodel {
            let mut at = gt.max(4000) - 1500;
            for _ in 0..3 {
                core.records[2].push(dma(at, at + 300, s, 8192, false));
                core.truth[2].push(Truth {
                    cycles: 301,
                    kernel,
                    id: s,
                    name: "tensorLd",
                    bytes: 8192,
                });
                core.node(code[2], 0, 0, 1, transfer(spec.chip, DDR, DDR, 4096));
                s += 1;
                at += 310;
            }
        }
        if !bmodel {
            core.nodes.push(15);
        }
        gt = gt.max(tt) + 2500;
        tt = gt;
    }
    if bmodel {
        core.records[0].push(tiu(tt, tt + 4, t, 0));
        core.des[0].push(system(31));
        if spec.chip != Chip::Bm1688 {
            core.records[1].push(dma(gt, gt + 9, d, 0, true));
        }
        core.des[1].push(dma_system(0));
    }
    if spec.chip == Chip::Cv84x6 {
        core.records[0].push(tiu(tt + 900, tt + 910, t + 1, 0));
    }
    if spec.ports > 0 && spec.capture == Capture::Nodes {
        for port in 0..spec.ports {
            let node = |task: u32, function: u32, info: u32| {
                1 | code[3] << 7 | task << 10 | function << 15 | (port << 8 | info) << 20
            };
            if number + 1 == chip.cores {
                core.nodes.extend([
                    node(7, 4, 0),
                    node(7, 1, 0),
                    12 | code[3] << 7 | (port << 8) << 20,
                ]);
            }
            if number == port {
                core.nodes.extend([node(0, 0, 1); 5]);
            }
        }
    }
    core
}
