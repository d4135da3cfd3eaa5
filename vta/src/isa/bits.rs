//! Instructions as 128 bits.

use super::{
    AluOp, Instruction, MemoryType, Nest, Operation, Tokens, Transfer, UnknownField, Widths,
};

const LOAD: u64 = 0;
const STORE: u64 = 1;
const GEMM: u64 = 2;
const FINISH: u64 = 3;
const ALU: u64 = 4;

/// Writes fields from the least significant bit on.
#[derive(Default)]
struct Writer {
    bits: u128,
    at: u32,
}

impl Writer {
    fn put(&mut self, value: impl Into<u64>, width: u32) {
        let value = value.into() & ((1 << width) - 1);
        self.bits |= u128::from(value) << self.at;
        self.at += width;
    }

    fn skip_to(&mut self, at: u32) {
        self.at = at;
    }
}

/// Reads fields from the least significant bit on.
struct Reader {
    bits: u128,
    at: u32,
}

impl Reader {
    fn take(&mut self, width: u32) -> u64 {
        let value = (self.bits >> self.at) as u64 & ((1 << width) - 1);
        self.at += width;
        value
    }

    fn short(&mut self, width: u32) -> u16 {
        self.take(width) as u16
    }

    fn flag(&mut self) -> bool {
        self.take(1) == 1
    }

    fn pair(&mut self, width: u32) -> [u16; 2] {
        [self.short(width), self.short(width)]
    }
}

impl Instruction {
    /// The instruction's 128 bits in a build with these widths.
    pub fn encode(&self, widths: Widths) -> u128 {
        let mut w = Writer::default();
        let opcode = match self.operation {
            Operation::Load(_) => LOAD,
            Operation::Store(_) => STORE,
            Operation::Gemm { .. } => GEMM,
            Operation::Finish => FINISH,
            Operation::Alu { .. } => ALU,
        };
        w.put(opcode, 3);
        let t = self.tokens;
        for flag in [t.pop_prev, t.pop_next, t.push_prev, t.push_next] {
            w.put(flag, 1);
        }
        match self.operation {
            Operation::Load(t) | Operation::Store(t) => {
                w.put(t.memory as u64, 3);
                w.put(t.sram, 16);
                w.put(t.dram, 32);
                w.skip_to(64);
                for field in [t.rows, t.columns, t.stride] {
                    w.put(field, 16);
                }
                for pad in t.pad_rows.into_iter().chain(t.pad_columns) {
                    w.put(pad, 4);
                }
            }
            Operation::Gemm { nest, reset, wgt } => {
                put_nest(&mut w, widths, &nest, reset);
                for step in wgt {
                    w.put(step, widths.wgt);
                }
            }
            Operation::Alu {
                nest,
                op,
                immediate,
            } => {
                put_nest(&mut w, widths, &nest, false);
                w.put(op as u64, 3);
                w.put(immediate.is_some(), 1);
                w.put(immediate.unwrap_or_default() as u16, 16);
            }
            Operation::Finish => {}
        }
        w.bits
    }

    /// Decodes an instruction from 128 bits of a build.
    ///
    /// # Errors
    /// Fails if the opcode, the memory or the operation of the ALU is unknown.
    pub fn decode(bits: u128, widths: Widths) -> Result<Instruction, UnknownField> {
        let unknown = |what, value| UnknownField { what, value };
        let mut r = Reader { bits, at: 0 };
        let opcode = r.take(3);
        let tokens = Tokens {
            pop_prev: r.flag(),
            pop_next: r.flag(),
            push_prev: r.flag(),
            push_next: r.flag(),
        };
        let operation = match opcode {
            LOAD | STORE => {
                let memory = r.take(3);
                let memory = MemoryType::ALL
                    .get(memory as usize)
                    .copied()
                    .ok_or_else(|| unknown("memory type", memory))?;
                let (sram, dram) = (r.short(16), r.take(32) as u32);
                r.at = 64;
                let mut transfer = Transfer {
                    sram,
                    dram,
                    rows: r.short(16),
                    columns: r.short(16),
                    stride: r.short(16),
                    ..Transfer::nothing(memory)
                };
                transfer.pad_rows = r.pair(4).map(|pad| pad as u8);
                transfer.pad_columns = r.pair(4).map(|pad| pad as u8);
                match opcode {
                    LOAD => Operation::Load(transfer),
                    _ => Operation::Store(transfer),
                }
            }
            GEMM => {
                let (nest, reset) = take_nest(&mut r, widths);
                Operation::Gemm {
                    nest,
                    reset,
                    wgt: r.pair(widths.wgt),
                }
            }
            FINISH => Operation::Finish,
            ALU => {
                let (nest, _) = take_nest(&mut r, widths);
                let op = r.take(3);
                let op = AluOp::ALL
                    .get(op as usize)
                    .copied()
                    .ok_or_else(|| unknown("ALU operation", op))?;
                let uses_immediate = r.flag();
                let immediate = r.short(16) as i16;
                Operation::Alu {
                    nest,
                    op,
                    immediate: uses_immediate.then_some(immediate),
                }
            }
            other => return Err(unknown("opcode", other)),
        };
        Ok(Instruction { tokens, operation })
    }
}

fn put_nest(w: &mut Writer, widths: Widths, nest: &Nest, reset: bool) {
    w.put(reset, 1);
    w.put(nest.begin, widths.uop);
    w.put(nest.end, widths.uop + 1);
    for iterations in nest.iterations {
        w.put(iterations, 14);
    }
    w.skip_to(64);
    for (steps, width) in [(nest.dst, widths.acc), (nest.src, widths.inp)] {
        for step in steps {
            w.put(step, width);
        }
    }
}

fn take_nest(r: &mut Reader, widths: Widths) -> (Nest, bool) {
    let reset = r.flag();
    let (begin, end) = (r.short(widths.uop), r.short(widths.uop + 1));
    let iterations = r.pair(14);
    r.at = 64;
    let nest = Nest {
        begin,
        end,
        iterations,
        dst: r.pair(widths.acc),
        src: r.pair(widths.inp),
    };
    (nest, reset)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WIDTHS: Widths = Widths {
        uop: 13,
        acc: 11,
        inp: 11,
        wgt: 10,
    };

    proptest! {
        #[test]
        fn any_bits_decode_or_are_refused_and_what_decodes_encodes_to_itself(bits: u128) {
            if let Ok(instruction) = Instruction::decode(bits, WIDTHS) {
                let again = Instruction::decode(instruction.encode(WIDTHS), WIDTHS).unwrap();
                prop_assert_eq!(again, instruction);
            }
        }
    }

    #[test]
    fn unknown_fields_are_named() {
        let message = |bits: u128| Instruction::decode(bits, WIDTHS).unwrap_err().to_string();
        assert_eq!(message(5), "opcode 5 is unknown");
        assert_eq!(message(6 << 7), "memory type 6 is unknown");
        assert_eq!(message(4 | 7 << 108), "ALU operation 7 is unknown");
    }
}
