//! Lowering a convolution to instructions, as TVM's compiler and VTA's driver did it.
//!
//! Tiles go over images, output rows, output channels, output columns. A virtual thread has its own part of each memory.
//! For each tile all threads reset their accumulators. Then, for each tile of input channels, all threads load and all
//! multiply. At last all run the tail and all store. Tokens keep the stages in step ([`queue`]).

mod fold;
mod queue;
mod uops;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::Invalid;
use crate::isa::{AluOp, Instruction, MemoryType, Operation, Stage, Transfer, Uop};
use crate::profile::Hardware;
use crate::workload::{Packed, Workload};
use fold::{Rectangle, fold};
use queue::Queue;
use uops::{Kernels, Loop};

/// The operations after the multiplication, on accumulators: a bias for each channel, a shift to the right, bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Whether a bias of 32 bits is added for each output channel.
    pub bias: bool,
    /// Bits of the shift.
    pub shift: i16,
    /// Smallest value.
    pub min: i16,
    /// Largest value.
    pub max: i16,
}

impl Tail {
    /// The tail of AutoTVM's tasks: `>> 8`, at most 127, at least 0.
    pub const AUTOTVM: Tail = Tail {
        bias: false,
        shift: 8,
        min: 0,
        max: 127,
    };
}

/// A lowered convolution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The instructions, in order.
    pub instructions: Vec<Instruction>,
    /// The micro-ops in DRAM.
    pub uops: Vec<Uop>,
    /// Calls of the driver's interface that made the instructions.
    pub host_calls: u64,
}

/// Lowers a workload.
///
/// # Errors
/// Fails if the configuration could not be compiled, or the driver would refuse it.
pub fn lower(
    hardware: &Hardware,
    workload: &Workload,
    config: &Config,
    tail: Tail,
) -> Result<Program, Invalid> {
    let packed = workload.packed(hardware)?;
    config.check(&packed, hardware, tail.bias)?;
    Lowering::new(hardware, &packed, config, tail)?.run()
}

/// Places of a thread's tiles on the chip.
struct Base {
    inp: u64,
    wgt: u64,
    acc: u64,
    bias: u64,
}

struct Lowering<'a> {
    p: &'a Packed,
    c: &'a Config,
    tail: Tail,
    inp: [u64; 2],
    bases: Vec<Base>,
    queue: Queue,
    kernels: Kernels,
    /// Output tiles that follow each other in a thread.
    outer: [u64; 4],
}

/// An output tile: block of images, first row, first block of channels, first column.
#[derive(Clone, Copy)]
struct Tile {
    b: u64,
    h: u64,
    co: u64,
    w: u64,
}

impl<'a> Lowering<'a> {
    fn new(
        hardware: &Hardware,
        p: &'a Packed,
        c: &'a Config,
        tail: Tail,
    ) -> Result<Lowering<'a>, Invalid> {
        let inp = c.input_tile(p);
        let acc = c.output_tile();
        let bias = if tail.bias { c.tile_co } else { 0 };
        let taps = p.kernel[0] * p.kernel[1];
        let base = |t: u64| Base {
            inp: t * c.tile_b * c.tile_ci * inp[0] * inp[1],
            wgt: t * c.tile_co * c.tile_ci * taps,
            acc: t * acc,
            bias: c.threads() * acc + t * bias,
        };
        Ok(Lowering {
            p,
            c,
            tail,
            inp,
            bases: (0..c.threads()).map(base).collect(),
            queue: Queue::default(),
            kernels: Kernels::new(hardware),
            outer: [
                p.batch / c.tile_b,
                p.out_height / c.tile_h / c.h_nthread,
                p.co / c.tile_co / c.oc_nthread,
                p.out_width / c.tile_w,
            ],
        })
    }

    fn run(mut self) -> Result<Program, Invalid> {
        let threads = self.bases.len();
        // Stores of one tile and the next tile's computation overlap only where there is a next one.
        let repeats = self.outer.iter().product::<u64>() > 1;
        if repeats {
            for _ in 0..threads {
                self.queue.push(Stage::Store, Stage::Compute);
            }
        }
        let [bs, hs, cos, ws] = self.outer;
        for b in 0..bs {
            for h in 0..hs {
                for co in 0..cos {
                    for w in 0..ws {
                        self.tile([b, h, co, w], repeats)?;
                    }
                }
            }
        }
        // With one thread the compiler puts these pops after the synchronisation, where nothing takes them.
        if repeats && threads > 1 {
            for _ in 0..threads {
                self.queue.pop(Stage::Store, Stage::Compute);
            }
        }
        self.queue.synchronise();
        Ok(Program {
            instructions: self.queue.instructions,
            uops: self.kernels.words,
            host_calls: self.queue.calls,
        })
    }

    /// The tile of a thread.
    fn of_thread(&self, [b, h, co, w]: [u64; 4], thread: usize) -> Tile {
        let t = thread as u64;
        let c = self.c;
        let (h, co) = match c.oc_nthread {
            2 => (h, co * 2 + t),
            _ => (h * c.h_nthread + t, co),
        };
        Tile {
            b: b * c.tile_b,
            h: h * c.tile_h,
            co: co * c.tile_co,
            w: w * c.tile_w,
        }
    }

    fn tile(&mut self, place: [u64; 4], repeats: bool) -> Result<(), Invalid> {
        let threads = self.bases.len();
        let (load, compute, store) = (Stage::Load, Stage::Compute, Stage::Store);
        for t in 0..threads {
            if repeats {
                self.queue.pop(store, compute);
            }
            self.reset(t)?;
            self.queue.push(compute, load);
        }
        let steps = self.p.ci / self.c.tile_ci;
        for step in 0..steps {
            for t in 0..threads {
                self.queue.pop(compute, load);
                let tile = self.of_thread(place, t);
                self.load_input(t, tile, step * self.c.tile_ci)?;
                self.load_weights(t, tile, step * self.c.tile_ci)?;
                self.queue.push(load, compute);
            }
            for t in 0..threads {
                self.queue.pop(load, compute);
                self.multiply(t)?;
                match steps > 1 {
                    true => self.queue.push(compute, load),
                    // Without a loop between them the compiler keeps the multiplication and the tail together.
                    false => self.tail(t, self.of_thread(place, t))?,
                }
            }
        }
        if steps > 1 {
            for _ in 0..threads {
                self.queue.pop(compute, load);
            }
            for t in 0..threads {
                self.tail(t, self.of_thread(place, t))?;
            }
        }
        for t in 0..threads {
            self.queue.pop(compute, store);
            let tile = self.of_thread(place, t);
            self.store(t, tile)?;
            if repeats {
                self.queue.push(store, compute);
            }
        }
        Ok(())
    }

    fn reset(&mut self, thread: usize) -> Result<(), Invalid> {
        let c = self.c;
        let loops = [
            Loop::of(c.tile_b, c.tile_co * c.tile_h * c.tile_w),
            Loop::of(c.tile_w, 1),
            Loop::of(c.tile_co, c.tile_h * c.tile_w),
            Loop::of(c.tile_h, c.tile_w),
        ];
        let base = [self.bases[thread].acc, 0, 0];
        let site = (uops::Site::Reset, thread);
        let (nest, wgt) = self.kernels.call(&mut self.queue, site, &loops, base)?;
        self.queue.emit(Operation::Gemm {
            nest,
            reset: true,
            wgt,
        });
        Ok(())
    }

    fn multiply(&mut self, thread: usize) -> Result<(), Invalid> {
        let (c, p) = (self.c, self.p);
        let [kh, kw] = p.kernel;
        let [rows, columns] = self.inp;
        let loops = [
            Loop::new(
                c.tile_b,
                [
                    c.tile_co * c.tile_h * c.tile_w,
                    c.tile_ci * rows * columns,
                    0,
                ],
            ),
            Loop::new(c.tile_ci, [0, rows * columns, kh * kw]),
            Loop {
                extent: c.tile_w,
                steps: [1, p.stride[1], 0],
            },
            Loop::new(kw, [0, 1, 1]),
            Loop::new(kh, [0, columns, kw]),
            Loop::new(c.tile_co, [c.tile_h * c.tile_w, 0, c.tile_ci * kh * kw]),
            Loop {
                extent: c.tile_h,
                steps: [c.tile_w, p.stride[0] * columns, 0],
            },
        ];
        let base = &self.bases[thread];
        let base = [base.acc, base.inp, base.wgt];
        let site = (uops::Site::Multiply, thread);
        let (nest, wgt) = self.kernels.call(&mut self.queue, site, &loops, base)?;
        self.queue.emit(Operation::Gemm {
            nest,
            reset: false,
            wgt,
        });
        Ok(())
    }

    fn tail(&mut self, thread: usize, tile: Tile) -> Result<(), Invalid> {
        let c = self.c;
        let Base { acc, bias, .. } = self.bases[thread];
        if self.tail.bias {
            let rectangle = Rectangle::line(c.tile_co);
            let transfer = rectangle.transfer(MemoryType::Acc, bias, tile.co)?;
            self.queue.emit(Operation::Load(transfer));
            let loops = [
                Loop::new(c.tile_b, [c.tile_co * c.tile_h * c.tile_w, 0, 0]),
                Loop::new(c.tile_co, [c.tile_h * c.tile_w, 1, 0]),
                Loop::of(c.tile_h * c.tile_w, 1),
            ];
            let site = (uops::Site::Tail(AluOp::Add), thread);
            let base = [acc, bias, 0];
            let (nest, _) = self.kernels.call(&mut self.queue, site, &loops, base)?;
            self.queue.emit(Operation::Alu {
                nest,
                op: AluOp::Add,
                immediate: None,
            });
        }
        let steps = [
            (AluOp::Shr, self.tail.shift),
            (AluOp::Min, self.tail.max),
            (AluOp::Max, self.tail.min),
        ];
        for (op, value) in steps {
            let site = (uops::Site::Tail(op), thread);
            let nest = self
                .kernels
                .call_flat(&mut self.queue, site, c.output_tile(), acc)?;
            self.queue.emit(Operation::Alu {
                nest,
                op,
                immediate: Some(value),
            });
        }
        self.queue.push(Stage::Compute, Stage::Store);
        Ok(())
    }

    fn load_input(&mut self, thread: usize, tile: Tile, ci: u64) -> Result<(), Invalid> {
        let (c, p) = (self.c, self.p);
        let [rows, columns] = self.inp;
        let base = self.bases[thread].inp;
        let image = |b: u64| (b * p.ci + ci) * p.height;
        if p.padding == [0, 0] {
            let dims = [
                (c.tile_b, p.ci * p.height * p.width),
                (c.tile_ci, p.height * p.width),
                (rows, p.width),
                (columns, 1),
            ];
            let rectangle = fold(&dims).ok_or(Invalid::NoRectangle("input"))?;
            let first = (image(tile.b) + tile.h * p.stride[0]) * p.width + tile.w * p.stride[1];
            let transfer = rectangle.transfer(MemoryType::Inp, base, first)?;
            self.queue.emit(Operation::Load(transfer));
            return Ok(());
        }
        if c.tile_b != 1 {
            return Err(Invalid::NoRectangle("padded input"));
        }
        let clip = |first: u64, extent: u64, size: u64, padding: u64| {
            let before = padding.saturating_sub(first).min(extent);
            let after = (first + extent)
                .saturating_sub(padding + size)
                .min(extent - before);
            let start = first.saturating_sub(padding).min(size);
            (start, extent - before - after, [before, after])
        };
        let (y, height, pad_rows) = clip(tile.h * p.stride[0], rows, p.height, p.padding[0]);
        let (x, width, pad_columns) = clip(tile.w * p.stride[1], columns, p.width, p.padding[1]);
        if width == 0 {
            // A load without columns moves nothing, not even zeros.
            return Err(Invalid::NoRectangle("padding"));
        }
        let rectangle = Rectangle {
            rows: height,
            columns: width,
            stride: p.width,
        };
        let first = (image(tile.b) + y) * p.width + x;
        let mut transfer = rectangle.transfer(MemoryType::Inp, base, first)?;
        for (pads, own) in [
            (pad_rows, &mut transfer.pad_rows),
            (pad_columns, &mut transfer.pad_columns),
        ] {
            for (pad, own) in pads.into_iter().zip(own) {
                *own = queue::field("padding", pad, 4)? as u8;
            }
        }
        self.queue.emit(Operation::Load(transfer));
        Ok(())
    }

    fn load_weights(&mut self, thread: usize, tile: Tile, ci: u64) -> Result<(), Invalid> {
        let (c, p) = (self.c, self.p);
        let taps = p.kernel[0] * p.kernel[1];
        let dims = [(c.tile_co, p.ci * taps), (c.tile_ci * taps, 1)];
        let rectangle = fold(&dims).ok_or(Invalid::NoRectangle("weight"))?;
        let first = (tile.co * p.ci + ci) * taps;
        let base = self.bases[thread].wgt;
        let transfer = rectangle.transfer(MemoryType::Wgt, base, first)?;
        self.queue.emit(Operation::Load(transfer));
        Ok(())
    }

    fn store(&mut self, thread: usize, tile: Tile) -> Result<(), Invalid> {
        let (c, p) = (self.c, self.p);
        let image = p.out_height * p.out_width;
        let dims = [
            (c.tile_b, p.co * image),
            (c.tile_co, image),
            (c.tile_h, p.out_width),
            (c.tile_w, 1),
        ];
        let rectangle = fold(&dims).ok_or(Invalid::NoRectangle("output"))?;
        let first = ((tile.b * p.co + tile.co) * p.out_height + tile.h) * p.out_width + tile.w;
        let transfer = rectangle.transfer(MemoryType::Out, self.bases[thread].acc, first)?;
        self.queue.emit(Operation::Store(transfer));
        Ok(())
    }
}

impl Rectangle {
    /// The transfer of this rectangle between `sram` on the chip and `dram`.
    fn transfer(&self, memory: MemoryType, sram: u64, dram: u64) -> Result<Transfer, Invalid> {
        Ok(Transfer {
            sram: queue::field("an address on the chip", sram, 16)? as u16,
            dram: queue::field("an address in DRAM", dram, 32)? as u32,
            rows: queue::field("rows", self.rows, 16)? as u16,
            columns: queue::field("columns", self.columns, 16)? as u16,
            stride: queue::field("the stride", self.stride, 16)? as u16,
            ..Transfer::nothing(memory)
        })
    }
}

#[cfg(test)]
mod tests;
