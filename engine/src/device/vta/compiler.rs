//! Lowering by the simulator in place of TVM: from an annotated function to a kernel that VTA's instructions compute.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use serde_json::json;
use tvm_bridge::{IrModule, Kernel, KernelModule, PrimFunc, StageTimes};
use vtasim::timing::Simulated;
use vtasim::{Config, Profile, lower};

use super::arithmetic::{By, OwnScales, Quantisation, Quantised, SharedScales};
use super::chip::Chip;
use super::knobs::{TAIL, annotated};
use super::operator::{Offload, offload};
use crate::device::{
    Approximation, CompiledKernel, KernelCompiler, LoweredProgram, NotOnDevice, Program,
    SimulatedRun, Simulation,
};

/// Facts about operators, shared between the compiler and the session.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The scales of operators, by symbol: all schedules of one have the same.
    scales: Mutex<HashMap<String, SharedScales>>,
    /// The operators of the whole model that was loaded last.
    layers: Mutex<BTreeMap<String, Layer>>,
    /// Simulated time of the calls of whole models so far, nanoseconds.
    pub model_ns: AtomicU64,
    /// Whether calls widen their operator's ranges, and compute in plain loops.
    pub calibrating: AtomicBool,
}

/// An operator inside a whole model.
#[derive(Debug, Clone)]
struct Layer {
    config: Config,
    scales: SharedScales,
    simulated: Simulated,
    cpu_side: Vec<String>,
}

impl Known {
    fn scales(&self, symbol: &str) -> SharedScales {
        match self.scales.lock() {
            Ok(mut scales) => Arc::clone(scales.entry(symbol.to_owned()).or_default()),
            Err(_) => SharedScales::default(),
        }
    }

    /// The approximation of the whole model since the last call.
    pub fn approximation(&self) -> Approximation {
        let layers = self
            .layers
            .lock()
            .map(|layers| layers.clone())
            .unwrap_or_default();
        let layer = |(symbol, layer): (String, Layer)| {
            let scales = layer.scales.lock().ok().and_then(|scales| *scales);
            let value = json!({
                "symbol": symbol,
                "config": layer.config,
                "scales": scales,
                "simulated_ns": layer.simulated.total_ns,
                "cpu_side": cpu_side(&layer.cpu_side, scales),
            });
            (symbol, value)
        };
        Approximation {
            device_ns: self.model_ns.swap(0, Ordering::Relaxed) as f64,
            layers: layers.into_iter().map(layer).collect(),
        }
    }
}

/// The parts of an operator that run on the CPU side, including a rescaling of its result.
fn cpu_side(blocks: &[String], scales: Option<Quantisation>) -> Vec<String> {
    let rescaled = matches!(
        scales,
        Some(Quantisation::Own {
            own_scales: OwnScales::Rescaled,
            ..
        })
    );
    let rescaling = rescaled.then(|| "rescale".to_owned());
    blocks.iter().cloned().chain(rescaling).collect()
}

/// The compiler for one profile.
pub(super) struct VtaCompiler {
    pub profile: Arc<Profile>,
    pub chip: Chip,
    pub host: Arc<dyn KernelCompiler>,
    pub known: Arc<Known>,
}

impl VtaCompiler {
    fn offload(&self, function: &PrimFunc) -> anyhow::Result<Arc<Offload>> {
        let offload = offload(function, self.profile.hardware.block);
        Ok(Arc::new(offload.map_err(NotOnDevice)?))
    }

    /// A kernel of an operator.
    fn kernel(
        &self,
        symbol: &str,
        function: &PrimFunc,
        offload: &Arc<Offload>,
        scales: SharedScales,
        by: By,
    ) -> anyhow::Result<Quantised> {
        let rest = match &offload.rest {
            None => None,
            Some(rest) => {
                let left = function.rest_after(rest.statements, &rest.buffer, offload.data.0)?;
                let module = self.host.load(&left.without_symbol()?.to_module()?);
                let module = module.with_context(|| format!("the CPU's part of {symbol}"))?;
                Some(module.function(tvm_bridge::ir::ENTRY)?)
            }
        };
        Ok(Quantised {
            profile: Arc::clone(&self.profile),
            chip: self.chip.clone(),
            offload: Arc::clone(offload),
            scales,
            by,
            rest,
            known: Arc::clone(&self.known),
        })
    }

    fn simulate(&self, program: &vtasim::Program) -> anyhow::Result<Simulated> {
        let simulated = self.chip.simulate(&self.profile, program);
        simulated.map_err(anyhow::Error::msg)
    }

    fn program(&self, offload: &Offload, config: &Config) -> anyhow::Result<vtasim::Program> {
        Ok(lower(
            &self.profile.hardware,
            &offload.workload,
            config,
            TAIL,
        )?)
    }
}

impl KernelCompiler for VtaCompiler {
    fn lower(&self, module: &IrModule) -> anyhow::Result<Box<dyn LoweredProgram + '_>> {
        let function = module.prim_func(tvm_bridge::ir::ENTRY)?;
        let offload = self.offload(&function)?;
        let none = || NotOnDevice("no configuration of it fits the chip".to_owned());
        let config = annotated(&function)?.ok_or_else(none)?;
        Ok(Box::new(VtaProgram {
            program: self.program(&offload, &config)?,
            compiler: self,
            function,
            offload,
        }))
    }

    fn load(&self, module: &IrModule) -> anyhow::Result<KernelModule> {
        let mut natives: Vec<Kernel> = Vec::new();
        let mut on_host = Vec::new();
        for symbol in module.function_names()? {
            let function = module.prim_func(&symbol)?;
            let Some(config) = annotated(&function)? else {
                on_host.push(symbol);
                continue;
            };
            let offload = self.offload(&function)?;
            let program = self.program(&offload, &config)?;
            let simulated = self.simulate(&program)?;
            let ns = simulated.total_ns.round() as u64;
            let by = By::Instructions(Arc::new(program));
            let scales = SharedScales::default();
            let own = self.kernel(&symbol, &function, &offload, Arc::clone(&scales), by)?;
            if let Ok(mut layers) = self.known.layers.lock() {
                let layer = Layer {
                    config,
                    scales,
                    simulated,
                    cpu_side: offload.cpu_side(),
                };
                layers.insert(symbol.clone(), layer);
            }
            let kernel = own.into_kernel(&symbol);
            let known = Arc::clone(&self.known);
            natives.push(Kernel::native(&symbol, move |tensors| {
                known.model_ns.fetch_add(ns, Ordering::Relaxed);
                kernel
                    .bind(tensors)
                    .call()
                    .map_err(|error| error.to_string())
            }));
        }
        let host = match on_host.is_empty() {
            true => None,
            false => Some(self.host.load(&module.only(&on_host)?)?),
        };
        Ok(KernelModule::with_natives(host, natives))
    }

    fn reference(&self, symbol: &str, function: &PrimFunc) -> Option<anyhow::Result<Kernel>> {
        let kernel = self.offload(function).and_then(|offload| {
            let scales = self.known.scales(symbol);
            self.kernel(symbol, function, &offload, scales, By::PlainLoops)
        });
        Some(kernel.map(|kernel| kernel.into_kernel(symbol)))
    }
}

/// A lowered operator.
struct VtaProgram<'c> {
    compiler: &'c VtaCompiler,
    function: PrimFunc,
    offload: Arc<Offload>,
    program: vtasim::Program,
}

impl LoweredProgram for VtaProgram<'_> {
    fn structural_hash(&self) -> anyhow::Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.function.structural_hash()?.hash(&mut hasher);
        for instruction in &self.program.instructions {
            instruction
                .encode(self.compiler.profile.hardware.widths())
                .hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    /// Nothing is compiled but what is left for the CPU, so nothing is too large.
    fn statements(&self, _limit: u64) -> anyhow::Result<u64> {
        Ok(1)
    }

    fn compile(self: Box<Self>, program: Program<'_>) -> anyhow::Result<CompiledKernel> {
        let compiler = self.compiler;
        let simulated = compiler.simulate(&self.program)?;
        let scales = compiler.known.scales(program.symbol);
        let simulation = {
            let (scales, profile) = (Arc::clone(&scales), Arc::clone(&compiler.profile));
            let cpu_side = self.offload.cpu_side();
            // They are chosen at the first run.
            let chosen = move || scales.lock().ok().and_then(|scales| *scales);
            Simulation::of(move || SimulatedRun {
                total_ns: simulated.total_ns,
                host_ns: simulated.host_ns,
                cycles: simulated.cycles,
                bytes_read: simulated.bytes_read,
                bytes_written: simulated.bytes_written,
                limit: simulated.limit(&profile.hardware).word().to_owned(),
                cpu_side: self::cpu_side(&cpu_side, chosen()),
                quantisation: chosen().map(|quantisation| json!(quantisation)),
            })
        };
        let kernel = compiler.kernel(
            program.symbol,
            &self.function,
            &self.offload,
            scales,
            By::Instructions(Arc::new(self.program)),
        )?;
        Ok(CompiledKernel {
            kernel: Some(kernel.into_kernel(program.symbol)),
            times: StageTimes::default(),
            device_kernels: Vec::new(),
            simulation: Some(simulation),
        })
    }
}
