//! Instructions as text, one line each.

use std::fmt;

use super::{Instruction, Nest, Operation, Transfer};

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = self.tokens;
        let flag = |on: bool, mark: &'static str| if on { mark } else { "--" };
        let tokens = [
            flag(t.pop_prev, "<p"),
            flag(t.pop_next, "<n"),
            flag(t.push_prev, ">p"),
            flag(t.push_next, ">n"),
        ]
        .concat();
        match self.operation {
            Operation::Load(transfer) => write!(f, "LOAD  {tokens} {}", TransferText(transfer)),
            Operation::Store(transfer) => write!(f, "STORE {tokens} {}", TransferText(transfer)),
            Operation::Gemm { nest, reset, wgt } => {
                let reset = if reset { " reset" } else { "" };
                write!(
                    f,
                    "GEMM  {tokens} {}{reset} wgt {}+{}",
                    Loops(nest),
                    wgt[0],
                    wgt[1]
                )
            }
            Operation::Alu {
                nest,
                op,
                immediate,
            } => {
                write!(f, "ALU   {tokens} {} {}", Loops(nest), op.word())?;
                match immediate {
                    Some(value) => write!(f, " {value}"),
                    None => Ok(()),
                }
            }
            Operation::Finish => write!(f, "FINISH {tokens}"),
        }
    }
}

struct TransferText(Transfer);

impl fmt::Display for TransferText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.0;
        if t.columns == 0 {
            return write!(f, "{} nothing", t.memory);
        }
        write!(
            f,
            "{} sram {} dram {} rows {} of {} stride {}",
            t.memory, t.sram, t.dram, t.rows, t.columns, t.stride
        )?;
        if t.pad_rows != [0; 2] || t.pad_columns != [0; 2] {
            let ([top, bottom], [left, right]) = (t.pad_rows, t.pad_columns);
            write!(f, " pad {top},{bottom},{left},{right}")?;
        }
        Ok(())
    }
}

struct Loops(Nest);

impl fmt::Display for Loops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = &self.0;
        write!(
            f,
            "uops {}..{} loops {}x{} dst {}+{} src {}+{}",
            n.begin,
            n.end,
            n.iterations[0],
            n.iterations[1],
            n.dst[0],
            n.dst[1],
            n.src[0],
            n.src[1]
        )
    }
}
