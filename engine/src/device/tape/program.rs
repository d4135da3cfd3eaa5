//! The device's lowering: from a scheduled function to its tape, one symbol for each statement that would run.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use tvm_bridge::{IrModule, KernelModule};

use crate::device::{CompiledKernel, KernelCompiler, LoweredProgram, Program};

/// Tapes of compiled kernels, by function: a session computes times from them.
pub(super) type Tapes = Arc<Mutex<HashMap<String, u64>>>;

/// Lowers to tapes, and lets the host compile what is run.
pub(super) struct TapeCompiler {
    pub host: Arc<dyn KernelCompiler>,
    pub tapes: Tapes,
}

impl KernelCompiler for TapeCompiler {
    fn lower(&self, module: &IrModule) -> anyhow::Result<Box<dyn LoweredProgram + '_>> {
        Ok(Box::new(TapeProgram {
            tape: tape(&module.prim_func(tvm_bridge::ir::ENTRY)?.script()?),
            on_host: self.host.lower(module)?,
            tapes: &self.tapes,
        }))
    }

    fn load(&self, module: &IrModule) -> anyhow::Result<KernelModule> {
        self.host.load(module)
    }
}

/// A tape, and the host's form of the same program.
struct TapeProgram<'c> {
    tape: Vec<String>,
    on_host: Box<dyn LoweredProgram + 'c>,
    tapes: &'c Tapes,
}

/// The loops and assignments of a function as TVM prints it, in order.
fn tape(script: &str) -> Vec<String> {
    let lines = script.lines().map(str::trim);
    let is_symbol = |line: &&str| line.starts_with("for ") || line.contains("] = ");
    lines.filter(is_symbol).map(str::to_owned).collect()
}

impl LoweredProgram for TapeProgram<'_> {
    fn structural_hash(&self) -> anyhow::Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.tape.hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn statements(&self, _limit: u64) -> anyhow::Result<u64> {
        Ok(self.tape.len() as u64)
    }

    fn compile(self: Box<Self>, program: Program<'_>) -> anyhow::Result<CompiledKernel> {
        if let Ok(mut tapes) = self.tapes.lock() {
            tapes.insert(program.symbol.to_owned(), self.tape.len() as u64);
        }
        self.on_host.compile(program)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tape_has_the_loops_and_assignments_of_a_function() {
        let script = "def main(a: T.handle):\n    for i, j in T.grid(8, 8):\n        with T.sblock(\"b\"):\n            B[i, j] = A[i, j]\n";
        assert_eq!(
            super::tape(script),
            ["for i, j in T.grid(8, 8):", "B[i, j] = A[i, j]"]
        );
    }
}
