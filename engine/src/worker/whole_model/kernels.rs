//! Compiles the functions of whole models, and keeps them for models that differ in a few schedules.

use std::cell::RefCell;
use std::collections::HashMap;

use anyhow::Context;
use tvm_bridge::{IrModule, KernelModule};

use super::threads::on_threads;
use crate::device::KernelCompiler;

/// Compiled functions of the models of a worker, by structural hash.
///
/// The first model is compiled in one module a thread, the fastest way if there is no other. A second one is usually
/// the same model with other schedules. From then on each function is a module of its own, and is compiled once.
#[derive(Default)]
pub(in crate::worker) struct Kernels(RefCell<Option<HashMap<u64, KernelModule>>>);

impl Kernels {
    /// The compiled functions of a module; new ones are compiled on `jobs` threads.
    ///
    /// # Errors
    /// Fails if a function cannot be compiled.
    pub fn of(
        &self,
        functions: &IrModule,
        compiler: &dyn KernelCompiler,
        jobs: usize,
    ) -> anyhow::Result<Vec<KernelModule>> {
        let mut known = self.0.borrow_mut();
        let Some(known) = known.as_mut() else {
            *known = Some(HashMap::new());
            return compile(functions.distribute(jobs)?, compiler, jobs);
        };
        let modules = functions.distribute(functions.function_names()?.len())?;
        let hashes = modules.iter().map(IrModule::structural_hash);
        let hashes = hashes.collect::<tvm_bridge::Result<Vec<_>>>()?;
        let (new, missing): (Vec<_>, Vec<_>) = hashes
            .iter()
            .copied()
            .zip(modules)
            .filter(|(hash, _)| !known.contains_key(hash))
            .unzip();
        known.extend(new.into_iter().zip(compile(missing, compiler, jobs)?));
        hashes
            .iter()
            .map(|hash| known.get(hash).cloned().context("a compiled function"))
            .collect()
    }
}

/// Compiles modules on `jobs` threads; the results are in the same order.
///
/// # Errors
/// Fails if a module cannot be compiled.
fn compile(
    modules: Vec<IrModule>,
    compiler: &dyn KernelCompiler,
    jobs: usize,
) -> anyhow::Result<Vec<KernelModule>> {
    on_threads(modules, jobs, |module| compiler.load(&module))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tvm_bridge::{Target, vm};

    use super::*;
    use crate::device::{HostCompiler, LoweredProgram};

    /// The host's compiler, which counts the modules that it compiles.
    struct Counting(std::sync::Arc<dyn KernelCompiler>, AtomicUsize);

    impl KernelCompiler for Counting {
        fn lower(&self, module: &IrModule) -> anyhow::Result<Box<dyn LoweredProgram + '_>> {
            self.0.lower(module)
        }

        fn load(&self, module: &IrModule) -> anyhow::Result<KernelModule> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.load(module)
        }
    }

    #[test]
    fn from_the_second_model_on_each_function_is_compiled_once() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../collector/tests/fixtures");
        let functions_of = |model: &str, target: &Target| {
            let json = std::fs::read_to_string(folder.join(model).join("module.json")).unwrap();
            let module = IrModule::from_json(&json).unwrap();
            vm::generate(&module, target).unwrap().1
        };
        let target = Target::new(&json!({"kind": "llvm", "mcpu": "x86-64"})).unwrap();
        let compiler = Counting(HostCompiler::shared(&target), AtomicUsize::new(0));
        let kernels = Kernels::default();
        let compiled = |functions: &IrModule| {
            let before = compiler.1.load(Ordering::Relaxed);
            let modules = kernels.of(functions, &compiler, 2).unwrap();
            for name in functions.function_names().unwrap() {
                let with = modules.iter().filter(|m| m.function(&name).is_ok());
                assert_eq!(with.count(), 1, "{name}");
            }
            compiler.1.load(Ordering::Relaxed) - before
        };
        let [relu, dense] = ["elementwise", "dense"].map(|model| functions_of(model, &target));
        let counts = [&relu, &relu, &relu, &dense, &relu].map(compiled);
        assert_eq!(counts, [1, 1, 0, 1, 0]);
    }
}
