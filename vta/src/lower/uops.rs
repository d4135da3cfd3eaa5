//! Micro-op kernels: from a nest of loops to two loops of an instruction and a sequence of micro-ops, kept on the chip.

use std::collections::HashMap;

use super::queue::{Queue, field};
use crate::error::Invalid;
use crate::isa::{AluOp, MemoryType, Nest, Operation, Transfer, Uop, Widths};
use crate::profile::Hardware;

/// A loop, and the step of an iteration in the addresses of accumulator, input and weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loop {
    pub extent: u64,
    pub steps: [u64; 3],
}

impl Loop {
    pub fn new(extent: u64, steps: [u64; 3]) -> Loop {
        Loop { extent, steps }
    }

    /// A loop that advances only the accumulators.
    pub fn of(extent: u64, dst: u64) -> Loop {
        Loop::new(extent, [dst, 0, 0])
    }
}

/// Where in the program a kernel is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
    Reset,
    Multiply,
    Tail(AluOp),
}

impl Site {
    fn number(self) -> usize {
        match self {
            Site::Reset => 0,
            Site::Multiply => 1,
            Site::Tail(op) => 2 + op as usize,
        }
    }
}

/// A site and a virtual thread.
type Key = (usize, usize);

/// A kernel that was made: its micro-ops, and the nest of its calls but for their places.
#[derive(Debug)]
struct Kernel {
    /// Address of the micro-ops in DRAM.
    dram: usize,
    len: usize,
    nest: Nest,
    wgt: [u16; 2],
    /// Address on the chip, if it is there.
    sram: Option<usize>,
}

/// All kernels of a program. One is made at the first call of a site by a virtual thread.
#[derive(Debug)]
pub(super) struct Kernels {
    /// The micro-ops in DRAM.
    pub words: Vec<Uop>,
    kernels: Vec<Kernel>,
    /// Places of the kernels, by site and thread.
    made: HashMap<Key, usize>,
    widths: Widths,
    /// Micro-ops that the chip holds.
    depth: usize,
    /// Address after the last kernel on the chip.
    end: usize,
}

impl Kernels {
    pub fn new(hardware: &Hardware) -> Kernels {
        Kernels {
            words: Vec::new(),
            kernels: Vec::new(),
            made: HashMap::new(),
            widths: hardware.widths(),
            depth: hardware.depths()[0],
            end: 0,
        }
    }

    /// The nest of a call, and its steps of the weight. Loads the kernel if the chip does not hold it. The two outermost
    /// loops of more than one iteration become the instruction's, all others become micro-ops.
    pub fn call(
        &mut self,
        queue: &mut Queue,
        (site, thread): (Site, usize),
        loops: &[Loop],
        base: [u64; 3],
    ) -> Result<(Nest, [u16; 2]), Invalid> {
        let key = (site.number(), thread);
        let kernel = match self.made.get(&key) {
            Some(kernel) => *kernel,
            None => {
                let mut real = loops.iter().copied().filter(|l| l.extent > 1);
                let still = Loop::of(1, 0);
                let hardware = [real.next().unwrap_or(still), real.next().unwrap_or(still)];
                let rest: Vec<Loop> = real.collect();
                let kernel = self.make(key, hardware, &rest, base)?;
                if site == Site::Multiply {
                    self.verify(kernel)?;
                }
                kernel
            }
        };
        self.place(queue, kernel)
    }

    /// The nest of a call over `vectors` contiguous accumulators: one micro-op, and the inner loop.
    pub fn call_flat(
        &mut self,
        queue: &mut Queue,
        (site, thread): (Site, usize),
        vectors: u64,
        base: u64,
    ) -> Result<Nest, Invalid> {
        let key = (site.number(), thread);
        let kernel = match self.made.get(&key) {
            Some(kernel) => *kernel,
            None => {
                let along = Loop {
                    extent: vectors,
                    steps: [1, 1, 0],
                };
                self.make(key, [Loop::of(1, 0), along], &[], [base, base, 0])?
            }
        };
        Ok(self.place(queue, kernel)?.0)
    }

    fn make(
        &mut self,
        key: Key,
        hardware: [Loop; 2],
        rest: &[Loop],
        base: [u64; 3],
    ) -> Result<usize, Invalid> {
        let widths = self.widths;
        let steps = |which: usize, bits| -> Result<[u16; 2], Invalid> {
            let [outer, inner] = hardware.map(|l| field("a step", l.steps[which], bits));
            Ok([outer? as u16, inner? as u16])
        };
        let [outer, inner] = hardware.map(|l| field("a loop", l.extent, 14));
        let nest = Nest {
            begin: 0,
            end: 0,
            iterations: [outer? as u16, inner? as u16],
            dst: steps(0, widths.acc)?,
            src: steps(1, widths.inp)?,
        };
        let wgt = steps(2, widths.wgt)?;
        let dram = self.words.len();
        let total = rest
            .iter()
            .fold(1, |total: u64, l| total.saturating_mul(l.extent));
        if total > self.depth as u64 {
            return Err(Invalid::Overflow {
                memory: "micro-op",
                elements: total,
                depth: self.depth as u64,
            });
        }
        let mut places = vec![base];
        for l in rest {
            let along = |place: &[u64; 3]| {
                let place = *place;
                (0..l.extent).map(move |i| [0, 1, 2].map(|d| place[d] + i * l.steps[d]))
            };
            places = places.iter().flat_map(along).collect();
        }
        for [dst, src, wgt] in places {
            self.words.push(Uop {
                dst: field("an accumulator", dst, widths.acc)? as u16,
                src: field("an input", src, widths.inp)? as u16,
                wgt: field("a weight", wgt, widths.wgt)? as u16,
            });
        }
        let kernel = Kernel {
            dram,
            len: self.words.len() - dram,
            nest,
            wgt,
            sram: None,
        };
        self.kernels.push(kernel);
        self.made.insert(key, self.kernels.len() - 1);
        Ok(self.kernels.len() - 1)
    }

    /// The driver refuses a kernel that names an accumulator again within two micro-ops: it would still be in the pipeline.
    fn verify(&self, kernel: usize) -> Result<(), Invalid> {
        let Kernel { dram, len, .. } = self.kernels[kernel];
        let words = &self.words[dram..dram + len];
        let repeats = |distance: usize| {
            let later = words.iter().skip(distance);
            words.iter().zip(later).any(|(a, b)| a.dst == b.dst)
        };
        match repeats(1) || repeats(2) {
            true => Err(Invalid::Dependency),
            false => Ok(()),
        }
    }

    /// The nest of a kernel on the chip, where it is loaded if it is not there.
    fn place(&mut self, queue: &mut Queue, kernel: usize) -> Result<(Nest, [u16; 2]), Invalid> {
        let begin = match self.kernels[kernel].sram {
            Some(begin) => begin,
            None => self.load(queue, kernel)?,
        };
        let Kernel { len, nest, wgt, .. } = self.kernels[kernel];
        let nest = Nest {
            begin: begin as u16,
            end: (begin + len) as u16,
            ..nest
        };
        Ok((nest, wgt))
    }

    /// Loads a kernel after the others. If there is no room left, it goes to the beginning, over the kernels there.
    fn load(&mut self, queue: &mut Queue, kernel: usize) -> Result<usize, Invalid> {
        let Kernel { dram, len, .. } = self.kernels[kernel];
        let begin = match self.end + len > self.depth {
            true => 0,
            false => self.end,
        };
        let end = begin + len;
        for other in &mut self.kernels {
            let overlaps = |at: usize| at < end && begin < at + other.len;
            if other.sram.is_some_and(overlaps) {
                other.sram = None;
            }
        }
        self.end = end;
        self.kernels[kernel].sram = Some(begin);
        queue.append(Operation::Load(Transfer {
            sram: begin as u16,
            dram: field("an address of micro-ops", dram as u64, 32)? as u32,
            rows: 1,
            columns: len as u16,
            stride: len as u16,
            ..Transfer::nothing(MemoryType::Uop)
        }));
        Ok(begin)
    }
}
