//! The functional executor: what a stream computes, bit for bit.
//!
//! Instructions take effect in an order that their tokens allow ([`crate::timing::run`]). An element that nothing wrote is
//! an error when it is read, never a zero.

use serde::{Deserialize, Serialize};

use crate::error::StreamError;
use crate::isa::{AluOp, Instruction, MemoryType, Nest, Operation, Transfer, Uop};
use crate::lower::Program;
use crate::profile::Profile;
use crate::timing::run;

/// Maximum number of vector operations of a stream. At 100 MHz a board takes 2.7 s or more for them; VGG's largest
/// layer needs 7 million.
const MAX_OPERATIONS: u64 = 1 << 28;

/// The tensors in DRAM, each with addresses of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dram {
    /// Inputs, in elements of `batch * block` bytes.
    pub inp: Vec<i8>,
    /// Weights, in elements of `block * block` bytes: output channels, then input channels.
    pub wgt: Vec<i8>,
    /// Biases, in elements of `batch * block` words.
    pub acc: Vec<i32>,
    /// Outputs, in elements of `batch * block` bytes.
    pub out: Vec<i8>,
}

/// Runs a lowered program on tensors in DRAM.
///
/// # Errors
/// Fails if the hardware would not do it: see [`StreamError`].
pub fn execute(profile: &Profile, program: &Program, dram: &mut Dram) -> Result<(), StreamError> {
    let mut chip = Chip::new(profile, &program.uops);
    let stream = &program.instructions;
    run(stream, &profile.timing, &profile.hardware, |span| {
        chip.step(span.at, &stream[span.at], dram)
    })?;
    Ok(())
}

/// A memory on the chip, in elements of `width` values.
struct Sram<T> {
    memory: MemoryType,
    width: usize,
    values: Vec<T>,
    written: Vec<bool>,
}

impl<T: Copy + Default> Sram<T> {
    fn new(memory: MemoryType, depth: usize, width: usize) -> Sram<T> {
        Sram {
            memory,
            width,
            values: vec![T::default(); depth * width],
            written: vec![false; depth],
        }
    }

    fn check(&self, at: usize, index: u64) -> Result<usize, StreamError> {
        match index < self.written.len() as u64 {
            true => Ok(index as usize),
            false => Err(StreamError::SramOverflow {
                at,
                memory: self.memory,
                size: self.written.len(),
                index,
            }),
        }
    }

    fn read(&self, at: usize, index: u64) -> Result<&[T], StreamError> {
        let index = self.check(at, index)?;
        match self.written[index] {
            true => Ok(&self.values[index * self.width..][..self.width]),
            false => Err(StreamError::Undefined {
                at,
                memory: self.memory,
                index,
            }),
        }
    }

    fn write(&mut self, at: usize, index: u64) -> Result<&mut [T], StreamError> {
        let index = self.check(at, index)?;
        self.written[index] = true;
        Ok(&mut self.values[index * self.width..][..self.width])
    }

    /// A load: zeros around the rows of a rectangle in DRAM.
    fn load(&mut self, at: usize, t: &Transfer, dram: &[T]) -> Result<(), StreamError> {
        let [top, bottom] = t.pad_rows.map(u64::from);
        let [left, right] = t.pad_columns.map(u64::from);
        let (rows, columns) = (u64::from(t.rows), u64::from(t.columns));
        let mut place = u64::from(t.sram);
        for row in 0..top + rows + bottom {
            for column in 0..left + columns + right {
                let inside =
                    (top..top + rows).contains(&row) && (left..left + columns).contains(&column);
                let source = match inside {
                    false => None,
                    true => {
                        let row = (row - top) * u64::from(t.stride);
                        let index = u64::from(t.dram) + row + column - left;
                        Some(in_dram(at, t.memory, dram.len() / self.width, index)? * self.width)
                    }
                };
                let width = self.width;
                let element = self.write(at, place)?;
                match source {
                    Some(begin) => element.copy_from_slice(&dram[begin..begin + width]),
                    None => element.fill(T::default()),
                }
                place += 1;
            }
        }
        Ok(())
    }
}

fn in_dram(at: usize, memory: MemoryType, size: usize, index: u64) -> Result<usize, StreamError> {
    match index < size as u64 {
        true => Ok(index as usize),
        false => Err(StreamError::DramOutOfRange {
            at,
            memory,
            size,
            index,
        }),
    }
}

/// Everything on the chip.
struct Chip<'a> {
    uops_in_dram: &'a [Uop],
    uop: Sram<Uop>,
    inp: Sram<i8>,
    wgt: Sram<i8>,
    acc: Sram<i32>,
    out: Sram<i8>,
    batch: usize,
    block: usize,
    operations: u64,
}

impl<'a> Chip<'a> {
    fn new(profile: &Profile, uops: &'a [Uop]) -> Chip<'a> {
        let hardware = &profile.hardware;
        let [uop, wgt, inp, acc, out] = hardware.depths();
        let (batch, block) = (hardware.batch as usize, hardware.block as usize);
        Chip {
            uops_in_dram: uops,
            uop: Sram::new(MemoryType::Uop, uop, 1),
            inp: Sram::new(MemoryType::Inp, inp, batch * block),
            wgt: Sram::new(MemoryType::Wgt, wgt, block * block),
            acc: Sram::new(MemoryType::Acc, acc, batch * block),
            out: Sram::new(MemoryType::Out, out, batch * block),
            batch,
            block,
            operations: 0,
        }
    }

    fn step(
        &mut self,
        at: usize,
        instruction: &Instruction,
        dram: &mut Dram,
    ) -> Result<(), StreamError> {
        match &instruction.operation {
            Operation::Load(t) if t.columns == 0 => Ok(()),
            Operation::Load(t) => match t.memory {
                MemoryType::Uop => self.uop.load(at, t, self.uops_in_dram),
                MemoryType::Wgt => self.wgt.load(at, t, &dram.wgt),
                MemoryType::Inp => self.inp.load(at, t, &dram.inp),
                MemoryType::Acc => self.acc.load(at, t, &dram.acc),
                MemoryType::Out => Err(StreamError::Illegal {
                    at,
                    what: "the output memory cannot be loaded".to_owned(),
                }),
            },
            Operation::Store(t) if t.columns == 0 => Ok(()),
            Operation::Store(t) => self.store(at, t, &mut dram.out),
            Operation::Gemm { nest, reset, wgt } => self.gemm(at, nest, *reset, *wgt),
            Operation::Alu {
                nest,
                op,
                immediate,
            } => self.alu(at, nest, *op, *immediate),
            Operation::Finish => Ok(()),
        }
    }

    fn store(&mut self, at: usize, t: &Transfer, dram: &mut [i8]) -> Result<(), StreamError> {
        if t.memory != MemoryType::Out {
            return Err(StreamError::Illegal {
                at,
                what: format!("only OUT can be stored, and this stores {}", t.memory),
            });
        }
        let width = self.batch * self.block;
        let size = dram.len() / width;
        let mut place = u64::from(t.sram);
        for row in 0..u64::from(t.rows) {
            for column in 0..u64::from(t.columns) {
                let index = u64::from(t.dram) + row * u64::from(t.stride) + column;
                let begin = in_dram(at, t.memory, size, index)? * width;
                dram[begin..begin + width].copy_from_slice(self.out.read(at, place)?);
                place += 1;
            }
        }
        Ok(())
    }

    /// Calls `each` for every micro-op of a nest, with the places that it names and the iterations of the two loops.
    fn uops(
        &mut self,
        at: usize,
        nest: &Nest,
        mut each: impl FnMut(&mut Chip<'a>, [u64; 3], [u64; 2]) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        self.operations = self.operations.saturating_add(nest.operations());
        if self.operations > MAX_OPERATIONS {
            return Err(StreamError::TooLong {
                at,
                limit: MAX_OPERATIONS,
            });
        }
        let [outer, inner] = nest.iterations.map(u64::from);
        for o in 0..outer {
            for i in 0..inner {
                let moved = |steps: [u16; 2]| o * u64::from(steps[0]) + i * u64::from(steps[1]);
                let (dst, src) = (moved(nest.dst), moved(nest.src));
                for place in nest.begin..nest.end {
                    let uop = self.uop.read(at, u64::from(place))?[0];
                    let places = [
                        u64::from(uop.dst) + dst,
                        u64::from(uop.src) + src,
                        u64::from(uop.wgt),
                    ];
                    each(self, places, [o, i])?;
                }
            }
        }
        Ok(())
    }

    fn gemm(
        &mut self,
        at: usize,
        nest: &Nest,
        reset: bool,
        steps: [u16; 2],
    ) -> Result<(), StreamError> {
        let (batch, block) = (self.batch, self.block);
        self.uops(at, nest, |chip, [dst, src, wgt], [o, i]| {
            if reset {
                chip.acc.write(at, dst)?.fill(0);
                // The compute stage writes the output memory beside the accumulators.
                chip.out.write(at, dst)?.fill(0);
                return Ok(());
            }
            let wgt = wgt + o * u64::from(steps[0]) + i * u64::from(steps[1]);
            chip.acc.read(at, dst)?;
            let (inp, wgt) = (chip.inp.read(at, src)?, chip.wgt.read(at, wgt)?);
            let acc = chip.acc.write(at, dst)?;
            for b in 0..batch {
                let inp = &inp[b * block..][..block];
                for (o, acc) in acc[b * block..][..block].iter_mut().enumerate() {
                    let products = inp.iter().zip(&wgt[o * block..][..block]);
                    let sum: i32 = products.map(|(&x, &w)| i32::from(x) * i32::from(w)).sum();
                    *acc = acc.wrapping_add(sum);
                }
            }
            copy_low_bytes(acc, chip.out.write(at, dst)?);
            Ok(())
        })
    }

    fn alu(
        &mut self,
        at: usize,
        nest: &Nest,
        op: AluOp,
        immediate: Option<i16>,
    ) -> Result<(), StreamError> {
        let mut operand = vec![i32::from(immediate.unwrap_or_default()); self.batch * self.block];
        self.uops(at, nest, |chip, [dst, src, _], _| {
            if immediate.is_none() {
                operand.copy_from_slice(chip.acc.read(at, src)?);
            }
            chip.acc.read(at, dst)?;
            let acc = chip.acc.write(at, dst)?;
            for (a, &b) in acc.iter_mut().zip(&operand) {
                *a = match op {
                    AluOp::Min => (*a).min(b),
                    AluOp::Max => (*a).max(b),
                    AluOp::Add => a.wrapping_add(b),
                    AluOp::Shr => shift(*a, b),
                    AluOp::Mul => a.wrapping_mul(b),
                };
            }
            copy_low_bytes(acc, chip.out.write(at, dst)?);
            Ok(())
        })
    }
}

/// Shifts to the right, or to the left by a negative number. The hardware reads 5 bits of the number.
fn shift(value: i32, by: i32) -> i32 {
    match by >= 0 {
        true => value >> (by & 31),
        false => value << (by.wrapping_neg() & 31),
    }
}

fn copy_low_bytes(acc: &[i32], out: &mut [i8]) {
    for (out, acc) in out.iter_mut().zip(acc) {
        *out = *acc as i8;
    }
}
