//! The driver's queue of instructions: it turns pushes and pops of tokens into flags of instructions around them.
//!
//! A pop is kept until the stage's next instruction and becomes its flag. A push becomes a flag of the last instruction if
//! that is the stage's own. Otherwise an instruction that moves nothing carries the flag. Source: `runtime.cc` of VTA.

use crate::error::Invalid;
use crate::isa::{Instruction, MemoryType, Operation, Stage, Tokens, Transfer};

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub instructions: Vec<Instruction>,
    /// Calls of the driver's interface.
    pub calls: u64,
    /// Pops that the next instruction of a stage takes: from the stage before, from the stage after.
    pending: [[bool; 2]; 3],
}

impl Queue {
    /// Appends an instruction of the program.
    pub fn emit(&mut self, operation: Operation) {
        self.calls += 1;
        self.append(operation);
    }

    /// Appends what the driver adds by itself, without a call.
    pub fn append(&mut self, operation: Operation) {
        let mut instruction = Instruction {
            tokens: Tokens::default(),
            operation,
        };
        let [prev, next] = std::mem::take(&mut self.pending[instruction.stage() as usize]);
        instruction.tokens.pop_prev = prev;
        instruction.tokens.pop_next = next;
        self.instructions.push(instruction);
    }

    /// The stage `to` waits for a token of `from`.
    pub fn pop(&mut self, from: Stage, to: Stage) {
        self.calls += 1;
        let side = usize::from(from > to);
        if self.pending[to as usize][side] {
            self.commit(to);
        }
        self.pending[to as usize][side] = true;
    }

    /// The stage `from` sends a token to `to`.
    pub fn push(&mut self, from: Stage, to: Stage) {
        self.calls += 1;
        self.commit(from);
        if let Some(last) = self.instructions.last_mut()
            && last.stage() == from
            && !last.moves_nothing()
        {
            let flag = match from < to {
                true => &mut last.tokens.push_next,
                false => &mut last.tokens.push_prev,
            };
            if !std::mem::replace(flag, true) {
                return;
            }
        }
        self.append(nothing(from));
        if let Some(carrier) = self.instructions.last_mut() {
            carrier.tokens.push_next = from < to;
            carrier.tokens.push_prev = from > to;
        }
    }

    /// Waits until all stages are done.
    pub fn synchronise(&mut self) {
        self.calls += 1;
        let calls = self.calls;
        for from in [Stage::Store, Stage::Load] {
            self.push(from, Stage::Compute);
        }
        for from in [Stage::Store, Stage::Load] {
            self.pop(from, Stage::Compute);
        }
        self.commit(Stage::Compute);
        self.append(Operation::Finish);
        self.calls = calls;
    }

    /// Gives pops that wait an instruction of their own.
    fn commit(&mut self, stage: Stage) {
        if self.pending[stage as usize] != [false; 2] {
            self.append(nothing(stage));
        }
    }
}

fn nothing(stage: Stage) -> Operation {
    match stage {
        Stage::Load => Operation::Load(Transfer::nothing(MemoryType::Inp)),
        Stage::Compute => Operation::Load(Transfer::nothing(MemoryType::Uop)),
        Stage::Store => Operation::Store(Transfer::nothing(MemoryType::Uop)),
    }
}

/// Checks that a value fits the `bits` bits of an instruction's field.
pub(super) fn field(what: &'static str, value: u64, bits: u32) -> Result<u64, Invalid> {
    match value < 1 << bits {
        true => Ok(value),
        false => Err(Invalid::Field { what, value }),
    }
}
