//! VTA's instructions of 128 bits and its micro-ops of 32: encoding, decoding, and as text.
//!
//! Layout, from the least significant bit (source: `hw_spec.h` of apache/tvm-vta): opcode 3; pop_prev, pop_next, push_prev,
//! push_next 1 each; then by opcode. Fields of [`Instruction`] stand in that order. Fields that name an element of a memory on
//! the chip are as wide as that memory is deep ([`Widths`]).

mod bits;
mod text;

use serde::{Deserialize, Serialize};

/// A field of an instruction that has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value} is unknown")]
pub struct UnknownField {
    /// The field.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
}

/// Bits of the fields that name elements of memories on the chip: of 13, 11, 11 and 10 in the 1x16 build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// Micro-ops; the end of a range has a bit more.
    pub uop: u32,
    /// Accumulators.
    pub acc: u32,
    /// Inputs.
    pub inp: u32,
    /// Weights.
    pub wgt: u32,
}

/// One of the three stages that instructions run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Loads inputs and weights.
    Load,
    /// Loads micro-ops and accumulators; multiplies, adds, compares.
    Compute,
    /// Stores outputs.
    Store,
}

impl Stage {
    /// All stages, in the order of the pipeline.
    pub const ALL: [Stage; 3] = [Stage::Load, Stage::Compute, Stage::Store];

    /// The stage's name in listings.
    pub const fn word(self) -> &'static str {
        match self {
            Stage::Load => "load",
            Stage::Compute => "compute",
            Stage::Store => "store",
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// The memories on the chip, by their numbers in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemoryType {
    /// Micro-ops.
    Uop,
    /// Weights.
    Wgt,
    /// Inputs.
    Inp,
    /// Accumulators.
    Acc,
    /// Outputs.
    Out,
}

impl MemoryType {
    pub(crate) const ALL: [MemoryType; 5] = [Self::Uop, Self::Wgt, Self::Inp, Self::Acc, Self::Out];

    /// The name of the memory in listings.
    pub const fn word(self) -> &'static str {
        ["UOP", "WGT", "INP", "ACC", "OUT"][self as usize]
    }
}

impl std::fmt::Display for MemoryType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// The tokens that an instruction waits for, and those that it sends at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Waits for the stage before.
    pub pop_prev: bool,
    /// Waits for the stage after.
    pub pop_next: bool,
    /// Tells the stage before.
    pub push_prev: bool,
    /// Tells the stage after.
    pub push_next: bool,
}

/// A load or a store of a rectangle; a load surrounds it with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The memory on the chip.
    pub memory: MemoryType,
    /// Address on the chip, in elements.
    pub sram: u16,
    /// Address in DRAM, in elements of the tensor.
    pub dram: u32,
    /// Rows.
    pub rows: u16,
    /// Elements of a row; 0 makes the instruction a carrier of tokens.
    pub columns: u16,
    /// Elements from one row to the next in DRAM.
    pub stride: u16,
    /// Rows of zeros above and below.
    pub pad_rows: [u8; 2],
    /// Elements of zeros left and right of each row.
    pub pad_columns: [u8; 2],
}

impl Transfer {
    /// Moves nothing.
    pub const fn nothing(memory: MemoryType) -> Transfer {
        Transfer {
            memory,
            sram: 0,
            dram: 0,
            rows: 0,
            columns: 0,
            stride: 0,
            pad_rows: [0; 2],
            pad_columns: [0; 2],
        }
    }

    /// Elements that are moved.
    pub fn elements(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }

    /// Elements that are written on the chip by a load.
    pub fn padded_elements(&self) -> u64 {
        let both = |pad: [u8; 2]| u64::from(pad[0]) + u64::from(pad[1]);
        (u64::from(self.rows) + both(self.pad_rows))
            * (u64::from(self.columns) + both(self.pad_columns))
    }
}

/// Two nested loops over a range of micro-ops, and the step of each loop in the addresses of micro-ops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nest {
    /// The first micro-op.
    pub begin: u16,
    /// Behind the last micro-op.
    pub end: u16,
    /// Iterations of the outer and the inner loop.
    pub iterations: [u16; 2],
    /// Steps of the accumulator.
    pub dst: [u16; 2],
    /// Steps of the input, or of the second accumulator.
    pub src: [u16; 2],
}

impl Nest {
    /// Micro-ops that are run in all.
    pub fn operations(&self) -> u64 {
        let uops = u64::from(self.end.saturating_sub(self.begin));
        uops * u64::from(self.iterations[0]) * u64::from(self.iterations[1])
    }
}

/// An operation of the ALU, by its number in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AluOp {
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// Sum.
    Add,
    /// Arithmetic shift to the right; to the left by a negative number.
    Shr,
    /// Product.
    Mul,
}

impl AluOp {
    pub(crate) const ALL: [AluOp; 5] = [Self::Min, Self::Max, Self::Add, Self::Shr, Self::Mul];

    /// The name of the operation in listings.
    pub const fn word(self) -> &'static str {
        ["MIN", "MAX", "ADD", "SHR", "MUL"][self as usize]
    }
}

/// An instruction's operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// A transfer from DRAM.
    Load(Transfer),
    /// A transfer to DRAM.
    Store(Transfer),
    /// Multiplies blocks and adds to accumulators, or sets them to 0.
    Gemm {
        /// The loops.
        nest: Nest,
        /// Whether accumulators are set to 0.
        reset: bool,
        /// Steps of the weight.
        wgt: [u16; 2],
    },
    /// Works on accumulators.
    Alu {
        /// The loops.
        nest: Nest,
        /// The operation.
        op: AluOp,
        /// The second operand. `None` if it is an accumulator.
        immediate: Option<i16>,
    },
    /// Tells the host that all is done.
    Finish,
}

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// Its tokens.
    pub tokens: Tokens,
    /// The operation.
    pub operation: Operation,
}

impl Instruction {
    /// Whether it only carries tokens.
    pub fn moves_nothing(&self) -> bool {
        match &self.operation {
            Operation::Load(transfer) | Operation::Store(transfer) => transfer.columns == 0,
            _ => false,
        }
    }

    /// The stage that runs it.
    pub fn stage(&self) -> Stage {
        match self.operation {
            Operation::Load(transfer) => match transfer.memory {
                MemoryType::Inp | MemoryType::Wgt => Stage::Load,
                _ => Stage::Compute,
            },
            Operation::Store(_) => Stage::Store,
            _ => Stage::Compute,
        }
    }
}

/// A micro-op: which accumulator, input and weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uop {
    /// Accumulator.
    pub dst: u16,
    /// Input, or accumulator of an ALU instruction.
    pub src: u16,
    /// Weight.
    pub wgt: u16,
}

impl Uop {
    /// The micro-op's word in a build with these widths.
    #[cfg(test)]
    pub fn word(self, widths: Widths) -> u32 {
        let (src, wgt) = (u64::from(self.src), u64::from(self.wgt));
        (u64::from(self.dst) | src << widths.acc | wgt << (widths.acc + widths.inp)) as u32
    }

    /// The micro-op of a word in a build with these widths.
    pub fn of_word(word: u32, widths: Widths) -> Uop {
        let field = |at: u32, width: u32| (u64::from(word) >> at & ((1 << width) - 1)) as u16;
        Uop {
            dst: field(0, widths.acc),
            src: field(widths.acc, widths.inp),
            wgt: field(widths.acc + widths.inp, widths.wgt),
        }
    }
}
