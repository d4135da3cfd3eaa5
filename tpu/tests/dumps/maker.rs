//! A core of a dump, made step by step.

use tpuprofile::chip::{Chip, ChipSpec};

use super::descriptors::{DDR, LMEM, addition, dma_system, matmul, system, transfer};
use super::{Capture, Core, Rec, Spec, Truth};

/// Makes a core.
pub fn core(spec: &Spec, number: u32) -> Core {
    let mut maker = Maker::new(spec, number);
    maker.preamble();
    maker.ports_preamble();
    let (mut gdma, mut tiu) = (maker.now, maker.now);
    for kernel in 0..spec.kernels {
        (gdma, tiu) = maker.kernel(kernel, gdma, tiu);
    }
    maker.end(gdma, tiu);
    maker.ports();
    maker.core
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

/// A core being made.
struct Maker<'a> {
    spec: &'a Spec,
    chip: &'static ChipSpec,
    number: u32,
    code: [u32; 5],
    bmodel: bool,
    /// Two pairs of records precede the program.
    pair: bool,
    random: Random,
    base: u64,
    core: Core,
    now: u64,
    /// The next ids of TIU, GDMA and SDMA.
    ids: [u32; 3],
}

impl Maker<'_> {
    fn new(spec: &Spec, number: u32) -> Maker<'_> {
        let chip = spec.chip.spec();
        Maker {
            spec,
            pair: chip.preamble_len() == 2,
            chip,
            number,
            code: engines(spec.chip),
            bmodel: spec.capture == Capture::Bmodel,
            random: Random(spec.seed * 7919 + u64::from(number) + 1),
            base: u64::from(number) * 1_000_003 + if spec.wrap { (1 << 32) - 20_000 } else { 5000 },
            core: Core::default(),
            now: 1000,
            ids: [0; 3],
        }
    }

    fn tiu(&self, start: u64, end: u64, id: u32, word: u32) -> Rec {
        let scale = self.chip.tiu_mhz / self.chip.dma_mhz;
        Rec {
            start: ((start + self.base) as f64 * scale) as u64,
            end: ((end + self.base) as f64 * scale) as u64,
            id,
            bytes: 0,
            to_local: false,
            sync: false,
            word,
        }
    }

    fn dma(&self, start: u64, end: u64, id: u32, bytes: u32, to_local: bool) -> Rec {
        Rec {
            start: start + self.base,
            end: end + self.base,
            id,
            bytes,
            to_local,
            sync: bytes == 0,
            word: 0,
        }
    }

    fn record(&mut self, engine: usize, record: Rec) {
        self.core.records[engine].push(record);
    }

    fn truth(&mut self, engine: usize, truth: Truth) {
        self.core.truth[engine].push(truth);
    }

    /// The id of an engine's next command.
    fn next_id(&mut self, engine: usize) -> u32 {
        self.ids[engine] += 1;
        self.ids[engine] - 1
    }

    fn reset(&mut self) {
        let nodes = self.code[..3].iter().map(|code| 12 | code << 7);
        self.core.nodes.extend(nodes);
    }

    /// What the runtime does before the program.
    fn preamble(&mut self) {
        let (code, now) = (self.code, self.now);
        for j in 0..if self.pair { 2 } else { 0 } {
            let at = now + 40 * u64::from(j);
            self.record(1, self.dma(at, at + 11, 100 + j, 0, true));
            self.record(0, self.tiu(at, at + 25, 100 + j, 0));
            self.record(2, self.dma(at, at + 11, 100 + j, 0, true));
            if !self.bmodel {
                self.core.node(code[1], 6, 3, 0, dma_system(3));
                self.core.node(code[0], 15, 9, 0, system(9));
                self.core.node(code[2], 6, 3, 0, dma_system(3));
            }
        }
        if !self.bmodel {
            self.reset();
        }
        if self.spec.chip == Chip::Cv84x6 {
            self.record(0, self.tiu(now - 500, now - 490, 7, 0));
            for (j, function) in [(0u64, 8u32), (1, 9)] {
                let id = self.next_id(0);
                self.record(0, self.tiu(now + 20 * j, now + 20 * j + 10, id, 0));
                let detail = system(u64::from(function));
                if self.bmodel {
                    self.core.des[0].push(detail);
                } else {
                    self.core.node(code[0], 15, function, 0, detail);
                }
            }
        }
        self.now += 200;
    }

    /// The last core begins what the ports do.
    fn ports_preamble(&mut self) {
        if self.bmodel || !self.pair || self.number + 1 != self.chip.cores {
            return;
        }
        for _ in 0..self.spec.ports {
            let id = self.next_id(2);
            self.record(2, self.dma(self.now, self.now + 11, id, 0, true));
            self.core.node(self.code[4], 6, 3, 0, dma_system(3));
            self.now += 20;
        }
    }

    /// A kernel of several tiles. Takes and returns the times at which GDMA and TIU are free.
    fn kernel(&mut self, kernel: u32, mut gdma: u64, mut tiu: u64) -> (u64, u64) {
        if !self.bmodel {
            if kernel > 0 {
                self.reset();
                self.ids = [0; 3];
            }
            self.name(kernel);
        }
        // Kernels differ in length, as in life, so that their sections do too.
        for tile in 0..self.spec.tiles + kernel % self.spec.vary {
            self.load(kernel, DDR, LMEM, &mut gdma);
            let dependency = self.load(kernel, DDR, LMEM, &mut gdma);
            tiu = tiu.max(gdma);
            self.compute(kernel, dependency, &mut tiu);
            if tile % 4 == 0 {
                gdma = gdma.max(tiu);
            }
            self.load(kernel, LMEM, DDR, &mut gdma);
        }
        if self.pair && !self.bmodel {
            self.sdma(kernel, gdma.max(4000) - 1500);
        }
        if !self.bmodel {
            self.core.nodes.push(15);
        }
        let free = gdma.max(tiu) + 2500;
        (free, free)
    }

    fn name(&mut self, kernel: u32) {
        let name = format!("kernel_{kernel}");
        self.core.nodes.push(14 | kernel << 7);
        self.core.nodes.push((name.len() as u32) << 7);
        let mut bytes = name.into_bytes();
        bytes.resize(bytes.len().div_ceil(4) * 4, 0);
        let words = bytes.chunks(4);
        let words = words.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        self.core.nodes.extend(words);
    }

    /// A transfer; returns the id of the next one.
    fn load(&mut self, kernel: u32, from: u32, to: u32, at: &mut u64) -> u32 {
        let bytes = 8192 * self.random.between(1, 8) as u32;
        let length = u64::from(bytes) / 64 + self.random.between(10, 90);
        let id = self.next_id(1);
        self.record(1, self.dma(*at, *at + length, id, bytes, to == LMEM));
        let truth = Truth {
            cycles: length + 1,
            kernel,
            id,
            name: if to == LMEM { "tensorLd" } else { "tensorSt" },
            bytes,
        };
        self.truth(1, truth);
        let detail = transfer(self.spec.chip, from, to, u64::from(bytes) / 2);
        if self.bmodel {
            self.core.des[1].push(detail);
        } else {
            let info = 1 | from << 4 | to << 6;
            self.core.node(self.code[1], 0, 0, info, detail);
        }
        *at += length + 2;
        self.ids[1]
    }

    /// A product and an addition.
    fn compute(&mut self, kernel: u32, dependency: u32, at: &mut u64) {
        for (task, function, low, high, name) in [(2, 4, 300, 900, "MM2_NN"), (3, 2, 30, 90, "add")]
        {
            let length = self.random.between(low, high);
            // Not 2: one bank conflict is what a sync record looks like to bigTpuProfile in mode 0.
            let conflicts = [0, 2, 3, 4][self.random.below(4) as usize];
            let id = self.next_id(0);
            let record = self.tiu(*at, *at + length, id, conflicts << 1);
            let truth = Truth {
                cycles: record.end - record.start + 1,
                kernel,
                id,
                name,
                bytes: 0,
            };
            self.truth(0, truth);
            self.record(0, record);
            let detail = if task == 2 {
                matmul(dependency)
            } else {
                addition(dependency)
            };
            if self.bmodel {
                self.core.des[0].push(detail);
            } else {
                self.core.node(self.code[0], task, function, 1, detail);
            }
            *at += length + 1;
        }
    }

    fn sdma(&mut self, kernel: u32, mut at: u64) {
        for _ in 0..3 {
            let id = self.next_id(2);
            self.record(2, self.dma(at, at + 300, id, 8192, false));
            let truth = Truth {
                cycles: 301,
                kernel,
                id,
                name: "tensorLd",
                bytes: 8192,
            };
            self.truth(2, truth);
            let detail = transfer(self.spec.chip, DDR, DDR, 4096);
            self.core.node(self.code[2], 0, 0, 1, detail);
            at += 310;
        }
    }

    /// What ends the program.
    fn end(&mut self, gdma: u64, tiu: u64) {
        let [t, d, _] = self.ids;
        if self.bmodel {
            self.record(0, self.tiu(tiu, tiu + 4, t, 0));
            self.core.des[0].push(system(31));
            if self.spec.chip != Chip::Bm1688 {
                self.record(1, self.dma(gdma, gdma + 9, d, 0, true));
            }
            self.core.des[1].push(dma_system(0));
        }
        if self.spec.chip == Chip::Cv84x6 {
            self.record(0, self.tiu(tiu + 900, tiu + 910, t + 1, 0));
        }
    }

    /// Commands of the CDMA ports.
    fn ports(&mut self) {
        let ports = match self.spec.capture {
            Capture::Nodes => self.spec.ports,
            _ => 0,
        };
        let code = self.code[3];
        for port in 0..ports {
            let node = |task: u32, function: u32, info: u32| {
                1 | code << 7 | task << 10 | function << 15 | (port << 8 | info) << 20
            };
            if self.number + 1 == self.chip.cores {
                let reset = 12 | code << 7 | (port << 8) << 20;
                let nodes = [node(7, 4, 0), node(7, 1, 0), reset];
                self.core.nodes.extend(nodes);
            }
            if self.number == port {
                self.core.nodes.extend([node(0, 0, 1); 5]);
            }
        }
    }
}
