//! Streams in files: `{"insn": ["…"], "uop": [{"words": ["…"]}]}`, instructions of 128 bits and micro-ops of 32 as hex.
//!
//! The list `uop` has the micro-ops of the loads of micro-ops, in their order: their addresses are the driver's business.

use serde::Deserialize;

use crate::error::StreamError;
use crate::isa::{Instruction, MemoryType, Operation, Uop};
use crate::lower::Program;
use crate::profile::Hardware;

/// Maximum bytes of a stream's file.
pub const MAX_BYTES: u64 = 1 << 28;
/// Maximum number of instructions of a stream in a file.
const MAX_INSTRUCTIONS: usize = 1 << 22;

#[derive(Deserialize)]
struct File {
    insn: Vec<String>,
    #[serde(default)]
    uop: Vec<Words>,
}

#[derive(Deserialize)]
struct Words {
    words: Vec<String>,
}

/// Reads a stream.
///
/// # Errors
/// Fails if the text is not of that form, or an instruction is unknown; on one line.
pub fn read(text: &str, hardware: &Hardware) -> Result<Program, String> {
    let file: File = serde_json::from_str(text)
        .map_err(|error| format!("not a stream of VTA ({error}); expected {{\"insn\": [\"hex\", …], \"uop\": [{{\"words\": [\"hex\", …]}}, …]}}"))?;
    if file.insn.len() > MAX_INSTRUCTIONS {
        return Err(format!(
            "{} instructions, more than {MAX_INSTRUCTIONS}",
            file.insn.len()
        ));
    }
    let widths = hardware.widths();
    let mut program = Program {
        instructions: Vec::with_capacity(file.insn.len()),
        uops: Vec::new(),
        host_calls: 0,
    };
    let mut kernels = Vec::new();
    for kernel in &file.uop {
        kernels.push(program.uops.len());
        for word in &kernel.words {
            let word = u32::from_str_radix(word, 16)
                .map_err(|_| format!("the micro-op `{word:.40}` is no hex number of 32 bits"))?;
            program.uops.push(Uop::of_word(word, widths));
        }
    }
    let mut kernels = kernels.into_iter();
    for (at, hex) in file.insn.iter().enumerate() {
        let bits = u128::from_str_radix(hex, 16)
            .map_err(|_| format!("instruction {at}: `{hex:.40}` is no hex number of 128 bits"))?;
        let mut instruction = Instruction::decode(bits, widths)
            .map_err(|field| StreamError::Unknown { at, field }.to_string())?;
        if let Operation::Load(transfer) = &mut instruction.operation
            && transfer.memory == MemoryType::Uop
            && transfer.columns > 0
            && let Some(begin) = kernels.next()
        {
            transfer.dram = begin as u32;
        }
        program.instructions.push(instruction);
    }
    Ok(program)
}
